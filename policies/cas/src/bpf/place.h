/* SPDX-License-Identifier: GPL-2.0 */
/* Place: which CPU a task that becomes runnable goes to, and whether it takes it from who runs there. */
#pragma once
#include "choose.h"
#include "account.h"
#include "place_home.h"
#include "place_idle.h"

#define NEAR 8	/* CPUs that a wakeup looks at: each may be a line of another's cache */

/* Whether all of a CPU's core is idle. */
static __always_inline bool core_idle(s32 cpu)
{
	s32 sibling = cpu;
	u32 i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		const struct cas_cpu *c = cpus_of(sibling);

		if (!c || c->running)
			return false;
		sibling = cpu_next_sibling(sibling);
		if (sibling == cpu)
			break;
	}
	return true;
}

/*
 * Claims an idle CPU that ran p's context last, if one is near; with the core to itself, for a warm TLB
 * does not make up for half of a core.
 */
static __always_inline s32 claim_in_context(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u32 i;

	for (i = 0; i < nr_cpus && i < NEAR; i++) {
		s32 cpu = cpu_neighbour(prev_cpu, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (c && !c->running && (c->here | c->tagged) >> slot & 1 && core_idle(cpu) &&
		    cpu_allowed(p, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* How many of a context are on a CPU: those that wait, and it that runs or ran last. */
static __always_inline u32 of_context(s32 cpu, const struct cas_cpu *c, u32 slot)
{
	u32 waiting = c->hint[slot & (SLOTS_MAX - 1)] ? scx_bpf_dsq_nr_queued(dsq_of(cpu, slot)) : 0;

	return waiting + (c->here >> slot & 1);
}

/*
 * Where the fewest wait, for a child where no CPU is idle [sched_balance_self]; of those, where siblings of a
 * core are to come together, the core with most of its context; of those, near first.
 */
static __always_inline s32 place_child(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u32 least = ~0U, most = 0, i;
	s32 best = prev_cpu;

	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++) {
		s32 cpu = cpu_neighbour(prev_cpu, i), beside;
		struct cas_cpu *c = cpus_of(cpu), *sibling;
		u32 count, same;

		if (!c || !cpu_allowed(p, cpu))
			continue;
		count = c->running + waiting(cpu, c);
		if (count > least)
			continue;
		beside = cpu_next_sibling(cpu);
		sibling = knob_smt ? cpus_of(beside) : NULL;
		same = sibling ? of_context(cpu, c, slot) + of_context(beside, sibling, slot) : 0;
		if (count < least || same > most) {
			least = count;
			most = same;
			best = cpu;
		}
	}
	return best;
}

/* The first CPU of a home where p should not wait for long, or a negative number. */
static __always_inline s32 place_at_home(struct task_struct *p, u32 home)
{
	u32 i;

	for (i = 0; i < HOME_CPUS_MAX && i < knob_aggregate; i++) {
		s32 cpu = home_cpu(home, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (!c || !cpu_allowed(p, cpu))
			continue;
		if ((core_idle(cpu) && scx_bpf_test_and_clear_cpu_idle(cpu)) ||
		    home_wait(slots_waiting(c) + 1, c->turn_ns) < HOME_WAIT_NS)
			return cpu;
	}
	return -1;
}

/* Has so many idle CPUs, near first, look for something to run. */
static __always_inline void kick_idle_cpus(s32 from, u32 count)
{
	u32 i;

	for (i = 1; i < nr_cpus && i < MAX_CPUS; i++) {
		s32 cpu = cpu_neighbour(from, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (!count)
			return;
		if (c && !c->running && scx_bpf_test_and_clear_cpu_idle(cpu)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
			count--;
		}
	}
}

/* Whether a task that became runnable takes the CPU from who runs. */
static __always_inline bool preempts(const struct cas_cpu *c, const struct cas_task *t, u32 slot,
				     u64 now)
{
	bool here = (c->here | c->tagged) >> slot & 1;
	u64 running;

	if (!c->running)
		return false;
	if (!knob_slack)
		return context_preempts(t->o1.prio, c->prio, here, knob_threshold);
	running = vtime_ran(c->running_key, now - c->since_ns, c->weight);
	return vtime_preempts(t->key, running, here, knob_slack, knob_slice_ns);
}
