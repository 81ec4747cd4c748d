/* SPDX-License-Identifier: GPL-2.0 */
/* Each task goes to the last CPU of its mask, whatever CPU it belongs to. */
#include "kernel.h"

LICENSE;

void OP(last_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 cpu = 7;

	while (cpu > 0 && !cpu_allowed(p, cpu))
		cpu--;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, 20000000, enq_flags);
}

s32 OP(last_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

OPS(last) = {
	.select_cpu = (void *)last_select_cpu,
	.enqueue = (void *)last_enqueue,
	.name = "last",
};
