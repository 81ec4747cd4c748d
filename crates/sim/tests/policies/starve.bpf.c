/* SPDX-License-Identifier: GPL-2.0 */
/* Keeps every task: nothing is ever dispatched. */
#include "kernel.h"

LICENSE;

void OP(starve_enqueue, struct task_struct *p, u64 enq_flags)
{
}

OPS(starve) = {
	.enqueue = (void *)starve_enqueue,
	.timeout_ms = 2000,
	.name = "starve",
};
