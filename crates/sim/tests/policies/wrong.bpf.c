/* SPDX-License-Identifier: GPL-2.0 */
/* Names a queue that does not exist. */
#include "kernel.h"

LICENSE;

void OP(wrong_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, 12345, 1000000, enq_flags);
}

OPS(wrong) = {
	.enqueue = (void *)wrong_enqueue,
	.name = "wrong",
};
