/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FLSCHED: a lockless and lightweight scheduler for manycore processors.
 *
 * Every CPU has its own queue, the local DSQ. No queue is shared, so the policy takes no lock. It
 * writes shared counters only when a real-time task comes to a CPU or leaves it. A runnable task
 * goes to an idle CPU near its last one. Else it waits on its last CPU, or where fewer tasks wait.
 * It runs until it blocks or its fixed slice ends. The slice ends at the next tick if others wait
 * and a CPU is idle. A wakeup never makes a busy CPU switch.
 *
 * It suits one job with about as many threads as CPUs, or many threads that block often. It does
 * not suit a desktop or a mix of programs. Waiting tasks are not moved again, and a CPU may idle
 * for a tick while tasks wait elsewhere. `pull` changes that, for a DSQ lock at each switch. No
 * task's latency is protected, and cpu.weight, cpu.max and nice affect at most the order of a
 * queue. While real-time tasks come often, it behaves as with `pull`.
 *
 * Jo, Kang, Min, Kim: FLSCHED, A Lockless and Lightweight Approach to OS Scheduler for Xeon Phi.
 */
#include "kernel.h"
#include "topology.h"
#include "exit.h"
#include "cpu_queue.h"
#include "hotplug.h"
#include "knobs.h"
#include "order.h"
#include "visits.h"
#include "place.h"
#include "offer.h"

LICENSE;

/* Wakers on other CPUs write only head_taken_ns, and rarely (with CODE, deferred too). */
struct fl_cpu {
	u64 head_taken_ns;
	u64 began_ns; /* the first tick that found `runs` here */
	s32 runs;
	s32 deferred;
	struct offer offer;
	struct visits visits;
} __attribute__((aligned(64)));

CPU_TABLE(struct fl_cpu, cpus)

static __always_inline u64 slice_ns(void)
{
	return slice_by_tick(knob_slice_ns, tick_ns);
}

static __always_inline u64 turn_ns(void)
{
	return order_turn(knob_slice_ns, tick_ns, knob_variant == CODE ? knob_defer_ns : 0);
}

/* Head or tail of the CPU's queue, for a task that has just become runnable. */
static __always_inline u64 place_in_queue(struct task_struct *p, s32 cpu)
{
	struct order_task task = {
		.weight = p->scx.weight,
		.pinned = nr_cpus > 1 && p->nr_cpus_allowed == 1,
		.kernel = p->flags & PF_KTHREAD,
	};
	struct fl_cpu *state;

	if (!order_prefers_head(task))
		return 0;
	state = cpus_of(cpu);
	if (!state || !order_take_head(&state->head_taken_ns, now_ns(), turn_ns()))
		return 0;
	return SCX_ENQ_HEAD;
}

/* When a task has blocked, its last CPU no longer defers a slice's end for it. */
static __always_inline void defer_ends(struct task_struct *p, s32 cpu)
{
	struct fl_cpu *state = knob_variant == CODE ? cpus_of(cpu) : NULL;

	if (state && state->deferred == p->pid)
		state->deferred = 0;
}

s32 OP(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place_idle_near(p, prev_cpu, wake_flags);

	defer_ends(p, prev_cpu);
	if (cpu >= 0) {
		dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), 0);
		return cpu;
	}
	if (wait_apart(prev_cpu)) /* enqueue puts p where others can take it */
		return cpu_takes(p, prev_cpu) ? prev_cpu : place_shortest(p, prev_cpu, 0);
	cpu = prev_cpu;
	if (knob_variant == SLIDE && (wake_flags & SCX_WAKE_FORK))
		cpu = place_shortest(p, prev_cpu, place_waiting(prev_cpu));
	else if (knob_variant == SLIDE)
		cpu = place_shorter(p, prev_cpu);
	/* Queued here, which saves the call of enqueue. SCX_ENQ_PREEMPT is never set. */
	dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), place_in_queue(p, cpu));
	return cpu;
}

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
	struct fl_cpu *state = cpus_of(cpu);

	if (enq_flags & SCX_ENQ_REENQ)
		return p->flags & PF_KTHREAD || holds_up_rcu(p) ? SCX_ENQ_HEAD : 0;
	if (!state || !holds_up_rcu(p) ||
	    !order_take_head(&state->head_taken_ns, now_ns(), turn_ns()))
		return 0;
	return SCX_ENQ_HEAD;
}

