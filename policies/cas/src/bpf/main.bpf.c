/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CAS: the context-aware scheduler. Threads of one address space run after each other, so that the
 * TLB and the caches stay warm. It is based on Linux 2.6's O(1) scheduler, and changes that order
 * only inside an epoch.
 *
 * Every CPU has a few queues ("slots"), one for each address space as long as there are enough.
 * They are ordered by epoch, priority and arrival (or, with a slack, by virtual time). Each queue
 * has a hint: a word with the key of its first task. So the next task is chosen by comparing words.
 * All that a choice depends on is written under the CPU's runqueue lock, because a task is only
 * queued on the CPU whose runqueue it is on.
 *
 * It suits many threads of a few programs that block often. It does not suit programs of one
 * thread, machines whose TLB has tags for all that run, nor users that need low latency within an
 * epoch.
 *
 * Yamada, Kusakabe: Effect of Context Aware Scheduler on TLB.
 */
#include "chassis.h"
#include "account.h"
#include "idle.h"
#include "next.h"
#include "place.h"
#include "queues.h"
#include "take.h"

LICENSE;

s32 OP(cas_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return place(p, prev_cpu, wake_flags);
}

void OP(cas_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = tasks_of(p);
	u64 now = scx_bpf_now();
	bool arrives;
	u32 slot;

	if (!c || !t)
		return scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
	slot = slot_of(c, p, now);
	arrives = t->o1.phase == OUT;
	t->o1.nice = nice_of(p);
	if (t->o1.phase != DECIDED)
		join_slot(t, slot);
	if (p->policy != SCHED_NORMAL) {
		if (is_idle(p)) {
			if (t->o1.phase != DECIDED)
				t->key = vtime_key(t->key, slot);
			return enqueue_idle(p, cpu, c, t, enq_flags);
		}
		if (arrives && p->policy == SCHED_BATCH)
			forget_sleep(t);
	}
	if (arrives)
		arrive(cpu, c, t, p, slot, now);
	else if (t->o1.phase == STOPPED)
		decide(cpu, c, t, p, slot, now, enq_flags);
	else if (t->o1.phase != DECIDED)
		queue_again(cpu, c, t, slot);

	if (arrives && preempts(c, t, p, slot, now)) {
		/* Chosen here: it would be first in dispatch as well. */
		note_turn(c, t, p, now);
		c->preempting = true;
		t->o1.phase = QUEUED;
		return scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t),
					  enq_flags | SCX_ENQ_PREEMPT);
	}
	queue(p, cpu, c, t, enq_flags);
	if (!arrives)
		place_kick_idle(p);
}

void OP(cas_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cas_task *t = prev ? tasks_of(prev) : NULL;
	struct cas_cpu *c = cpus_of(cpu);
	u64 now, going_on = 0;
	bool idles = false; /* the running task may continue, and is SCHED_IDLE */
	u32 slot;

	if (!c)
		return;
	now = scx_bpf_now();
	regain_cpu(cpu, false);
	clear_leaving_cpu();
	if (t && t->o1.phase == RUNNING) {
		charge(c, t, prev, now);
		t->o1.nice = nice_of(prev);
		slot = slot_of(c, prev, now);
		join_slot(t, slot);
		idles = is_idle(prev);
		if (idles) {
			decide_idle(cpu, c, t, slot, now);
			t->o1.phase = DECIDED;
		} else {
			decide(cpu, c, t, prev, slot, now, 0);
			going_on = t->key;
		}
	}
	if (c->idle_due_ns && take_due_idle(cpu))
		return;
	if ((nr_away && take_from_away(cpu)) || balance(cpu, c, going_on, now))
		return;
	switch (next_here(cpu, going_on)) {
	case GOES_ON:
		if (t)
			go_on(prev, c, t, now);
		return;
	case MOVED:
		return;
	}
	if (nr_cpus > 1 && take_elsewhere(cpu))
		return;
	/*
	 * This runqueue's lock was not always held while it looked at other CPUs, so it looks
	 * again.
	 */
	if (next_here(cpu, 0) != NOBODY || take_idle(cpu))
		return;
	if (idles && t) {
		go_on(prev, c, t, now);
		note_idle_task(cpu, true);
		return;
	}
	regain_cpu(cpu, true);
}

void OP(cas_tick, struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(this_cpu());

	regain_cpu(this_cpu(), false);
	note_leaving(this_cpu());
	if (c)
		send_back_waiting(p, c);
	if (c &&
	    (knob_slack ? cpu_is_taken(this_cpu()) : epoch_is_closed(this_cpu(), c, scx_bpf_now())))
		scx_bpf_task_set_slice(p, 0);
	if (c && c->idle_due_ns && runs_other(c) && elapsed_ns(c->idle_due_ns, scx_bpf_now())) {
		c->preempting = true; /* the running task is next again */
		scx_bpf_task_set_slice(p, 0);
	}
	/*
	 * A CPU that went idle between the search for idle CPUs and an insertion was not kicked.
	 * Nor was an idle CPU while a task waits at home for longer than estimated.
	 */
	if (c && nr_cpus > 1)
		kick_idle_cpus(this_cpu());
}

