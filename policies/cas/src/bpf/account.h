/* SPDX-License-Identifier: GPL-2.0 */
/* Account: what a task has used, and where that queues it. */
#pragma once
#include "queues.h"
#include "cpus.h"
#include "place_home.h"
#include "waiting_cpus.h"

/* How many tasks wait on this CPU. */
__noinline u32 waiting(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot, count = 0;

	for (slot = 0; c && slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (c->hint[slot])
			count += scx_bpf_dsq_nr_queued(dsq_of(cpu, slot));
	return count;
}

/* Whether a task that is not SCHED_IDLE runs on a CPU. */
static __always_inline bool runs_other(const struct cas_cpu *c)
{
	return c->running && c->prio != O1_PRIO_IDLE;
}

/* Whether the rest of a slice is shorter than ticks can resolve. */
static __always_inline bool is_over(const struct cas_task *t)
{
	return t->o1.slice_ns <= (s64)(tick_ns / 2);
}

/*
 * Whether a task that arrives now waits for the next epoch. Where real-time tasks leave little of a
 * CPU, all turns are short.
 */
static __always_inline bool epoch_is_closed(s32 cpu, const struct cas_cpu *c, u64 now)
{
	return o1_epoch_closed(c->epoch_ns, now) || cpu_is_scarce(cpu);
}

/* The epoch of tasks that arrive now. */
static __always_inline u32 open_epoch(s32 cpu, const struct cas_cpu *c, u64 now)
{
	return c->epoch + epoch_is_closed(cpu, c, now);
}

/*
 * The epoch of a task that became runnable. For kernel threads, such as RCU's, no epoch is closed:
 * all tasks wait for them, and would wait again at each step. Their slices end as others' do.
 */
static __always_inline u32 arrival_epoch(s32 cpu, const struct cas_cpu *c,
					 const struct task_struct *p, u64 now)
{
	return p->flags & PF_KTHREAD ? c->epoch : open_epoch(cpu, c, now);
}

/* A slice is over: the task continues in this epoch or waits for the next. Returns the epoch. */
static __always_inline u32 expire(s32 cpu, struct cas_cpu *c, struct cas_task *t, u64 now)
{
	o1_refill(&t->o1, knob_slice_ns);
	if (o1_let_go_on(&c->expired, &t->o1, now, waiting(cpu) + 1, knob_slice_ns))
		return open_epoch(cpu, c, now);
	return c->epoch + 1;
}

/*
 * Whether a key belongs to an epoch after a CPU's present one. By virtual time there are no epochs.
 */
static __always_inline bool is_later(const struct cas_cpu *c, u64 key)
{
	return !knob_slack && epoch_later(key_epoch(key), c->epoch);
}

/* The present epoch ends: the active and expired arrays change places. */
static __always_inline void begin_epoch(struct cas_cpu *c, u32 epoch)
{
	c->epoch = epoch;
	c->epoch_ns = scx_bpf_now();
	c->expired.since_ns = 0;
}

/* By virtual time SCHED_IDLE tasks wait for all others, so they need no weight. */
static __always_inline u32 weight_of(const struct task_struct *p)
{
	return task_is_idle(p) ? VTIME_WEIGHT : p->scx.weight;
}

static __always_inline void charge(struct cas_cpu *c, struct cas_task *t,
				   const struct task_struct *p, u64 now)
{
	u64 ran = elapsed_ns(t->stamp_ns, now);

	if (knob_aggregate)
		c->turn_ns = home_turn(c->turn_ns, ran);
	if (knob_slack)
		t->key = vtime_ran(t->key, ran, weight_of(p));
	else
		o1_charge(&t->o1, ran, knob_slice_ns);
	t->stamp_ns = now;
}

/* Notes the running task's priority, which woken tasks are compared with from now on. */
static __always_inline void note_turn(struct cas_cpu *c, const struct cas_task *t,
				      const struct task_struct *p, u64 now)
{
	c->prio = t->o1.prio;
	if (knob_slack) {
		c->running_key = t->key;
		c->since_ns = now;
		c->weight = weight_of(p);
	}
}

/*
 * Whether the task that ran was preempted: by a better task, or by a real-time task that has not
 * kept the CPU for long.
 */
static __always_inline bool was_preempted(s32 cpu, const struct cas_cpu *c, u64 enq_flags)
{
	return c->preempting || (enq_flags & SCX_ENQ_REENQ && !cpu_is_kept(cpu));
}

/*
 * Whether a task goes before all others of the present epoch, because it was preempted in an RCU
 * read-side critical section. It holds up every grace period until it has run on, and several
 * epochs take longer than the 21 s after which RCU complains. It leads once: if its slice is over
 * it gets one more tick, and then waits like all others.
 */
static __always_inline bool leads(const struct cas_task *t, struct task_struct *p)
{
	return holds_up_rcu(p) && key_prio(t->key) > 0;
}

/* Makes the key of a task that ran and is still runnable. */
static __always_inline void decide(s32 cpu, struct cas_cpu *c, struct cas_task *t,
				   struct task_struct *p, u32 slot, u64 now, u64 enq_flags)
{
	if (knob_slack)
		t->key = vtime_key(t->key, slot);
	else if (leads(t, p))
		t->key = key_of(c->epoch, 0, key_sequence(t->key), slot);
	else if (is_over(t))
		make_key(c, t, expire(cpu, c, t, now), slot);
	else if (was_preempted(cpu, c, enq_flags)) /* as if still at the head of its list */
		t->key = key_of(c->epoch, t->o1.prio, key_sequence(t->key), slot);
	else if (now + tick_ns < c->turn_end_ns) /* it yielded [sys_sched_yield] */
		make_key(c, t, c->epoch + 1, slot);
	else     /* a part of its slice is over */
		make_key(c, t, open_epoch(cpu, c, now), slot);
	t->o1.phase = DECIDED;
}

/* Makes the key of a task that became runnable. */
static __always_inline void arrive(s32 cpu, struct cas_cpu *c, struct cas_task *t,
				   struct task_struct *p, u32 slot, u64 now)
{
	u32 epoch = arrival_epoch(cpu, c, p, now);

	if (knob_slack) {
		t->key = vtime_key(vtime_arrives(t->key, clock_of(t), c->vtime), slot);
		t->o1.cpu = cpu;
		return;
	}
	if (t->stamp_ns)
		o1_wake(&t->o1, elapsed_ns(t->stamp_ns, now), p->mm, knob_slice_ns);
	else /* new: it has not slept yet */
		t->o1.prio = o1_prio(t->o1.nice, t->o1.sleep_avg_ns, knob_slice_ns);
	if (is_over(t)) /* the slice ended between two ticks */
		epoch = expire(cpu, c, t, now);
	t->stamp_ns = now;
	make_key(c, t, epoch, slot);
}

/*
 * By virtual time: converts a task's key to the clock of this CPU, from another CPU's or its own.
 */
static __always_inline void convert_key(struct cas_cpu *c, struct cas_task *t, u32 cpu, u32 slot)
{
	t->key = vtime_key(vtime_moves(t->key, clock_of(t), c->vtime), slot);
	t->o1.cpu = cpu;
}

/* Re-queues a waiting task because its nice value or affinity changed. */
static __always_inline void queue_again(s32 cpu, struct cas_cpu *c, struct cas_task *t, u32 slot)
{
	u32 epoch = c->epoch;

	if (knob_slack) {
		convert_key(c, t, cpu, slot);
		return;
	}
	if (key_epoch(t->key) == ((c->epoch + 1) & EPOCH_MASK) && t->o1.phase == EXPIRED)
		epoch++;
	t->o1.prio = o1_prio(t->o1.nice, t->o1.sleep_avg_ns, knob_slice_ns);
	make_key(c, t, epoch, slot);
}

/*
 * Whether a task waits for all tasks that are not SCHED_IDLE. A task preempted in an RCU read-side
 * critical section does not: it continues like other tasks (leads).
 */
static __always_inline bool is_idle(struct task_struct *p)
{
	return task_is_idle(p) && !holds_up_rcu(p);
}

/* [recalc_task_prio] A woken SCHED_BATCH task counts as new, as if it had never slept. */
static __always_inline void forget_sleep(struct cas_task *t)
{
	t->o1.sleep_avg_ns = 0;
	t->stamp_ns = 0;
}

static __always_inline void queue(struct task_struct *p, s32 cpu, struct cas_cpu *c,
				  struct cas_task *t, u64 enq_flags)
{
	u32 slot = key_slot(t->key);
	u64 hint = c->hint[slot];

	if (!hint || key_rank(t->key, c->epoch) < key_rank(hint, c->epoch))
		set_hint(c, slot, t->key);
	t->o1.phase = is_later(c, t->key) ? EXPIRED : QUEUED;
	note_waiting(cpu);
	scx_bpf_dsq_insert_vtime(p, dsq_of(cpu, slot), slice_of(t), t->key, enq_flags);
}

/* A child begins with half of the rest of its parent's slice, and with less bonus [sched_fork]. */
static __always_inline void inherit(struct cas_task *t, const struct cas_task *parent)
{
	struct o1_task left = parent->o1;

	if (left.phase == RUNNING) /* its run is charged when it stops */
		o1_charge(&left, elapsed_ns(parent->stamp_ns, scx_bpf_now()), knob_slice_ns);
	t->o1.sleep_avg_ns = o1_child_sleep_avg(left.sleep_avg_ns, knob_slice_ns);
	if (left.slice_ns > 1 && left.slice_ns / 2 < t->o1.slice_ns)
		t->o1.slice_ns = left.slice_ns / 2;
}
