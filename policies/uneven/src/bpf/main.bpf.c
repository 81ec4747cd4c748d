/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shares of uneven cores: each task gets the part of its CPU time on each kind of core that the
 * control plane has computed for it.
 *
 * A running task earns its share of every kind, and pays for the kind that it runs on. Tasks on
 * different kinds change places if that brings both nearer to their shares by half a round. So a
 * machine with one task for each CPU rotates them although none waits. A waiting task is in the
 * queue of the kind that it is most behind on, in the order of CPU time. A CPU takes from another
 * queue if its own is empty, or if the other one's head is far behind. An idle fast CPU takes over
 * a task that runs on a slow one. So no CPU idles while a task that it may run waits, and shares
 * are kept to within about a round.
 *
 * Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems (slide 11: rounds and
 * swaps).
 */
#include "kernel.h"
#include "topology.h"
#include "exit.h"
#include "state.h"
#include "exchange.h"
#include "queue.h"

LICENSE;

/* An idle CPU for a woken task, now claimed: of the kind that it gets next, if there is one. */
static __always_inline s32 place(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct un_task *task = bpf_task_storage_get(&un_tasks, p, 0, 0);
	u32 kind = task ? share_next(&task->wants, nr_types) : 0, i;
	s32 cpu;

	bpf_for(i, 0, nr_cpus) {
		cpu = cpu_neighbour(prev_cpu, i);
		if (cpu_kind(cpu) == kind && cpu_takes(p, cpu) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return place_idle_near(p, prev_cpu, wake_flags);
}

s32 OP(uneven_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place(p, prev_cpu, wake_flags);

	if (cpu < 0)
		return prev_cpu;
	dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu;
}

/* A task with a deal goes to the CPU of the deal. */
void OP(uneven_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 here = scx_bpf_task_cpu(p), to = deal_close(p, here);

	/* From 6.14 on the kernel does not call this for a task that cannot migrate now. */
	if (to >= 0 && !migration_is_disabled(p)) {
		dsq_insert(p, SCX_DSQ_LOCAL_ON | to, knob_slice_ns, 0);
		return;
	}
	queue_up(p, enq_flags);
	/*
	 * p was to leave, and cannot. Its CPU has no other task, and does not look again before it
	 * idles [put_prev_task_scx].
	 */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(here, SCX_KICK_IDLE);
}

void OP(uneven_dispatch, s32 cpu, struct task_struct *prev)
{
	struct un_cpu *state = cpus_of(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool goes_away = state && goes_on && deal_pid(state->deal) == prev->pid &&
			 !migration_is_disabled(prev);

	cpu_is_back(cpu, false);
	if (!state)
		return;
	cpu_queue_clear_unasked();
	state->chose_ns = now_ns();
	if (queue_take(cpu, goes_on && !goes_away ? prev : NULL) || goes_away)
		return;
	if (goes_on) {
		cpu_note_idle_task(cpu, task_is_idle(prev));
		vtime_goes_on(prev, queue_waits(cpu), knob_slice_ns);
		return;
	}
	cpu_is_back(cpu, true);
	state->pid = 0;
	take_over(cpu);
}

/*
 * A change of a task's priority or affinity stops and restarts the task, possibly from another CPU.
 * So this uses the task's CPU, not the current one.
 */
void OP(uneven_running, struct task_struct *p)
{
	s32 at = scx_bpf_task_cpu(p);
	struct un_cpu *cpu = cpus_of(at);
	struct un_task *task = bpf_task_storage_get(&un_tasks, p, 0, 0);

	if (!cpu)
		return;
	cpu->deal = 0;
	cpu->pid = p->pid;
	may_note(cpu, p);
	if (task)
		cpu->wants = task->wants;
	cpu->since_ns = now_ns();
	cpu->counted = count_now(at);
	cpu_note_idle_task(at, task_is_idle(p));
	vtime_starts(p, knob_slice_ns);
}

void OP(uneven_stopping, struct task_struct *p, bool runnable)
{
	s32 at = scx_bpf_task_cpu(p);
	struct un_cpu *cpu = cpus_of(at);

	if (cpu)
		charge(p, at, cpu);
}

void OP(uneven_tick, struct task_struct *p)
{
	struct un_cpu *cpu = cpus_of(this_cpu());
	u32 i;

	if (!cpu)
		return;
	charge(p, this_cpu(), cpu);
	if (cpu_is_left(p))
		return;
	/* All kinds: if all CPUs of one are idle, none of them has ticks. */
	bpf_for(i, 0, nr_types)
		queue_kick(queue_of_kind(i));
	queue_kick(this_cpu());
	/* A task on the local DSQ also ends the slice: no other CPU can take it. */
	if (cpu_is_shared(this_cpu()) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		task_set_slice(p, 0);
	else
		exchange(p, this_cpu());
}

/* A CPU that goes offline may get no other callback any more. */
void OP(uneven_update_idle, s32 cpu, bool idle)
{
	if (idle)
		cpu_sees_itself_go(cpu);
}

void OP(uneven_set_weight, struct task_struct *p, u32 weight)
{
	task_table_weighs(p, weight);
}

/* p's affinity has changed: p already has the new mask. */
void OP(uneven_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_slot *slot = task_slot(p);

	if (slot)
		slot->kinds = kinds_allowed(p);
}

void OP(uneven_enable, struct task_struct *p)
{
	struct task_slot *slot = task_slot(p);

	vtime_enters(p);
	if (slot)
		slot->kinds = kinds_allowed(p);
}

void OP(uneven_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_slot *slot = task_slot(p);

	if (slot)
		slot->cgroup = cgroup_id(to);
}

s32 OP_SLEEPABLE(uneven_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&un_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	return task_table_enter(p, args);
}

void OP(uneven_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	task_table_leave(p);
}

/* A real-time or deadline task takes the CPU: re-enqueues the tasks waiting there, elsewhere. */
void OP(uneven_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct un_cpu *state = cpus_of(cpu);

	cpu_is_lost(cpu);
	if (state)
		state->pid = 0;
	cpu_sends_away();
}

void OP(uneven_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	cpu_is_back(cpu, false);
}

void OP_SLEEPABLE(uneven_cpu_online, s32 cpu)
{
	cpu_goes(cpu, false);
	cpus_count();
}

void OP(uneven_cpu_offline, s32 cpu)
{
	struct un_cpu *state = cpus_of(cpu);

	cpu_goes(cpu, true);
	dsq_hand_back(cpu, cpu);
	cpus_count();
	if (state)
		state->pid = 0;
}

s32 OP_SLEEPABLE(uneven_init)
{
	s32 error;
	u32 i;

	cpus_look();
	cpus_count();
	error = cpu_queues_create();
	if (error)
		return error;
	bpf_for(i, 0, nr_types) {
		error = scx_bpf_create_dsq(queue_of_kind(i), -1);
		if (error)
			return error;
	}
	return 0;
}

void OP(uneven_exit, struct scx_exit_info *info)
{
	record_exit(info);
}

OPS(uneven) = {
	.select_cpu = (void *)uneven_select_cpu,
	.enqueue = (void *)uneven_enqueue,
	.dispatch = (void *)uneven_dispatch,
	.running = (void *)uneven_running,
	.stopping = (void *)uneven_stopping,
	.tick = (void *)uneven_tick,
	.update_idle = KERNEL_ONLY(uneven_update_idle),
	.set_weight = (void *)uneven_set_weight,
	.set_cpumask = (void *)uneven_set_cpumask,
	.cgroup_move = (void *)uneven_cgroup_move,
	.enable = (void *)uneven_enable,
	.init_task = (void *)uneven_init_task,
	.exit_task = (void *)uneven_exit_task,
	.cpu_acquire = (void *)uneven_cpu_acquire,
	.cpu_release = (void *)uneven_cpu_release,
	.cpu_online = (void *)uneven_cpu_online,
	.cpu_offline = (void *)uneven_cpu_offline,
	.init = (void *)uneven_init,
	.exit = (void *)uneven_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALLOW_QUEUED_WAKEUP |
		 SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "uneven",
	.exit_dump_len = EXIT_DUMP_LEN,
};
