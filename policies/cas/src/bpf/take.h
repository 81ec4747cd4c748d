/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Take: a CPU with nothing to run takes a task of another CPU, in the order of share.h. Now and
 * then a CPU with fewer tasks than another takes one, too. Threads that are forked one by one,
 * block, and all get work at once leave CPUs unevenly loaded. While no CPU runs out of work, that
 * would stay so.
 */
#pragma once
#include "choose.h"
#include "share.h"
#include "account.h"

#define BALANCE_NS 64000000ULL /* [rebalance_tick] of busy CPUs: some ms times busy_factor */

/* Which of these slots of another CPU has most waiting tasks: fewer context changes follow. */
__noinline u32 fullest(s32 victim, u32 slots)
{
	struct cas_cpu *theirs = cpus_of(victim);
	u32 slot, best = SLOT_KERNEL;
	s32 most = 0;

	if (!theirs)
		return best;
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++) {
		s32 queued;

		if (!(slots >> slot & 1) || !theirs->hint[slot])
			continue;
		queued = scx_bpf_dsq_nr_queued(dsq_of(victim, slot));
		if (queued > most) {
			most = queued;
			best = slot;
		}
	}
	return best;
}

/* Takes the first task of a queue that may run here. */
static __always_inline bool take_first(struct cas_cpu *own, struct cas_cpu *theirs, s32 victim,
				       u32 slot)
{
	if (!theirs->hint[slot] || !scx_bpf_dsq_move_to_local(dsq_of(victim, slot)))
		return false;
	__sync_fetch_and_or(&theirs->stale, 1u << slot);
	own->takes_home = knob_aggregate && slots_waiting(victim) > 1;
	return true;
}

/* Takes a task of this class that waits on `victim` and may run here. Whether there was one. */
__noinline int take(s32 cpu, s32 victim, u32 class)
{
	struct cas_cpu *own = cpus_of(cpu), *theirs = cpus_of(victim);
	u32 slots, first, slot;

	if (!own || !theirs)
		return 0;
	slots = share_slots(class, own->here, theirs->here);
	first = class == SHARE_OWN ? own->slot : fullest(victim, slots);
	first &= SLOTS_MAX - 1;
	if (take_first(own, theirs, victim, first))
		return 1;
	slots &= ~(1u << first);
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (slots >> slot & 1 && take_first(own, theirs, victim, slot))
			return 1;
	return 0;
}

/* Takes a task of any class. Returns whether there was one. */
static __always_inline bool take_any(s32 cpu, s32 victim)
{
	u32 class;

	for (class = SHARE_OWN; class < SHARE_CLASSES; class ++)
		if (take(cpu, victim, class))
			return true;
	return false;
}

/* How many tasks are runnable on a CPU; 0 if it is unavailable, as others take its tasks anyway. */
static __always_inline u32 load_of(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);

	return cpu_is_away(cpu) ? 0 : waiting(cpu) + (c && runs_other(c));
}

/*
 * [load_balance] Takes a task from the CPU with most tasks, if it has at least two more than this
 * one, which has `mine`. One more would only reverse the imbalance. If all tasks there are pinned,
 * takes from another CPU [all_pinned]. Returns whether there was one.
 */
__noinline int take_from_busiest(s32 cpu, u32 mine)
{
	s32 busiest = -1, other = cpu;
	u32 most = mine + 1, i;

	for_each_waiting(i, other, cpu) {
		u32 load = load_of(other);

		if (load > most) {
			most = load;
			busiest = other;
		}
	}
	if (busiest < 0)
		return false;
	if (take_any(cpu, busiest))
		return true;
	other = cpu;
	for_each_waiting(i, other, cpu) {
		if (load_of(other) > mine + 1 && take_any(cpu, other))
			return true;
	}
	return false;
}

/* With nothing to run: takes a task that waits on another CPU. Returns whether there was one. */
__noinline int take_elsewhere(s32 cpu)
{
	u32 class, i;

	for (class = SHARE_OWN; class < SHARE_CLASSES; class ++) {
		s32 other = cpu;

		for_each_waiting(i, other, cpu) {
			if (take(cpu, other, class))
				return true;
		}
	}
	return false;
}

/* Takes a task that waits on an offline or taken CPU. Returns whether there was one. */
__noinline int take_from_away(s32 cpu)
{
	u32 class, i;

	for (class = SHARE_OWN; class < SHARE_CLASSES; class ++)
		bpf_for(i, 1, nr_cpus) {
			s32 victim = cpu_neighbour(cpu, i);

			if (cpu_lacks(victim, CPU_GONE | CPU_TAKEN) &&
			    cpu_helps(cpu, waiting(cpu), victim, waiting(victim)) &&
			    take(cpu, victim, class))
				return true;
		}
	return false;
}

/* Whether it is time to balance, and there was a task to take. */
static __always_inline bool balance(s32 cpu, struct cas_cpu *c, u64 going_on, u64 now)
{
	if (nr_cpus == 1 || elapsed_ns(c->balanced_ns, now) < BALANCE_NS)
		return false;
	c->balanced_ns = now;
	return !cpu_is_taken(cpu) && take_from_busiest(cpu, waiting(cpu) + !!going_on);
}
