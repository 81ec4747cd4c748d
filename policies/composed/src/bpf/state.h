/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of each task and each CPU, and what a run costs. */
#pragma once
#include "clock_state.h"
#include "counters.h"
#include "cpus.h"
#include "domain.h"
#include "knobs.h"
#include "shares.h"
#include "swap.h"
#include "limit.h"
#include "task_table.h"
#include "topology.h"

/* A woken task comes before a running one, which may itself be behind by four slices [vtime.h]. */
#define VTIME_BEHIND 6
/* As Linux's own class has it [entity_lag]. */
#define VTIME_LAGS 2
/* Others may wake on its CPU at the same time: they would wait until it has caught up. */
#define VTIME_SLEPT VTIME_LAGS
#include "vtime.h"

struct pl_task {
	struct wants wants;
	struct clock_task clock;
};

TASK_STORAGE(struct pl_task, tasks)

/* Written by its own CPU. Other CPUs read it, and write `vtime` [preempt.h] and `leaves`. */
struct pl_cpu {
	struct share_cpu share;
	u64 began_ns; /* when the running task's turn began */
	u64 since_ns; /* when it was last charged */
	struct count counted; /* this CPU's count at that time */
	u64 vtime; /* of the running task, at since_ns; VTIME_IDLE: none */
	u64 present; /* the same, without regard to a task that preempts it */
	u64 floor; /* what its tasks have had at least, but for what those lack that slept */
	u64 left_ns; /* when a task last went home from here */
	u64 looks_ns; /* when its timer looks whether the running task goes on; 0: it does not */
	s32 leaves; /* the task that goes home from here at the next chance */
	s32 home; /* the domain of the running task; NO_DOMAIN: none */
	bool light; /* whether the running task's turns are very short */
	bool passed; /* whether a task has come since that one started, and needs no queue */
	bool filled; /* whether tasks may wait in this CPU's queue; others set it */
	u64 mm; /* the address space that it is in, if several tasks have that; 0: none */
	u32 tried; /* tasks that were looked at in search of a sibling */
	u32 looks; /* how often this CPU has looked at another one's queue */
	struct clock_cpu clock;
} __attribute__((aligned(64)));

CPU_TABLE(struct pl_cpu, cpus)

#include "clock_account.h"

/* Whether clocks are known, so that what others took from a task's can be. */
static __always_inline bool knows_clocks(void)
{
	return turbo_cores && knob_charge != OFF;
}

/* Whether tasks are charged for less than their time if others slow them down. */
static __always_inline bool charges_clocks(void)
{
	return knows_clocks() && task_table.working & WORKS_CHARGE;
}

/*
 * Whether tasks get shares of kinds of cores. Where the constants say no, the verifier drops all
 * that follows.
 */
static __always_inline bool shares_kinds(void)
{
	return nr_types > 1 && knob_share != OFF && task_table.working & WORKS_SHARE;
}

/* Whether instructions are counted: on each kind of core, also while shares are off for a trial. */
static __always_inline bool counts_work(void)
{
	return nr_types > 1 && knob_share != OFF && reads_counters;
}

/* Whether tasks belong to memory domains. */
static __always_inline bool has_homes(void)
{
	return knob_place != OFF && task_table.working & WORKS_PLACE;
}

/* The domain that a task belongs to, if it has a CPU for p. p's affinity may have changed since. */
static __always_inline s32 home_in(struct task_struct *p, const struct task_slot *slot)
{
	s32 home = slot ? domain_of_share(slot->home) : NO_DOMAIN;

	if (home == NO_DOMAIN)
		return home;
	if (home < 32 && !(slot->domains >> (home & 31) & 1))
		return NO_DOMAIN;
	return nr_away && !domain_takes(p, home) ? NO_DOMAIN : home;
}

static __always_inline s32 home_of(struct task_struct *p)
{
	return has_homes() ? home_in(p, task_slot(p)) : NO_DOMAIN;
}

/* The kind of core that p is most behind on. */
static __always_inline u32 kind_next(struct task_struct *p)
{
	struct pl_task *task = shares_kinds() ? tasks_of(p) : NULL;

	return task ? share_next(&task->wants, nr_types) : 0;
}

