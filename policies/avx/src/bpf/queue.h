/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue: one for each CPU, ordered by virtual time, and which of them a CPU takes from. Virtual
 * time runs at different speeds on CPUs of different clocks, so queues drift apart. A CPU that
 * compares the heads of all queues bounds that to about a slice (MuQSS, which the talk's prototype
 * changed to use CFS's algorithm).
 */
#pragma once
#include "state.h"
#include "overdue.h"
#include "preempt.h"

#define BALANCE_NS 64000000ULL /* about how often Linux balances the queues of a cache */

/*
 * Its own CPU's queue; if that CPU is unavailable, the shortest queue of a CPU that p may run on.
 */
static __always_inline s32 queue_for(struct task_struct *p)
{
	s32 own = scx_bpf_task_cpu(p);

	return cpu_takes(p, own) ? own : cpu_queue_shortest(p);
}

/*
 * A CPU other than the queue's takes a task only if it is a slice ahead [queue_least], or not at
 * all [queue_balanced].
 */
static __always_inline s64 preempt_margin(s32 cpu, u64 queue)
{
	if (queue == (u32)cpu)
		return WAKEUP_NS;
	return knob_pick == PICK_BALANCED ? S64_MAX : (s64)knob_slice_ns;
}

static __always_inline void queue_up(struct task_struct *p, u64 enq_flags)
{
	s32 queue = queue_for(p);
	u64 vtime = vtime_insert(p, queue, enq_flags, knob_slice_ns);

	if (place_kick_idle(p))
		return;
	if (may_preempt(p, enq_flags))
		preempt_for(queue, vtime, goes_anywhere(p));
	cpu_queue_kick(p, queue);
}

/*
 * The queue with the lowest head. Another CPU's queue counts only if it is a slice ahead of this
 * one.
 * -1: `prev` has had the least.
 */
static __always_inline s32 queue_least(s32 cpu, struct task_struct *prev)
{
	s64 own = vtime_head(cpu), least = own,
	    present = prev ? vtime_ahead(vtime_common(prev)) : S64_MAX;
	s32 best = own == S64_MAX ? -1 : cpu, other = cpu;
	u32 i;

	if (prev && present <= least) {
		least = present;
		best = -1;
	}
	if (least != S64_MAX)
		least -= knob_slice_ns;
	for_each_waiting(i, other, cpu) {
		s64 head = vtime_head(other);

		if (head < least) {
			least = head;
			best = other;
		}
	}
	return best;
}

/* Balances queues by their lengths, as Linux's own class does: the longest queue above `least`. */
static __always_inline s32 queue_longest(s32 cpu, s32 least)
{
	s32 best = -1, most = least, other = cpu;
	u32 i;

	for_each_waiting(i, other, cpu) {
		s32 waiting = scx_bpf_dsq_nr_queued(other);

		if (waiting > most) {
			most = waiting;
			best = other;
		}
	}
	return best;
}

/* Whether a task that waits for this CPU has had less than `prev`. */
static __always_inline bool queue_goes_first(s32 cpu, struct task_struct *prev)
{
	return !prev || vtime_head(cpu) < vtime_ahead(vtime_common(prev));
}

static __always_inline s32 queue_balanced(s32 cpu, struct task_struct *prev)
{
	struct avx_cpu *state = cpus_of(cpu);
	s32 waiting = scx_bpf_dsq_nr_queued(cpu), longest;
	u64 now = scx_bpf_now();

	if (!state)
		return -1;
	if (elapsed_ns(state->balanced_ns, now) > BALANCE_NS) {
		state->balanced_ns = now;
		longest = queue_longest(cpu, waiting + (prev ? 2 : 1));
		if (longest >= 0)
			return longest;
	}
	if (!waiting)
		return prev && !task_is_idle(prev) ? -1 : queue_longest(cpu, 0);
	return queue_goes_first(cpu, prev) ? cpu : -1;
}

/*
 * Takes the next task to run. `prev` continues unless a task has had less. Whether one was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev)
{
	s32 from;

	if (take_forgotten(cpu, 0, 0, knob_slice_ns, scx_bpf_now()))
		return true;
	from = knob_pick == PICK_BALANCED ? queue_balanced(cpu, prev) : queue_least(cpu, prev);
	if (from >= 0 && limit_take_first(from))
		return true;
	/*
	 * All tasks there may be pinned to that CPU, and a task that waits behind a real-time task
	 * has the lowest vtime for ever. So this CPU's own queue is tried next.
	 */
	if (from >= 0 && from != cpu && queue_goes_first(cpu, prev) && limit_take_first(cpu))
		return true;
	if (cpu_queue_take_from_away(cpu))
		return true;
	if (prev)
		return false;
	/* Nothing to run: take any task. The head of a queue may be pinned elsewhere. */
	return cpu_queue_take_near(cpu, true);
}
