/* SPDX-License-Identifier: GPL-2.0 */
/* Re-enqueues all tasks that wait on a CPU whenever a real-time task takes it. */
#include "kernel.h"

LICENSE;

void OP(sends_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1000000000, enq_flags);
}

void OP(sends_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	scx_bpf_reenqueue_local();
}

OPS(sends) = {
	.enqueue = (void *)sends_enqueue,
	.cpu_release = (void *)sends_cpu_release,
	.name = "sends",
};
