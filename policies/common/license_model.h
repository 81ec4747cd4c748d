/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Model: clock counters for CPUs without any. Each core's license is computed from the levels that
 * its threads' tasks are said to need, and cycles from the license. On a virtual machine this only
 * checks that all is wired up; on a real one it is a guess. Siblings write their core's state
 * without any order, so an update may be lost: that loses a stretch of time, no more.
 */
#pragma once
#include "license.h"
#include "clock_tables.h"

struct model_core {
	struct license license;
	struct clock_counts counts;
	u64 at_ns; /* the time up to which it is computed */
} __attribute__((aligned(64)));

CPU_TABLE(struct model_core, model_cores)

static __always_inline struct model_core *model_core_of(s32 cpu)
{
	struct clock_cpu *state = clock_cpu_of(cpu);

	return state ? model_cores_of(state->core) : NULL;
}

/* Cycles in this time at a clock. */
static __always_inline u64 cycles_in(u64 ns, u32 khz)
{
	return ns * khz / NS_PER_KHZ;
}

/* Lets time pass for a core, up to `now`. */
static __always_inline void model_pass(struct model_core *core, u64 now, u32 active)
{
	struct license *license = &core->license;
	u32 i;

	bpf_for(i, 0, LICENSE_STEPS) {
		u64 next = license_next(license), to = next < now ? next : now;
		u32 level = license->level;

		barrier_var(level);
		if (to > core->at_ns) {
			if (license->phase != LICENSE_HALTED && level < LICENSE_LEVELS)
				core->counts.cycles[level] +=
					cycles_in(to - core->at_ns, turbo_of(level, active));
			core->at_ns = to;
		}
		if (next > now)
			break;
		license_step(license, next);
	}
	core->at_ns = now;
}

/* The highest level that a thread of a CPU's core needs. */
static __always_inline u32 model_needs(s32 cpu)
{
	u32 needs = 0, at = cpu, i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		struct clock_cpu *state = clock_cpu_of(at);

		if (state && state->needs > needs)
			needs = state->needs;
		barrier_var(at);
		if (at >= MAX_CPUS)
			break;
		at = cpu_sibling[at];
		if ((s32)at == cpu)
			break;
	}
	return needs;
}

/* From now on a task that needs this level runs here; 0 also if no task runs. */
static __always_inline void model_run(s32 cpu, u32 needs, u32 active)
{
	struct clock_cpu *state = clock_cpu_of(cpu);
	struct model_core *core = model_core_of(cpu);
	u64 now;

	if (!state || !core)
		return;
	now = scx_bpf_now();
	model_pass(core, now, active);
	state->needs = needs;
	license_demand(&core->license, now, model_needs(cpu));
}

static __always_inline bool model_counts(s32 cpu, struct clock_counts *counts, u32 active)
{
	struct model_core *core = model_core_of(cpu);

	if (!core || !turbo_cores)
		return false;
	model_pass(core, scx_bpf_now(), active);
	*counts = core->counts;
	return true;
}
