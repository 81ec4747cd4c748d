/* SPDX-License-Identifier: GPL-2.0 */
/* A woken task makes its CPU schedule: a used-up slice ends there and then, not at a tick. */
#include "kernel.h"

LICENSE;

void OP(kicks_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, 1500000, enq_flags);
	scx_bpf_kick_cpu(scx_bpf_task_cpu(p), 0);
}

OPS(kicks) = {
	.enqueue = (void *)kicks_enqueue,
	.name = "kicks",
};
