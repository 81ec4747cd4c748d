/* SPDX-License-Identifier: GPL-2.0 */
/* A woken task takes CPU 0 at once. */
#include "kernel.h"

LICENSE;

void OP(urgent_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 flags = enq_flags;

	if (enq_flags & SCX_ENQ_WAKEUP)
		flags |= SCX_ENQ_PREEMPT;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | 0, 20000000, flags);
}

s32 OP(urgent_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

OPS(urgent) = {
	.select_cpu = (void *)urgent_select_cpu,
	.enqueue = (void *)urgent_enqueue,
	.name = "urgent",
};
