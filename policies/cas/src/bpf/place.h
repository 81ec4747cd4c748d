/* SPDX-License-Identifier: GPL-2.0 */
/* Place: which CPU a runnable task goes to, and whether it preempts the task there. */
#pragma once
#include "choose.h"
#include "account.h"
#include "place_home.h"
#include "place_idle.h"
#include "cpus.h"

#define NEAR  8 /* CPUs that a wakeup examines for its context: each may cost a cache miss */
#define REACH 16 /* CPUs examined for an idle core: rarely, and some are siblings */

/* Whether a CPU's whole core is idle. */
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

/* Claims a CPU with an idle core for p, under the same cache as `from`. */
static __always_inline bool claim_core(struct task_struct *p, s32 cpu, s32 from)
{
	return cpu_cache(cpu) == cpu_cache(from) && cpu_takes(p, cpu) && core_idle(cpu) &&
	       scx_bpf_test_and_clear_cpu_idle(cpu);
}

/*
 * Claims an idle CPU nearby that last ran p's context, if its core is fully idle: a warm TLB does
 * not make up for half of a core.
 */
static __always_inline s32 claim_in_context(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u32 i;

	for (i = 0; i < nr_cpus && i < NEAR; i++) {
		s32 cpu = cpu_neighbour(prev_cpu, i);
		struct cas_cpu *c = cpus_of(cpu);

		if (c && (c->here | c->tagged) >> slot & 1 && claim_core(p, cpu, prev_cpu))
			return cpu;
	}
	return -1;
}

/* How many tasks of a context are on a CPU: waiting ones, and 1 if it runs or last ran there. */
static __always_inline u32 of_context(s32 cpu, const struct cas_cpu *c, u32 slot)
{
	u32 waiting =
		c->hint[slot & (SLOTS_MAX - 1)] ? scx_bpf_dsq_nr_queued(dsq_of(cpu, slot)) : 0;

	return waiting + (c->here >> slot & 1);
}

/*
 * How crowded a CPU is, by its number of tasks. Among CPUs with as many, more tasks of the context
 * make it less crowded.
 */
__noinline u64 crowd_at(s32 cpu, u32 slot)
{
	s32 beside = cpu_next_sibling(cpu);
	struct cas_cpu *c = cpus_of(cpu), *sibling = knob_smt ? cpus_of(beside) : NULL;
	u32 same = 0;

	if (!c)
		return ~0ULL;
	if (sibling)
		same = of_context(cpu, c, slot & (SLOTS_MAX - 1)) +
		       of_context(beside, sibling, slot & (SLOTS_MAX - 1));
	return ((u64)(runs_other(c) + waiting(cpu) + 1) << 32) - same;
}

/*
 * The CPU for a child if no CPU is idle: where the fewest tasks wait [sched_balance_self]. If
 * siblings of a core should run the same context, the core with most of its context is next, then
 * the nearest.
 */
static __always_inline s32 place_child(struct task_struct *p, s32 prev_cpu, u32 slot)
{
	u64 fewest = ~0ULL;
	s32 at = prev_cpu;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(prev_cpu, i);
		u64 crowd;

		if (!cpu_takes(p, cpu))
			continue;
		crowd = crowd_at(cpu, slot);
		if (crowd < fewest) {
			fewest = crowd;
			at = cpu;
		}
	}
	return at;
}

/* Whether another hardware thread of a CPU's core runs another context. */
static __always_inline bool core_is_shared(s32 cpu, u32 slot)
{
	s32 sibling = cpu;
	u32 i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		const struct cas_cpu *c;

		sibling = cpu_next_sibling(sibling);
		c = cpus_of(sibling);
		if (sibling == cpu || !c)
			break;
		if (c->running && !(c->here >> slot & 1))
			return true;
	}
	return false;
}

/* Claims another CPU with an idle core, nearest first; negative if there is none. */
static __always_inline s32 claim_other_core(struct task_struct *p, s32 from)
{
	u32 i;

	for (i = 1; i < nr_cpus && i < REACH; i++) {
		s32 cpu = cpu_neighbour(from, i);

		if (claim_core(p, cpu, from))
			return cpu;
	}
	return -1;
}

/*
 * Whether more than HOME_CONTEXTS contexts wait on a CPU, or a task that comes there would wait for
 * longer than a home is worth.
 */
