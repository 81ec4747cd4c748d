/* SPDX-License-Identifier: GPL-2.0 */
/* By vtime: the task with the least is next. */
#include "kernel.h"

LICENSE;

#define QUEUE 1

void OP(fair_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert_vtime(p, QUEUE, 2000000, p->scx.dsq_vtime, enq_flags);
}

void OP(fair_dispatch, s32 cpu, struct task_struct *prev)
{
	scx_bpf_dsq_move_to_local(QUEUE);
}

void OP(fair_stopping, struct task_struct *p, bool runnable)
{
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime +
					      (2000000 - p->scx.slice) * 100 / p->scx.weight);
}

s32 OP_SLEEPABLE(fair_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

OPS(fair) = {
	.enqueue = (void *)fair_enqueue,
	.dispatch = (void *)fair_dispatch,
	.stopping = (void *)fair_stopping,
	.init = (void *)fair_init,
	.name = "fair",
};
