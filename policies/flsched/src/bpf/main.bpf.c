/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FLSCHED: a lockless and lightweight scheduler for manycore processors.
 *
 * Every CPU has its own queue, the local DSQ. No queue is shared, so the policy takes no lock. It
 * writes shared counters only when a real-time task comes to a CPU or leaves it. A runnable task
 * goes to an idle CPU near its last one. Else it waits on its last CPU, or where fewer tasks wait.
 * It runs until it blocks or its fixed slice ends. The slice also ends if others wait and a CPU is
 * idle: at the next tick, or when that CPU asks. A wakeup never makes a busy CPU switch.
 *
 * It suits one job with about as many threads as CPUs, or many threads that block often. It does
 * not suit a desktop or a mix of programs. A CPU that runs out of tasks asks one of its neighbours
 * for one, and may idle for a tick while tasks wait farther away. `pull` changes that, for a DSQ
 * lock at each switch. No task's latency is protected, and cpu.weight, cpu.max and nice affect at
 * most the order of a queue. While real-time tasks come often, it behaves as with `pull`.
 *
 * Jo, Kang, Min, Kim: FLSCHED, A Lockless and Lightweight Approach to OS Scheduler for Xeon Phi.
 */
#include "chassis.h"
#include "place.h"
#include "state.h"
#include "wait.h"

LICENSE;

/* Slide 10: a woken task goes to an idle CPU, else it waits. It never preempts (slide 12). */
s32 OP(flsched_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place_idle_near(p, prev_cpu, wake_flags);

	end_deferral(p, prev_cpu);
	if (cpu >= 0) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), 0);
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
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns(), place_in_queue(p, cpu));
	return cpu;
}

/* The end of a slice, or a task with one CPU only: the kernel does not call select_cpu for it. */
void OP(flsched_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (enq_flags & SCX_ENQ_WAKEUP)
		end_deferral(p, scx_bpf_task_cpu(p));
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
	clear_leaving_cpu();
	return cpu_queue_take_from_away(cpu) || cpu_queue_take_near(cpu, is_idle);
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
	regain_cpu(cpu, false);
	if (!visits_go_on() && wait_apart(cpu) && join_queues(cpu))
		return;
	if ((is_idle ? visits_make_look() : visits_go_on()) && pull_one(cpu, is_idle))
		return;
	if (is_idle) {
		regain_cpu(cpu, true);
		if (knob_variant == SLIDE && !visits_go_on())
			ask_near(cpu);
	}
	/* prev continues if it can: with a slice of this policy, not the kernel's 20 ms. */
	if (prev)
		scx_bpf_task_set_slice(prev, slice_ns());
}

/*
 * Ends a turn that is over although its slice is not. The kernel re-enqueues a task preempted by a
 * real-time task first, with new 20 ms each time (see reenqueue_waiting). Beside a real-time task
 * that wakes more often than that, p would run for ever. A task that blocked meanwhile and runs
 * again looks the same, so this is done only if a higher class took the CPU since. Returns whether
 * it was.
 */
static __always_inline bool end_prolonged_turn(struct fl_cpu *state, struct task_struct *p, s32 cpu)
{
	if (state->runs != p->pid) {
		state->runs = p->pid;
		state->began_ns = scx_bpf_now();
		return false;
	}
	if (place_waiting(cpu) <= 0 || !cpu_was_lost(cpu, state->began_ns) ||
	    elapsed_ns(state->began_ns, scx_bpf_now()) < turn_ns())
		return false;
	state->runs = 0;
	return true;
}

void OP(flsched_tick, struct task_struct *p)
{
	s32 cpu = this_cpu();
	struct fl_cpu *state = cpus_of(cpu);

	if (!state)
		return;
	if (visits_ever()) {
		end_visits();
		note_leaving(cpu);
		/* a task may have been enqueued just when join_queues emptied the DSQ */
		if (!knob_pull && scx_bpf_dsq_nr_queued(cpu) > 0)
			set_apart(cpu, true);
	}
	regain_cpu(cpu, false);
	if ((cpu_is_taken(cpu) && place_waiting(cpu) > 0) || end_prolonged_turn(state, p, cpu))
		return scx_bpf_task_set_slice(p, 0);
	if (knob_variant == CODE && !p->scx.slice)
		scx_bpf_task_set_slice(p, order_defer(&state->deferred, p->pid, knob_defer_ns));
	if (wait_apart(cpu)) {
		queue_kick(cpu);
		/* Two tasks may have found this CPU idle at once: no CPU can take the second. */
		if (scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
			scx_bpf_task_set_slice(p, 0);
	} else if (knob_variant == SLIDE && place_waiting(cpu) > 0) {
		if (offer_claim(&state->offer, p))
			scx_bpf_task_set_slice(p, 0);
	}
}

/* A task that leaves the class most likely becomes real-time, and keeps its CPU. */
void OP(flsched_disable, struct task_struct *p)
{
	lose_cpu_to(p);
}

/* No slice ends on this CPU for now. */
static __always_inline void vacate(s32 cpu)
{
	struct fl_cpu *state = cpus_of(cpu);

	if (state)
		offer_withdraw(&state->offer);
}

static __always_inline void lose(s32 cpu, struct scx_cpu_release_args *args)
{
	struct fl_cpu *state = cpus_of(cpu);

	if (state)
		note_visit(&state->visits, args);
}

/*
 * Re-enqueues tasks at once, as the deferred way (reenqueue_waiting) takes a lock of this CPU. But
 * only the deferred way moves the preempted task. So it follows once the real-time task has kept
 * the CPU for long.
 */
static __always_inline void lost(s32 cpu)
{
	scx_bpf_reenqueue_local();
	if (cpu_is_kept(cpu) && can_reenqueue())
		reenqueue_here();
}

static const struct roles roles = {
	.queues_used = visits_ever,
	.lose = lose,
	.lost = lost,
	.vacate = vacate,
};

s32 OP_SLEEPABLE(flsched_init)
{
	return chassis_create();
}

OPS(flsched) = {
	CHASSIS_OPS,
	.select_cpu = (void *)flsched_select_cpu,
	.enqueue = (void *)flsched_enqueue,
	.dispatch = (void *)flsched_dispatch,
	.tick = (void *)flsched_tick,
	.update_idle = KERNEL_ONLY(chassis_update_idle),
	.disable = (void *)flsched_disable,
	.init = (void *)flsched_init,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "flsched",
};
