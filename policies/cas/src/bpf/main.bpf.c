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
 * Two events bypass this. Another CPU takes a task, or the kernel does, because a property of the
 * task changes. Then the hint is too low, which is marked in `stale`, and the queue is read again
 * later. If the kernel moves a task without a callback, the hint is corrected when the next task is
 * taken from the queue. A hint is never too high, for only its own CPU raises it, so no task is
 * forgotten.
 *
 * The lowest hint of all other contexts is cached until one of those hints or the current context
 * changes. So while a context stays, a choice costs the same however many other tasks wait.
 *
 * It suits many threads of a few programs that block often. It does not suit programs of one
 * thread, machines whose TLB has tags for all that run, nor users that need low latency within an
 * epoch.
 *
 * Yamada, Kusakabe: Effect of Context Aware Scheduler on TLB.
 */
#include "kernel.h"
#include "exit.h"
#include "hotplug.h"
#include "choose.h"
#include "take.h"
#include "account.h"
#include "place.h"

LICENSE;

s32 OP(cas_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct cas_cpu *c = cpus_of(this_cpu()), *prev = cpus_of(prev_cpu);
	bool has_home = false;
	u32 home = 0, slot = SLOT_KERNEL;
	s32 cpu = -1;

	if (c && nr_cpus > 1 && knob_threshold != THRESHOLD_OFF) {
		c->woken_mm = (u64)p->mm;
		slot = slot_at(c->woken_mm, now_ns());
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
			home_moves(home, cpu);
		return cpu;
	}
	cpu = cpu_with_idle_task(p, prev_cpu);
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

/* Not inlined, to keep it out of the path of all other wakeups. */
static __noinline void enqueue_idle(struct task_struct *p, s32 cpu, struct cas_cpu *c,
				    struct cas_task *t, u64 enq_flags)
{
	bool arrives = t->o1.phase == OUT;
	u64 now = now_ns();

	decide_idle(cpu, c, t, key_slot(t->key), now);
	queue_idle(p, cpu, c, t, now, enq_flags);
	if (!arrives)
		place_kick_idle(p);
}

void OP(cas_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = task_of(p);
	u64 now = now_ns();
	bool arrives;
	u32 slot;

	if (!c || !t)
		return dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
	slot = slot_of(c, p, now);
	arrives = t->o1.phase == OUT;
	t->o1.nice = nice_of(p);
	if (t->o1.phase != DECIDED)
		join(t, slot);
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
		has_turn(c, t, p, now);
		c->preempting = true;
		t->o1.phase = QUEUED;
		return dsq_insert(p, SCX_DSQ_LOCAL, slice_of(t), enq_flags | SCX_ENQ_PREEMPT);
	}
	queue(p, cpu, c, t, enq_flags);
	if (!arrives)
		place_kick_idle(p);
}

/* The running task continues, because no waiting task goes before it. */
static __always_inline void go_on(struct task_struct *prev, struct cas_cpu *c, struct cas_task *t,
				  u64 now)
{
	u64 slice = slice_of(t);

	t->o1.phase = RUNNING;
	has_turn(c, t, prev, now);
	c->preempting = false;
	c->turn_end_ns = now + slice;
	task_set_slice(prev, slice);
}

enum next {
	NOBODY,
	GOES_ON,
	MOVED
};

/* Which task is next: one that waits here, or the running one, whose key is `going_on` if not 0. */
__noinline int next_here(s32 cpu, u64 going_on)
{
	struct cas_cpu *c = cpus_of(cpu);
	u64 key;
	u32 i;

	if (!c)
		return NOBODY;
	if (c->looked) {
		i = (c->looked - 1) & (SLOTS_MAX - 1);
		c->looked = 0;
		set_hint(c, i, head_of(cpu, i));
	}
	/* Each time a queue turns out empty, there is one less to try. */
	for (i = 0; i <= SLOTS_MAX && i <= knob_slots; i++) {
		if (c->stale)
			refresh(cpu);
		key = choose(cpu, going_on);
		if (!key)
			break;
		if (is_later(c, key))
			begin_epoch(c, key_epoch(key));
		if (key == going_on)
			return GOES_ON;
		if (dsq_move_to_local(dsq_of(cpu, key_slot(key)))) {
			c->looked = key_slot(key) + 1;
			return MOVED;
		}
		set_hint(c, key_slot(key), 0);
	}
	return NOBODY;
}