/* In enqueue: p starts to wait for a CPU, in one of its queues. */
static __always_inline void insert_again(struct task_struct *p, s32 cpu, u64 dsq_id, u64 enq_flags)
{
	dsq_insert(p, dsq_id, slice_again(enq_flags), enq_flags | order_again(p, cpu, enq_flags));
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
	if (idle >= 0)
		cpu = idle;
	else if ((knob_variant == SLIDE || enq_flags & SCX_ENQ_REENQ) && !goes_nowhere(enq_flags))
		cpu = place_shortest(p, cpu, waiting - 1);
	/* A CPU that goes offline looks the shortest, as its tasks have been pushed away. */
	if (!cpu_is_active(cpu))
		cpu = scx_bpf_task_cpu(p);
	insert_again(p, cpu, SCX_DSQ_LOCAL_ON | cpu, enq_flags);
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

/* The end of a slice, or a task with one CPU only: the kernel does not call select_cpu for it. */
void OP(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP)
		defer_ends(p, scx_bpf_task_cpu(p));
	if (wait_apart(scx_bpf_task_cpu(p)) && waits_with_others(p))
		enqueue_apart(p, enq_flags);
	else if (p->nr_cpus_allowed == 1 || migration_is_disabled(p)) /* the latter before 6.14 */
		enqueue_here(p, enq_flags);
	else
		enqueue_or_push(p, enq_flags);
}

/*
 * Takes a task that waits here, or on an idle CPU the nearest waiting task. Whether there was one.
 */
static __always_inline bool pull_one(s32 cpu, bool is_idle)
{
	cpu_queue_clear_unasked();
	return cpu_queue_take_from_away(cpu) || cpu_queue_take_near(cpu, is_idle ? nr_cpus : 1);
}

/*
 * Frequent visits are over: moves the DSQ's tasks to the local DSQ. Returns whether there were any.
 */
static __always_inline bool come_together(s32 cpu)
{
	s32 i, waiting = scx_bpf_dsq_nr_queued(cpu);
	bool any = false;

	set_apart(cpu, false);
	bpf_for(i, 0, waiting) {
		if (!dsq_move_to_local(cpu))
			break;
		any = true;
	}
	return any;
}

/* The local DSQ is empty: without pull or frequent visits, no task waits here. */
void OP(flsched_dispatch, s32 cpu, struct task_struct *prev)
{
	bool is_idle = !prev || !(prev->scx.flags & SCX_TASK_QUEUED);
	struct fl_cpu *state = cpus_of(cpu);

	if (state) {
		state->runs = 0;
		offer_withdraw(&state->offer);
	}
	cpu_is_back(cpu, false);
	if (!visits_go_on() && wait_apart(cpu) && come_together(cpu))
		return;
	if ((is_idle ? visits_make_look() : visits_go_on()) && pull_one(cpu, is_idle))
		return;
	if (is_idle)
		cpu_is_back(cpu, true);
	/* prev continues if it can: with a slice of this policy, not the kernel's 20 ms. */
	if (prev)
		task_set_slice(prev, slice_ns());
}

/*
 * Whether p has had its turn although its slice is not over. The kernel re-enqueues a task
 * preempted by a real-time task first, with new 20 ms each time (see cpu_sends_away). Beside a
 * real-time task that wakes more often than that, p would run for ever. A task that blocked
 * meanwhile and runs again looks the same, so this holds only if a higher class took the CPU since.
 */
static __always_inline bool turn_was_prolonged(struct fl_cpu *state, struct task_struct *p)
{
	s32 cpu = this_cpu();

	if (state->runs != p->pid) {
		state->runs = p->pid;
		state->began_ns = now_ns();
		return false;
	}
	return place_waiting(cpu) > 0 && cpu_was_lost(cpu, state->began_ns) &&
	       elapsed_ns(state->began_ns, now_ns()) >= turn_ns();
}

