/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wait: in which queue a task waits that its wakeup did not place: at the end of a slice, after a
 * visit, or if it may use one CPU only. And how tasks come back from the DSQs.
 */
#pragma once
#include "cpu_queue.h"
#include "place.h"
#include "state.h"

/*
 * A task pinned to this CPU does not need its DSQ until others wait there. Dispatch looks at the
 * DSQ only when the local DSQ is empty, and two pinned tasks that wait for each other there would
 * never let it become empty. While real-time tasks come often, the local DSQ would be re-enqueued
 * at each visit, so the DSQ is used.
 */
static __always_inline bool waits_with_others(struct task_struct *p)
{
	return !knob_pull || p->nr_cpus_allowed > 1 ||
	       scx_bpf_dsq_nr_queued(scx_bpf_task_cpu(p)) > 0;
}

/*
 * A task re-enqueued because of a real-time task keeps the rest of its slice, which 0 stands for.
 * With a new slice each time, the first waiting task beside a real-time task that wakes often would
 * run for ever.
 */
static __always_inline u64 slice_again(u64 enq_flags)
{
	return enq_flags & SCX_ENQ_REENQ ? 0 : slice_ns();
}

/*
 * Tasks that the kernel waits for stay first: kernel threads, and tasks preempted in an RCU
 * read-side critical section. Re-enqueued at a visit, such a task would go behind all that wait
 * elsewhere, again and again. A reader at the end of its slice gets the head only when the head is
 * free. Else a program that mostly reads under RCU would keep the CPU.
 */
static __always_inline u64 order_again(struct task_struct *p, s32 cpu, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_REENQ)
		return p->flags & PF_KTHREAD || holds_up_rcu(p) ? SCX_ENQ_HEAD : 0;
	return holds_up_rcu(p) ? take_head(cpu) : 0;
}

/* In enqueue: p starts to wait for a CPU, in one of its queues. */
static __always_inline void insert_again(struct task_struct *p, s32 cpu, u64 dsq_id, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, dsq_id, slice_again(enq_flags),
			   enq_flags | order_again(p, cpu, enq_flags));
}

/*
 * Re-enqueued while no CPU is better, a task would go from the end of one queue to another for
 * ever.
 */
static __always_inline bool goes_nowhere(u64 enq_flags)
{
	return enq_flags & SCX_ENQ_REENQ && all_are_away();
}

static __always_inline void enqueue_apart(struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (enq_flags & SCX_ENQ_WAKEUP)
		enq_flags |= place_in_queue(p, cpu);
	else if (visits_go_on() && p->nr_cpus_allowed > 1 && !goes_nowhere(enq_flags))
		cpu = place_shortest(p, cpu, place_waiting(cpu) - 1);
	set_apart(cpu, true);
	note_waiting(cpu);
	insert_again(p, cpu, cpu, enq_flags);
	if (!place_kick_idle(p))
		cpu_queue_kick(p, cpu);
}

/*
 * At the end of a slice, full or cut short: p goes to an idle CPU, else to where fewer tasks are
 * ahead of it than here.
 */
static __always_inline void enqueue_or_push(struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	s32 waiting = place_waiting(cpu);
	struct fl_cpu *state = cpus_of(cpu);
	s32 idle = -1;

	if (state && waiting > 0)
		idle = offer_take(&state->offer, p);
	if (idle < 0 && (waiting > 0 || cpu_is_taken(cpu)))
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		cpu = idle;
		if (state)
			state->offer.asked_ns = 0;
	} else if ((knob_variant == SLIDE || enq_flags & SCX_ENQ_REENQ) && !goes_nowhere(enq_flags))
		cpu = place_shortest(p, cpu, waiting - 1);
	/* A CPU that goes offline looks the shortest, as its tasks have been pushed away. */
	if (!cpu_is_active(cpu))
		cpu = scx_bpf_task_cpu(p);
	insert_again(p, cpu, SCX_DSQ_LOCAL_ON | cpu, enq_flags);
}

/* How many neighbours a CPU with nothing to run looks at: a search has an end on any machine. */
#define ASK_LOOKS 16

/* Whether the task that runs on another CPU can move to this one, as far as the kernel tells. */
static __always_inline bool may_come(s32 cpu, s32 other)
{
	struct task_struct *p = cpu_curr(other);

	return p && cpu_allowed(p, cpu) && !migration_is_disabled(p);
}

/* With nothing to run: asks the nearest neighbour where tasks wait for its running task. */
static __always_inline void ask_near(s32 cpu)
{
	u32 i;

	bpf_for(i, 1, nr_cpus > ASK_LOOKS ? ASK_LOOKS + 1 : nr_cpus) {
		s32 other = cpu_neighbour(cpu, i);
		struct fl_cpu *state = cpus_of(other);

		if (state && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | other) > 0 &&
		    may_come(cpu, other) && offer_ask(&state->offer, other))
			return;
	}
}

/*
 * A task that cannot move, now or ever: stays on its CPU, at the head if it has just woken and may.
 */
static __always_inline void enqueue_here(struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (enq_flags & SCX_ENQ_WAKEUP)
		enq_flags |= place_in_queue(p, cpu);
	insert_again(p, cpu, SCX_DSQ_LOCAL, enq_flags);
}

/*
 * Frequent visits are over: moves the DSQ's tasks to the local DSQ. Returns whether there were any.
 */
static __always_inline bool join_queues(s32 cpu)
{
	s32 i, waiting = scx_bpf_dsq_nr_queued(cpu);
	bool any = false;

	set_apart(cpu, false);
	bpf_for(i, 0, waiting) {
		if (!scx_bpf_dsq_move_to_local(cpu))
			break;
		any = true;
	}
	return any;
}