__noinline bool home_is_full(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot, tasks = 1, contexts = 0;

	if (!c)
		return true;
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++) {
		if (!c->hint[slot])
			continue;
		contexts++;
		if (contexts > HOME_CONTEXTS)
			return true;
		tasks += scx_bpf_dsq_nr_queued(dsq_of(cpu, slot));
	}
	return home_wait(tasks, c->turn_ns) >= HOME_WAIT_NS;
}

/*
 * The first CPU of a home where p should not wait for long; negative if none. A home on a core that
 * also runs another context moves to an idle core, if there is one.
 */
static __always_inline s32 place_at_home(struct task_struct *p, u32 home, u32 slot)
{
	u32 i;

	for (i = 0; i < HOME_CPUS_MAX && i < knob_aggregate; i++) {
		s32 cpu = home_cpu(home, i);

		if (cpu < 0 || !cpu_takes(p, cpu))
			continue;
		if (core_is_shared(cpu, slot)) {
			s32 other = claim_other_core(p, cpu);

			if (other >= 0) {
				move_home(home, other);
				return other;
			}
		}
		if ((core_idle(cpu) && scx_bpf_test_and_clear_cpu_idle(cpu)) || !home_is_full(cpu))
			return cpu;
	}
	return -1;
}

/* Kicks idle CPUs, so that they look for the tasks that wait on this one. */
__noinline int kick_idle_cpus(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot;

	if (c && (slots_waiting(cpu) || c->idle_due_ns))
		note_waiting(cpu);
	for (slot = 0; c && slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (c->hint[slot] && !place_kick_for(dsq_of(cpu, slot)))
			return 0;
	if (c && c->idle_due_ns)
		place_kick_for(dsq_of_idle(cpu));
	return 0;
}

/* Whether a task that became runnable preempts the running one. */
static __always_inline bool preempts(const struct cas_cpu *c, const struct cas_task *t,
				     const struct task_struct *p, u32 slot, u64 now)
{
	bool here = (c->here | c->tagged) >> slot & 1;
	u64 running;

	if (!c->running)
		return false;
	if (is_later(c, t->key))
		return c->prio == O1_PRIO_IDLE;
	if (!knob_slack)
		return context_preempts(t->o1.prio, c->prio, here, knob_threshold);
	if (c->prio == O1_PRIO_IDLE || !task_preempts(p))
		return c->prio == O1_PRIO_IDLE;
	running = vtime_ran(c->running_key, elapsed_ns(c->since_ns, now), c->weight);
	return vtime_preempts(t->key, running, here, knob_slack, knob_slice_ns);
}

/*
 * The CPU for a woken task: at home, an idle one of its context, any idle one, or one that runs a
 * SCHED_IDLE task. If there is none, where its context runs.
 */
static __always_inline s32 place(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct cas_cpu *c = cpus_of(this_cpu()), *prev = cpus_of(prev_cpu);
	bool has_home = false;
	u32 home = 0, slot = SLOT_KERNEL;
	s32 cpu = -1;

	if (c && nr_cpus > 1 && knob_threshold != THRESHOLD_OFF) {
		c->woken_mm = (u64)p->mm;
		slot = slot_at(c->woken_mm, scx_bpf_now());
		has_home = knob_aggregate && c->woken_mm;
		if (has_home) {
			home = home_of(c->woken_mm);
			cpu = place_at_home(p, home, slot);
			if (cpu >= 0)
				return cpu;
		}
		cpu = claim_in_context(p, prev_cpu, slot);
	}
	if (cpu < 0)
		cpu = place_idle_near(p, prev_cpu, wake_flags);
	if (cpu >= 0) {
		if (has_home)
			move_home(home, cpu);
		return cpu;
	}
	cpu = claim_cpu_of_idle_task(p, prev_cpu);
	if (cpu >= 0)
		return cpu;
	if (c && wake_flags & SCX_WAKE_FORK)
		return place_child(p, prev_cpu, slot);
	/*
	 * All CPUs are busy. With a waker of its context p waits there, rather than for a switch of
	 * context.
	 */
	if (slot != SLOT_KERNEL && c && c->here >> slot & 1 && prev && !(prev->here >> slot & 1) &&
	    cpu_takes(p, this_cpu()))
		return this_cpu();
	return cpu_is_taken(prev_cpu) ? place_child(p, prev_cpu, slot) : prev_cpu;
}
