/* SPDX-License-Identifier: GPL-2.0 */
/* For a test: writes one entry beyond a table when the eighth CPU dispatches. */
#include "kernel.h"

LICENSE;

static u64 turns[7];

void OP(overflow_dispatch, s32 cpu, struct task_struct *prev)
{
	*(volatile u64 *)&turns[cpu] += 1;
}

OPS(overflow) = {
	.dispatch = (void *)overflow_dispatch,
	.name = "overflow",
};
