/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Account: charges a task for its time since it was last charged, and finds which task needs a
 * level.
 */
#pragma once
#include "active_cores.h"
#include "detect_level.h"
#include "license_model.h"

/* Counters of a CPU, which only that CPU can read. False: there are none that work. */
static __always_inline bool counts_now(s32 cpu, struct clock_counts *counts)
{
	if (COUNTS_BY == COUNTED_MODEL)
		return model_counts(cpu, counts, active_cores(cpu));
	return cpu == this_cpu() && clock_counts(counts);
}

/* This CPU's counts since the last look. False if they cannot be read or went back. */
static __always_inline bool take_counts(s32 at, struct clock_cpu *cpu, struct clock_counts *since)
{
	struct clock_counts now = {};
	bool known = counts_now(at, &now), was = cpu->counts_known;
	u32 level;

	cpu->counts_known = known;
	if (!known)
		return false;
	for (level = 0; level < LICENSE_LEVELS; level++) {
		if (now.cycles[level] < cpu->counts.cycles[level])
			was = false;
		since->cycles[level] = now.cycles[level] - cpu->counts.cycles[level];
	}
	if (now.limited_ns < cpu->counts.limited_ns || now.energy_uj < cpu->counts.energy_uj)
		was = false;
	since->limited_ns = now.limited_ns - cpu->counts.limited_ns;
	since->energy_uj = now.energy_uj - cpu->counts.energy_uj;
	cpu->counts = now;
	return was;
}

/* Whether the model's cycles are checked against the CPU's own count of cycles. */
static __always_inline bool counts_cycles(void)
{
	return COUNTS_BY == COUNTED_MODEL && reads_counters;
}

/*
 * Cycles that this CPU counted since the last look. If it did not count, or the counter went back,
 * the result is larger than any real count.
 */
static __always_inline u64 take_cycles(s32 at, struct clock_cpu *cpu)
{
	u64 before = cpu->cycles, now = 0;

	if (at != this_cpu() || !clock_cycles(&now))
		now = 0;
	cpu->cycles = now;
	return before && now >= before ? now - before : ~0ULL;
}

#define POWER_MEAN_NS 20000000ULL /* how far back a task's mean power reaches */

/* The weight of a stretch of time in a mean, in 1/1024. */
static __always_inline u64 mean_part(u64 ran_ns, u64 over_ns)
{
	u64 part = ran_ns * 1024 / over_ns;

	return part < 1024 ? part : 1024;
}

static __always_inline u64 mean_of(u64 mean, u64 value, u64 part)
{
	return mean ? mean + (value * part >> 10) - (mean * part >> 10) : value;
}

static __always_inline void power_learn(struct clock_task *task, u64 ran_ns, u64 energy_uj)
{
	u64 mw = ran_ns ? energy_uj * 1000000 / ran_ns : 0; /* uJ in ns are 1e9 uW */

	if (!mw)
		return;
	task->mw = mean_of(task->mw, mw, mean_part(ran_ns, POWER_MEAN_NS));
	mean_mw = mean_of(mean_mw, task->mw, mean_part(ran_ns, 4 * POWER_MEAN_NS * nr_cpus));
}

/*
 * The most that a task can have lost by the counted cycles, if the cycles of each level are
 * modelled. 0 if the count is so low that the model's licenses do not explain it.
 */
static __always_inline u64 modelled_lost(const struct charge_of *of, u64 cycles)
{
	if (held_back(of->cycles[0] + of->cycles[1] + of->cycles[2], cycles))
		return 0;
	return charge_lost(of->ran_ns, cycles, own_khz(of));
}

/* The charge for a stretch of a task's time, ns. */
static __always_inline u64 charge_for(struct clock_task *task, struct charge_of *of,
				      const struct clock_counts *since, u64 cycles)
{
	u64 ran_ns = of->ran_ns, refund, extra;

	if (CHARGES_BY == CHARGE_ENERGY)
		return task->mw && mean_mw ? ran_ns * task->mw / mean_mw : ran_ns;
	of->level = task->level;
	if (license_levels == 1 && CHARGES_BY == CHARGE_BOTH)
		return charge_drawn(ran_ns, since->limited_ns, of->cycles[0], of->khz[0], task->mw,
				    mean_mw);
	refund = license_levels > 1 ? charge_refund(of)
				    : charge_limited(ran_ns, since->limited_ns, of->cycles[0],
						     of->khz[0], task->mw, mean_mw);
	if (counts_cycles())
		refund = least_of(refund, modelled_lost(of, cycles));
	if (refund > knob_slice_ns)
		refund = knob_slice_ns;
	extra = CHARGES_BY == CHARGE_BOTH ? charge_extra(of) : 0;
	if (refund)
		__sync_fetch_and_add(&refunded_ns, refund);
	if (extra)
		__sync_fetch_and_add(&surcharged_ns, extra);
	return ran_ns - refund + extra;
}

