/* SPDX-License-Identifier: GPL-2.0 */
/* Every callback, and one queue that dispatch takes from: for a test of their order. */
#include "kernel.h"

LICENSE;

#define QUEUE 7

s32 OP(all_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void OP(all_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, QUEUE, 5000000, enq_flags);
}

void OP(all_dequeue, struct task_struct *p, u64 deq_flags)
{
}

void OP(all_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void OP(all_tick, struct task_struct *p)
{
}
void OP(all_runnable, struct task_struct *p, u64 enq_flags)
{
}
void OP(all_running, struct task_struct *p)
{
}
void OP(all_stopping, struct task_struct *p, bool runnable)
{
}
void OP(all_quiescent, struct task_struct *p, u64 deq_flags)
{
}
void OP(all_set_weight, struct task_struct *p, u32 weight)
{
}
void OP(all_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
}
void OP(all_cpu_online, s32 cpu)
{
}
void OP(all_cpu_offline, s32 cpu)
{
}
void OP(all_enable, struct task_struct *p)
{
}

s32 OP(all_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return 0;
}

void OP(all_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
}

s32 OP_SLEEPABLE(all_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

OPS(all) = {
	.select_cpu = (void *)all_select_cpu,
	.enqueue = (void *)all_enqueue,
	.dequeue = (void *)all_dequeue,
	.dispatch = (void *)all_dispatch,
	.tick = (void *)all_tick,
	.runnable = (void *)all_runnable,
	.running = (void *)all_running,
	.stopping = (void *)all_stopping,
	.quiescent = (void *)all_quiescent,
	.set_weight = (void *)all_set_weight,
	.set_cpumask = (void *)all_set_cpumask,
	.cpu_online = (void *)all_cpu_online,
	.cpu_offline = (void *)all_cpu_offline,
	.init_task = (void *)all_init_task,
	.exit_task = (void *)all_exit_task,
	.enable = (void *)all_enable,
	.init = (void *)all_init,
	.name = "all",
};
