/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Has an update_idle callback, and asks the kernel for idle CPUs all the same. For a task with one
 * CPU it asks whether that CPU idles.
 */
#include "kernel.h"

LICENSE;

void OP(alone_update_idle, s32 cpu, bool idle)
{
}

s32 OP(alone_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	return cpu < 0 ? prev_cpu : cpu;
}

void OP(alone_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_test_and_clear_cpu_idle(scx_bpf_task_cpu(p));
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 5000000, enq_flags);
}

OPS(alone) = {
	.update_idle = (void *)alone_update_idle,
	.select_cpu = (void *)alone_select_cpu,
	.enqueue = (void *)alone_enqueue,
	.name = "alone",
};