/* Takes a task that waits on an offline or taken CPU. Returns whether there was one. */
__noinline int take_from_away(s32 cpu)
{
	u32 class, i;

	for (class = SHARE_OWN; class < SHARE_CLASSES; class ++)
		bpf_for(i, 1, nr_cpus) {
			s32 victim = cpu_neighbour(cpu, i);

			if (cpu_lacks_any(victim) &&
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

/*
 * Hands back the tasks in the queues of a CPU that goes offline. Their hints are too low then, and
 * are read anew when the CPU is online again. Raising them here, on another CPU, could forget a
 * task that is enqueued at this moment.
 */
__noinline int clear_queues(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot;

	bpf_for(slot, 0, knob_slots)
		dsq_hand_back(dsq_of(cpu, slot), cpu);
	dsq_hand_back(dsq_of_idle(cpu), cpu);
	if (c)
		__sync_fetch_and_or(&c->stale, ~0U);
	return 0;
}

static __always_inline void clear_unasked(void)
{
	s32 cpu = cpu_to_clear();

	if (cpu >= 0) {
		clear_queues(cpu);
		/* kernels without later fixes wake no CPU here [move_local_task_to_local_dsq] */
		scx_bpf_kick_cpu(cpu, 0);
	}
}

void OP(cas_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cas_task *t = prev ? task_of(prev) : NULL;
	struct cas_cpu *c = cpus_of(cpu);
	u64 now, going_on = 0;
	bool idles = false; /* the running task may continue, and is SCHED_IDLE */
	u32 class, slot, i;

	if (!c)
		return;
	now = now_ns();
	cpu_is_back(cpu, false);
	clear_unasked();
	if (t && t->o1.phase == RUNNING) {
		charge(c, t, prev, now);
		t->o1.nice = nice_of(prev);
		slot = slot_of(c, prev, now);
		join(t, slot);
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
	for (class = SHARE_OWN; class < SHARE_CLASSES; class ++)
		bpf_for(i, 1, nr_cpus)
			if (take(cpu, cpu_neighbour(cpu, i), class))
				return;
	/*
	 * This runqueue's lock was not always held while it looked at other CPUs, so it looks
	 * again.
	 */
	if (next_here(cpu, 0) != NOBODY || take_idle(cpu))
		return;
	if (idles && t) {
		go_on(prev, c, t, now);
		cpu_note_idle_task(cpu, true);
		return;
	}
	cpu_is_back(cpu, true);
}

/*
 * A task that was about to run when a better one woke is behind that one on the local DSQ. No other
 * CPU can take it from there, so it goes back to its queue; else every task there gets a tick. The
 * kernel also puts tasks on the local DSQ itself, if they exit or must not migrate. Those come back
 * at once, and stay.
 */
static __always_inline void leave_nobody_behind(struct task_struct *p, struct cas_cpu *c)
{
	bool waits = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0, sent_back = c->sent_back;

	c->sent_back = waits && !sent_back && can_reenqueue();
	if (c->sent_back) {
		reenqueue_here();
	} else if (waits) {
		c->preempting = true;
		task_set_slice(p, 0);
	}
}

void OP(cas_tick, struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(this_cpu());

	cpu_is_back(this_cpu(), false);
	cpu_sees_itself_go(this_cpu());
	if (c)
		leave_nobody_behind(p, c);
	if (c && (knob_slack ? cpu_is_taken(this_cpu()) : epoch_is_closed(this_cpu(), c, now_ns())))
		task_set_slice(p, 0);
	if (c && c->idle_due_ns && runs_other(c) && elapsed_ns(c->idle_due_ns, now_ns())) {
		c->preempting = true; /* the running task is next again */
		task_set_slice(p, 0);
	}
	/*
	 * A CPU that went idle between the search for idle CPUs and an insertion was not kicked.
	 * Nor was an idle CPU while a task waits at home for longer than estimated.
	 */
	if (c && nr_cpus > 1)
		kick_idle_cpus(this_cpu());
}

/* Sets the slots of the context that runs now. A task without one runs in the previous context. */
static __always_inline void enter_context(struct cas_cpu *c, u64 mm, u32 slot)
{
	u32 here = 1u << SLOT_KERNEL | 1u << slot;

	c->entered_mm = mm;
	c->slot = slot;
	if (knob_tags)
		c->tagged = context_tag(&c->tags, c->tagged, slot, knob_tags);
	if (here != c->here) {
		c->here = here;
		c->elsewhere_known = false;
	}
}

void OP(cas_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p); /* not this CPU if a property changes */
	struct cas_cpu *c = cpus_of(cpu);
	struct cas_task *t = task_of(p);
	u64 now = now_ns();

	if (!c || !t)
		return;
	if (knob_slack)
		comes_by_vtime(c, t, cpu, key_slot(t->key));
	else
		o1_starts(&t->o1, elapsed_ns(t->stamp_ns, now), p->mm, knob_slice_ns);
	t->stamp_ns = now;
	t->o1.phase = RUNNING;
	c->mm = (u64)p->mm;
	if (c->mm)
		enter_context(c, c->mm, knob_slots == 1 ? SLOT_KERNEL : key_slot(t->key));
	if (knob_aggregate && c->takes_home) {
		c->takes_home = false;
		home_moves(home_of(c->mm), cpu);
	}
	c->running = true;
	c->preempting = false;
	has_turn(c, t, p, now);
	if (nr_run_idle || c->prio == O1_PRIO_IDLE)
		cpu_note_idle_task(cpu, c->prio == O1_PRIO_IDLE);
	c->turn_end_ns = now + p->scx.slice;
}

void OP(cas_stopping, struct task_struct *p, bool runnable)
{
	struct cas_cpu *c = cpus_of(scx_bpf_task_cpu(p));
	struct cas_task *t = task_of(p);

	if (!c || !t)
		return;
	c->running = false;
	c->mm = (u64)p->mm;
	if (knob_slots > 1 && c->mm && c->mm != c->entered_mm) /* exec changed it */
		enter_context(c, c->mm, slot_at(c->mm, now_ns()));
	if (t->o1.phase == RUNNING)
		charge(c, t, p, now_ns());
	if (!runnable)
		t->o1.phase = OUT;
	else if (t->o1.phase != DECIDED)
		t->o1.phase = STOPPED;
}

/* A CPU that goes offline may get no other callback any more. */
void OP(cas_update_idle, s32 cpu, bool idle)
{
	if (idle)
		cpu_sees_itself_go(cpu);
}

/* A task is taken out of its queue because a property changes, and is queued again. */
static __always_inline struct cas_task *leaves_queue(struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(scx_bpf_task_cpu(p));
	struct cas_task *t = task_of(p);

	if (c && t && (t->o1.phase == QUEUED || t->o1.phase == EXPIRED))
		__sync_fetch_and_or(&c->stale, 1u << key_slot(t->key));
	return t;
}

/* The task's nice value has changed, or it became SCHED_IDLE or no longer is. */
void OP(cas_set_weight, struct task_struct *p, u32 weight)
{
	struct cas_task *t = leaves_queue(p);

	if (!t || (t->o1.prio == O1_PRIO_IDLE) == task_is_idle(p))
		return;
	if (!task_is_idle(p)) {
		t->o1.prio = o1_prio(nice_of(p), 0, knob_slice_ns);
		return;
	}
	/* If it runs, it may be preempted now, and the rest of its slice is a SCHED_IDLE task's. */
	t->o1.prio = O1_PRIO_IDLE;
	task_set_slice(p, idle_slice(p->scx.slice));
}

void OP(cas_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	leaves_queue(p);
}

/* The task leaves the class, and its queue if it waits. If it returns, it counts as new. */
void OP(cas_disable, struct task_struct *p)
{
	struct cas_task *t = task_of(p);

	leaves_queue(p);
	if (t) {
		t->o1.phase = OUT;
		t->stamp_ns = 0;
	}
}

/* A child begins with half of the rest of its parent's slice [sched_fork]. */
s32 OP_SLEEPABLE(cas_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct cas_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task_struct *parent = args->fork ? current_task() : NULL;
	struct cas_task *of = parent ? task_of(parent) : NULL;

	if (!t)
		return -ENOMEM;
	t->o1.nice = nice_of(p);
	t->o1.slice_ns = o1_slice(t->o1.nice, knob_slice_ns);
	if (of) {
		struct o1_task left = of->o1;

		if (left.phase == RUNNING) /* its run is charged when it stops */
			o1_ran(&left, elapsed_ns(of->stamp_ns, now_ns()), knob_slice_ns);
		t->o1.sleep_avg_ns = o1_child_sleep_avg(left.sleep_avg_ns, knob_slice_ns);
		if (left.slice_ns > 1 && left.slice_ns / 2 < t->o1.slice_ns)
			t->o1.slice_ns = left.slice_ns / 2;
	}
	return 0;
}

#ifndef O1
void OP(cas_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct cas_task *t = task_of(p);

	if (t)
		join(t, SLOT_KERNEL);
}
#endif

/*
 * A real-time or deadline task takes the CPU: the preempted task waits where other CPUs can take
 * it.
 */
void OP(cas_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	cpu_is_lost(cpu);
	cpu_sends_away();
}

void OP(cas_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	cpu_is_back(cpu, false);
}

void OP_SLEEPABLE(cas_cpu_online, s32 cpu)
{
	cpu_goes(cpu, false);
}

void OP(cas_cpu_offline, s32 cpu)
{
	cpu_goes(cpu, true);
	clear_queues(cpu);
}

static __always_inline void begin(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);

	if (!c)
		return;
	c->vtime = VTIME_BEGINS;
	c->turn_ns = HOME_WAIT_NS; /* no task is kept at home before this is known */
}

s32 OP_SLEEPABLE(cas_init)
{
	s32 error = 0;
	u32 i, slot;

	cpus_look();
	bpf_for(i, 0, nr_cpus) {
		u32 cpu = i;

		barrier_var(cpu);
		if (error || cpu >= MAX_CPUS)
			break;
		begin(cpu);
		bpf_for(slot, 0, knob_slots) {
			error = scx_bpf_create_dsq(dsq_of(cpu, slot), cpu_node[cpu]);
			if (error)
				break;
		}
		if (!error)
			error = scx_bpf_create_dsq(dsq_of_idle(cpu), cpu_node[cpu]);
	}
	return error;
}

void OP(cas_exit, struct scx_exit_info *info)
{
	record_exit(info);
}

#ifdef O1
OPS(o1) = {
	.name = "o1",
	.exit_dump_len = EXIT_DUMP_LEN,
#else
OPS(cas) = {
	.name = "cas",
	.exit_dump_len = EXIT_DUMP_LEN,
	.exit_task = (void *)cas_exit_task,
#endif
	.select_cpu = (void *)cas_select_cpu,
	.enqueue = (void *)cas_enqueue,
	.dispatch = (void *)cas_dispatch,
	.tick = (void *)cas_tick,
	.running = (void *)cas_running,
	.stopping = (void *)cas_stopping,
	.update_idle = KERNEL_ONLY(cas_update_idle),
	.set_weight = (void *)cas_set_weight,
	.set_cpumask = (void *)cas_set_cpumask,
	.disable = (void *)cas_disable,
	.cpu_acquire = (void *)cas_cpu_acquire,
	.cpu_release = (void *)cas_cpu_release,
	.cpu_online = (void *)cas_cpu_online,
	.cpu_offline = (void *)cas_cpu_offline,
	.init_task = (void *)cas_init_task,
	.init = (void *)cas_init,
	.exit = (void *)cas_exit,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
};