void OP(cas_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p); /* not this CPU if a property changes */
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = tasks_of(p);
	u64 now = scx_bpf_now();

	if (!c || !t)
		return;
	if (knob_slack)
		convert_key(c, t, cpu, key_slot(t->key));
	else
		o1_start(&t->o1, elapsed_ns(t->stamp_ns, now), p->mm, knob_slice_ns);
	t->stamp_ns = now;
	t->o1.phase = RUNNING;
	c->mm = (u64)p->mm;
	if (c->mm)
		enter_context(c, c->mm, knob_slots == 1 ? SLOT_KERNEL : key_slot(t->key));
	if (knob_aggregate && c->takes_home) {
		c->takes_home = false;
		move_home(home_of(c->mm), cpu);
	}
	c->running = true;
	c->preempting = false;
	note_turn(c, t, p, now);
	if (nr_run_idle || c->prio == O1_PRIO_IDLE)
		note_idle_task(cpu, c->prio == O1_PRIO_IDLE);
	c->turn_end_ns = now + p->scx.slice;
}

void OP(cas_stopping, struct task_struct *p, bool runnable)
{
	struct cas_cpu *c = cpus_of(scx_bpf_task_cpu(p));
	struct cas_task *t = tasks_of(p);

	if (!c || !t)
		return;
	c->running = false;
	c->mm = (u64)p->mm;
	if (knob_slots > 1 && c->mm && c->mm != c->entered_mm) /* exec changed it */
		enter_context(c, c->mm, slot_at(c->mm, scx_bpf_now()));
	if (t->o1.phase == RUNNING)
		charge(c, t, p, scx_bpf_now());
	if (!runnable)
		t->o1.phase = OUT;
	else if (t->o1.phase != DECIDED)
		t->o1.phase = STOPPED;
}

/* The task's nice value has changed, or it became SCHED_IDLE or no longer is. */
void OP(cas_set_weight, struct task_struct *p, u32 weight)
{
	struct cas_task *t = leave_queue(p);

	if (!t || (t->o1.prio == O1_PRIO_IDLE) == task_is_idle(p))
		return;
	if (!task_is_idle(p)) {
		t->o1.prio = o1_prio(nice_of(p), 0, knob_slice_ns);
		return;
	}
	/* If it runs, it may be preempted now, and the rest of its slice is a SCHED_IDLE task's. */
	t->o1.prio = O1_PRIO_IDLE;
	scx_bpf_task_set_slice(p, idle_slice(p->scx.slice));
}

void OP(cas_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	leave_queue(p);
}

/* The task leaves the class, and its queue if it waits. If it returns, it counts as new. */
void OP(cas_disable, struct task_struct *p)
{
	struct cas_task *t = tasks_of(p);

	leave_queue(p);
	if (t) {
		t->o1.phase = OUT;
		t->stamp_ns = 0;
	}
}

s32 OP_SLEEPABLE(cas_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cas_task *t = tasks_add(p);
	struct task_struct *parent = args->fork ? bpf_get_current_task_btf() : NULL;
	struct cas_task *of = parent ? tasks_of(parent) : NULL;

	if (!t)
		return -ENOMEM;
	t->o1.nice = nice_of(p);
	t->o1.slice_ns = o1_slice(t->o1.nice, knob_slice_ns);
	if (of)
		inherit(t, of);
	return 0;
}

#ifndef O1
void OP(cas_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct cas_task *t = tasks_of(p);

	if (t)
		join_slot(t, SLOT_KERNEL);
}
#endif

static const struct roles roles = {
	.waiting = waiting,
	.hand_back = clear_queues,
	.create = create,
};

s32 OP_SLEEPABLE(cas_init)
{
	return chassis_create();
}

#ifdef O1
OPS(o1) = {
	.name = "o1",
#else
OPS(cas) = {
	.name = "cas",
	.exit_task = (void *)cas_exit_task,
#endif
	CHASSIS_OPS,
	.select_cpu = (void *)cas_select_cpu,
	.enqueue = (void *)cas_enqueue,
	.dispatch = (void *)cas_dispatch,
	.tick = (void *)cas_tick,
	.running = (void *)cas_running,
	.stopping = (void *)cas_stopping,
	.update_idle = KERNEL_ONLY(chassis_update_idle),
	.set_weight = (void *)cas_set_weight,
	.set_cpumask = (void *)cas_set_cpumask,
	.disable = (void *)cas_disable,
	.dump_task = KERNEL_ONLY(cas_dump_task),
	.init_task = (void *)cas_init_task,
	.init = (void *)cas_init,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
};
