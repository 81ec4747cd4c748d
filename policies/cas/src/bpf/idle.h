/* SPDX-License-Identifier: GPL-2.0 */
/* Idle: SCHED_IDLE tasks, which wait in a queue of their own behind all other tasks of a CPU. */
#pragma once
#include "account.h"
#include "place_idle.h"

/*
 * Makes the key of a SCHED_IDLE task. When it is no longer SCHED_IDLE, its key for the other queues
 * is made anew.
 */
static __always_inline void decide_idle(s32 cpu, struct cas_cpu *c, struct cas_task *t, u32 slot,
					u64 now)
{
	t->o1.nice = O1_IDLE;
	if (is_over(t))
		o1_refill(&t->o1, knob_slice_ns);
	t->o1.sleep_avg_ns = 0;
	t->o1.sleep = O1_SLEEP_NORMAL;
	t->o1.prio = O1_PRIO_IDLE;
	t->stamp_ns = now;
	t->key = knob_slack ? vtime_key(c->vtime, slot) : key_of(c->epoch, 1, 0, slot);
	t->o1.cpu = cpu;
}

/* Sets when a SCHED_IDLE task gets a turn, with this many waiting. */
static __always_inline void set_idle_due(struct cas_cpu *c, u32 waiting)
{
	c->idle_due_ns = c->idle_turn_ns + idle_gap(waiting, tick_ns);
}

static __always_inline void queue_idle(struct task_struct *p, s32 cpu, struct cas_cpu *c,
				       struct cas_task *t, u64 now, u64 enq_flags)
{
	t->o1.phase = QUEUED;
	if (!c->idle_due_ns)
		c->idle_turn_ns = now;
	set_idle_due(c, scx_bpf_dsq_nr_queued(dsq_of_idle(cpu)) + 1);
	note_waiting(cpu);
	scx_bpf_dsq_insert(p, dsq_of_idle(cpu), idle_slice(slice_of(t)), enq_flags);
}

/* Not inlined, to keep it out of the path of all other wakeups. */
static __noinline void enqueue_idle(struct task_struct *p, s32 cpu, struct cas_cpu *c,
				    struct cas_task *t, u64 enq_flags)
{
	bool arrives = t->o1.phase == OUT;
	u64 now = scx_bpf_now();

	decide_idle(cpu, c, t, key_slot(t->key), now);
	queue_idle(p, cpu, c, t, now, enq_flags);
	if (!arrives)
		place_kick_idle(p);
}

/* Takes a SCHED_IDLE task that waits here. Returns whether there was one. */
static __always_inline bool take_own_idle(s32 cpu, struct cas_cpu *c, u64 now)
{
	bool was_one = scx_bpf_dsq_move_to_local(dsq_of_idle(cpu));
	u32 left = scx_bpf_dsq_nr_queued(dsq_of_idle(cpu));

	c->idle_turn_ns = now;
	c->idle_due_ns = 0;
	if (left)
		set_idle_due(c, left);
	return was_one;
}

/* Takes a SCHED_IDLE task that is due, although other tasks wait. Returns whether one was due. */
__noinline int take_due_idle(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u64 now = scx_bpf_now();

	return c && c->idle_due_ns && (s64)(now - c->idle_due_ns) >= 0 &&
	       take_own_idle(cpu, c, now);
}

/*
 * In dispatch, last: takes a SCHED_IDLE task that waits here or elsewhere. Returns whether there
 * was one. No other task waits that may run here.
 */
__noinline int take_idle(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	s32 other = cpu;
	u32 i;

	if (c && c->idle_due_ns && take_own_idle(cpu, c, scx_bpf_now()))
		return true;
	for_each_waiting(i, other, cpu) {
		struct cas_cpu *theirs = cpus_of(other);

		if (!theirs)
			break;
		if (theirs->idle_due_ns && scx_bpf_dsq_move_to_local(dsq_of_idle(other)))
			return true;
		if (!theirs->idle_due_ns && !waiting(other))
			forget_waiting(other);
	}
	return false;
}