/*
 * Whether there is nothing to refund, as in most stretches: no cycles above the lowest level. With
 * DETECT_TRAP a stretch is always processed, as the traps have to be armed again.
 */
static __always_inline bool is_plain(const struct clock_counts *since)
{
	return license_levels > 1 && CHARGES_BY == CHARGE_VICTIM && DETECTS_BY != DETECT_TRAP &&
	       !(since->cycles[1] | since->cycles[2]);
}

/* The control arm needs no counters, except the model's: tasks' progress is computed from them. */
static __always_inline bool counts_wanted(void)
{
	return CHARGES_BY != CHARGE_OFF || COUNTS_BY == COUNTED_MODEL;
}

/* Fills in what was counted in a stretch of time, at the clocks of this many active cores. */
static __always_inline void stretch_of(struct charge_of *of, u64 ran_ns,
				       const struct clock_counts *since, u32 active)
{
	u32 level;

	of->ran_ns = ran_ns;
	turbo_between(active, of->khz);
	for (level = 0; level < LICENSE_LEVELS; level++)
		of->cycles[level] = since->cycles[level];
	charge_took(of);
}

/*
 * What a task has to pay for the last `ran_ns` on a CPU, ns. Fills in what was counted in that
 * time.
 */
static __always_inline u64 clock_charge(struct clock_task *task, const struct task_slot *slot,
					s32 at, u64 ran_ns, u64 now, struct charge_of *of)
{
	struct clock_cpu *cpu = clock_cpu_of(at);
	struct clock_counts since = {};
	u32 active, may_need = 0;
	u64 cycles = 0;
	bool counted, plain;

	if (!cpu || !counts_wanted())
		return ran_ns;
	active = take_active(at, cpu, now - ran_ns, now);
	counted = take_counts(at, cpu, &since);
	if (counts_cycles())
		cycles = take_cycles(at, cpu);
	if (!counted)
		return ran_ns;
	stretch_of(of, ran_ns, &since, active);
	if (CHARGES_BY == CHARGE_OFF)
		return ran_ns;
	plain = is_plain(&since);
	if (DETECTS_BY == DETECT_OBSERVED && license_levels > 1 && plain)
		observe_plain(task, cpu, now, ran_ns);
	else if (DETECTS_BY == DETECT_OBSERVED && license_levels > 1)
		may_need = observe(task, cpu, at, level_told(slot), now, of);
	if (license_levels == 1 || CHARGES_BY == CHARGE_ENERGY)
		power_learn(task, ran_ns, since.energy_uj);
	if (plain)
		return ran_ns;
	detect(task, slot, may_need);
	return charge_for(task, of, &since, cycles);
}

/* p starts here: counts from before belong to another task. */
static __always_inline void clock_start(struct task_struct *p, s32 at, u64 now)
{
	struct clock_cpu *cpu = clock_cpu_of(at);
	struct clock_counts since = {};
	u64 known = 0;

	if (!cpu)
		return;
	if (counts_wanted())
		take_active(at, cpu, now, now);
	if (DETECTS_BY == DETECT_SAVED) {
		struct clock_task *task = clock_task_of(p);

		if (task) {
			saved_learn(p, task);
			known = known_of(task, task_slot(p));
		}
	}
	if (COUNTS_BY == COUNTED_MODEL) {
		if (DETECTS_BY != DETECT_SAVED)
			known = level_told(task_slot(p));
		model_run(at, known ? known - 1 : 0, active_cores(at));
	}
	if (DETECTS_BY == DETECT_OBSERVED) {
		watch_again(cpu, now);
		/* Only sibling threads read it. */
		if (has_sibling(at)) {
			struct clock_task *task = clock_task_of(p);

			cpu->known = task ? known_of(task, task_slot(p)) : 0;
		}
	}
	if (counts_wanted())
		take_counts(at, cpu, &since);
	if (counts_cycles())
		take_cycles(at, cpu);
	if (CHARGES_BY != CHARGE_OFF)
		start_detecting();
}