/* Shorter turns are short: the task sleeps before one slice is over, or soon after. */
static __always_inline u64 short_turn(void)
{
	return knob_slice_ns + knob_slice_ns / 2;
}

/* Whether a task ends its turns by itself. */
static __always_inline bool has_short_turns(const struct task_slot_of *of)
{
	return of && of->turn_ns < short_turn();
}

/* Whether p has shown short turns: it gains little from a fast core, and leaves it to others. */
static __always_inline bool is_brief(struct task_struct *p)
{
	struct task_slot_of *of = task_slots_of(p);

	return has_short_turns(of) && has_run(of);
}

/* To wait for a turn this short costs less than to go to another CPU. */
#define LIGHT_NS 200000

/* Light path: whether a task has shown very short turns. */
static __always_inline bool is_light(const struct task_slot_of *of)
{
	return has_run(of) && of->turn_ns < LIGHT_NS;
}

/* Notes how long the turns of the task that runs on a CPU are. */
static __always_inline void note_turns(struct pl_cpu *cpu, const struct task_slot_of *of)
{
	cpu->share.brief = has_short_turns(of);
	cpu->light = is_light(of);
}

/*
 * The kind of core that p waits for: that of its last CPU, unless it is behind on another by half a
 * round. A task that runs briefly need not move for each of its turns.
 */
static __always_inline u32 kind_of(struct task_struct *p)
{
	struct pl_task *task = shares_kinds() ? tasks_of(p) : NULL;
	u32 own = cpu_kind(scx_bpf_task_cpu(p)), next = kind_next(p);

	return task && move_gain(&task->wants, own, next) > (s64)(knob_round_ns / 2) ? next : own;
}

/* Kinds of cores that p may run on, a bit for each. */
static __always_inline u32 kinds_of(const struct task_struct *p)
{
	u32 kinds = 0, i;

	bpf_for(i, 0, nr_cpus)
		kinds |= (u32)cpu_allowed(p, i) << cpu_kind(i);
	return kinds;
}

/* Tells the control plane how many CPUs of each kind and of each domain are online. */
static __always_inline int count_places(void)
{
	count_kinds();
	return count_domains(true);
}

/* Whether tasks of the address space that a CPU is in go before others, within a slice. */
static __always_inline bool orders_contexts(void)
{
	return knob_order != OFF && task_table.working & WORKS_ORDER;
}

/* Charges p for its time on a CPU since the last charge. */
static __always_inline void charge_time(struct task_struct *p, s32 at)
{
	struct pl_cpu *cpu = cpus_of(at);
	struct task_slot_of *of = task_slots_of(p);
	struct task_slot *slot = slot_in(of);
	struct pl_task *task = shares_kinds() || charges_clocks() ? tasks_of(p) : NULL;
	u64 now = scx_bpf_now(), ran_ns, charge_ns;
	u32 kind = cpu_kind(at);

	if (!cpu)
		return;
	ran_ns = charge_ns = elapsed_ns(cpu->since_ns, now);
	cpu->since_ns = now;
	if (task && charges_clocks()) {
		struct charge_of of = {};

		barrier_var(task); /* the same as in clock_task_of */
		charge_ns = clock_charge(&task->clock, slot, at, ran_ns, now, &of);
	}
	cpu->vtime = vtime_run(p, of, vtime_of(charge_ns, vtime_weight_of(p, slot)), knob_slice_ns);
	cpu->present = cpu->vtime;
	if (of) {
		vtime_note_turn(of, at, ran_ns, now);
		note_turns(cpu, of);
	}
	if (slot) {
		task_charge(slot, p, ran_ns);
		slot->ran_ns.of[kind] += ran_ns;
	}
	if (slot && counts_work() && at == this_cpu()) {
		struct count before = cpu->counted;

		cpu->counted = cpu_count();
		count_into(slot, kind, before, cpu->counted);
	}
	if (!task || !shares_kinds())
		return;
	share_charge(&task->wants, shares_of(slot), kind, ran_ns, 4 * knob_round_ns);
	cpu->share.wants = task->wants;
}