void OP(flsched_tick, struct task_struct *p)
{
	struct fl_cpu *state = cpus_of(this_cpu());

	if (!state)
		return;
	if (visits_ever()) {
		visits_look();
		cpu_sees_itself_go(this_cpu());
		/* a task may have been enqueued just when come_together emptied the DSQ */
		if (!knob_pull && scx_bpf_dsq_nr_queued(this_cpu()) > 0)
			set_apart(this_cpu(), true);
	}
	if (cpu_is_shared(this_cpu()) && place_waiting(this_cpu()) > 0)
		return task_set_slice(p, 0);
	if (turn_was_prolonged(state, p)) {
		state->runs = 0;
		return task_set_slice(p, 0);
	}
	if (knob_variant == CODE && !p->scx.slice)
		task_set_slice(p, order_defer(&state->deferred, p->pid, knob_defer_ns));
	if (wait_apart(this_cpu())) {
		queue_kick(this_cpu());
		/* Two tasks may have found this CPU idle at once: no CPU can take the second. */
		if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
			task_set_slice(p, 0);
	} else if (knob_variant == SLIDE && place_waiting(this_cpu()) > 0) {
		if (offer_claim(&state->offer, p))
			task_set_slice(p, 0);
	}
}

/* A CPU that goes offline may get no other callback any more. */
void OP(flsched_update_idle, s32 cpu, bool idle)
{
	if (idle && visits_ever())
		cpu_sees_itself_go(cpu);
}

/*
 * A real-time or deadline task takes the CPU: the tasks waiting there are re-enqueued, and go
 * elsewhere. This is done at once, as the deferred way (cpu_sends_away) takes a lock of this CPU.
 * But only the deferred way moves the preempted task. So it follows once the real-time task has
 * kept the CPU for long.
 */
void OP(flsched_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct fl_cpu *state = cpus_of(cpu);

	if (state) {
		offer_withdraw(&state->offer); /* no slice ends here for now */
		visits_note(&state->visits, args);
	}
	cpu_is_lost(cpu);
	scx_bpf_reenqueue_local();
	if (cpu_is_kept(cpu) && can_reenqueue())
		reenqueue_here();
}

void OP(flsched_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	cpu_is_back(cpu, false);
}

void OP(flsched_disable, struct task_struct *p)
{
	cpu_is_taken_by(p);
}

void OP_SLEEPABLE(flsched_cpu_online, s32 cpu)
{
	cpu_goes(cpu, false);
}

void OP(flsched_cpu_offline, s32 cpu)
{
	struct fl_cpu *state = cpus_of(cpu);

	if (state)
		offer_withdraw(&state->offer);
	cpu_goes(cpu, true);
	if (visits_ever())
		dsq_hand_back(cpu, cpu);
}

s32 OP_SLEEPABLE(flsched_init)
{
	s32 error;
	u32 cpu;

	cpus_look();
	for (cpu = 0; cpu < nr_cpus && cpu < MAX_CPUS; cpu++) {
		error = scx_bpf_create_dsq(cpu, cpu_node[cpu]);
		if (error)
			return error;
	}
	return 0;
}

void OP(flsched_exit, struct scx_exit_info *info)
{
	record_exit(info);
}

OPS(flsched) = {
	.select_cpu = (void *)flsched_select_cpu,
	.enqueue = (void *)flsched_enqueue,
	.dispatch = (void *)flsched_dispatch,
	.tick = (void *)flsched_tick,
	.update_idle = KERNEL_ONLY(flsched_update_idle),
	.disable = (void *)flsched_disable,
	.cpu_acquire = (void *)flsched_cpu_acquire,
	.cpu_release = (void *)flsched_cpu_release,
	.cpu_online = (void *)flsched_cpu_online,
	.cpu_offline = (void *)flsched_cpu_offline,
	.init = (void *)flsched_init,
	.exit = (void *)flsched_exit,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "flsched",
	.exit_dump_len = EXIT_DUMP_LEN,
};
