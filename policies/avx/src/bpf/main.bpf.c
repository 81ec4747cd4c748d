/* SPDX-License-Identifier: GPL-2.0 */
/*
 * avx-fair: fair scheduling where some tasks' vector code lowers the clock of others.
 *
 * A virtual-time scheduler: the task that has had the least CPU time, over its weight, runs next.
 * It differs from other fair schedulers only in what it counts as CPU time (charge.h). A task whose
 * core ran below its ideal clock because of another task's license is not charged for the loss.
 * Counters are folded at ticks and when a task stops. So the number of active cores and a task's
 * level are right to a tick.
 *
 * It suits machines where vector code and other code share cores, or a power limit. If all code is
 * alike it is an ordinary fair scheduler. A wakeup costs more than Linux's own: it looks at the
 * queues of all CPUs.
 *
 * Gottschlag, Machauer, Khalil, Bellosa: Fair Scheduling for AVX2 and AVX-512 Workloads (USENIX ATC
 * 2021).
 */
#include "kernel.h"
#include "topology.h"
#include "exit.h"
#include "state.h"
#include "account.h"
#include "queue.h"

LICENSE;

s32 OP(avx_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place_idle_near(p, prev_cpu, wake_flags);

	if (cpu < 0)
		return prev_cpu;
	dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu;
}

void OP(avx_enqueue, struct task_struct *p, u64 enq_flags)
{
	queue_up(p, enq_flags);
}

void OP(avx_dispatch, s32 cpu, struct task_struct *prev)
{
	struct avx_cpu *state = cpus_of(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);

	cpu_is_back(cpu, false);
	cpu_queue_clear_unasked();
	/*
	 * Called before prev's own `stopping`: prev's charge up to now decides which task is next.
	 */
	if (goes_on)
		account(prev, cpu);
	if (queue_take(cpu, goes_on ? prev : NULL))
		return;
	if (goes_on) {
		vtime_goes_on(prev, scx_bpf_dsq_nr_queued(cpu) > 0, knob_slice_ns);
		return;
	}
	cpu_is_back(cpu, true);
	if (state)
		state->vtime = VTIME_IDLE;
}

/*
 * A change of a task's priority or affinity stops and restarts the task, possibly from another CPU.
 * So this uses the task's CPU, not the current one.
 */
void OP(avx_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);

	vtime_starts(p, knob_slice_ns);
	active_set(cpu, true);
	account_starts(p, cpu);
}

void OP(avx_stopping, struct task_struct *p, bool runnable)
{
	account(p, scx_bpf_task_cpu(p));
}

void OP(avx_tick, struct task_struct *p)
{
	s32 cpu = this_cpu();

	account(p, cpu);
	cpu_sees_itself_go(cpu);
	/* A task on the local DSQ also ends the slice: no other CPU can take it. */
	if (cpu_is_shared(cpu) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		task_set_slice(p, 0);
	queue_kick(cpu);
}

void OP(avx_update_idle, s32 cpu, bool idle)
{
	if (idle)
		cpu_sees_itself_go(cpu);
	active_set(cpu, !idle);
	if (idle && knob_source == COUNTED_MODEL)
		model_runs(cpu, 0, active_cores(cpu));
}

void OP(avx_enable, struct task_struct *p)
{
	vtime_enters(p);
}

s32 OP_SLEEPABLE(avx_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	if (!bpf_task_storage_get(&avx_tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -ENOMEM;
	return task_table_enter(p, args);
}

void OP(avx_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	task_table_leave(p);
}

void OP(avx_set_weight, struct task_struct *p, u32 weight)
{
	task_table_weighs(p, weight);
}

/* A real-time or deadline task takes the CPU: re-enqueues the tasks waiting there, elsewhere. */
void OP(avx_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct avx_cpu *state = cpus_of(cpu);

	cpu_is_lost(cpu);
	if (state) {
		state->vtime = VTIME_IDLE;
		observe_others(state);
	}
	cpu_sends_away();
}

void OP(avx_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	cpu_is_back(cpu, false);
}

void OP_SLEEPABLE(avx_cpu_online, s32 cpu)
{
	cpu_goes(cpu, false);
}

void OP(avx_cpu_offline, s32 cpu)
{
	struct avx_cpu *state = cpus_of(cpu);

	cpu_goes(cpu, true);
	dsq_hand_back(cpu, cpu);
	if (state)
		state->vtime = VTIME_IDLE;
}

s32 OP_SLEEPABLE(avx_init)
{
#ifdef __bpf__
	if (knob_detect == DETECT_TRAP)
		scx_bpf_error("detect=trap is for --on sim: no kernel disables the registers; "
			      "have detect=observed");
#endif
	cpus_look();
	active_look();
	return cpu_queues_create();
}

void OP(avx_exit, struct scx_exit_info *info)
{
	record_exit(info);
}

OPS(avx) = {
	.select_cpu = (void *)avx_select_cpu,
	.enqueue = (void *)avx_enqueue,
	.dispatch = (void *)avx_dispatch,
	.running = (void *)avx_running,
	.stopping = (void *)avx_stopping,
	.tick = (void *)avx_tick,
	.update_idle = (void *)avx_update_idle,
	.enable = (void *)avx_enable,
	.init_task = (void *)avx_init_task,
	.exit_task = (void *)avx_exit_task,
	.set_weight = (void *)avx_set_weight,
	.cpu_acquire = (void *)avx_cpu_acquire,
	.cpu_release = (void *)avx_cpu_release,
	.cpu_online = (void *)avx_cpu_online,
	.cpu_offline = (void *)avx_cpu_offline,
	.init = (void *)avx_init,
	.exit = (void *)avx_exit,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "avx",
	.exit_dump_len = EXIT_DUMP_LEN,
};
