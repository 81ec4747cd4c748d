/* SPDX-License-Identifier: GPL-2.0 */
/*
 * starve: like fifo, but a task of nice 19 never runs.
 *
 * Not for use as a scheduler. It shows the kernel's watchdog, which protects against all other
 * policies. The kernel unloads a policy under which a runnable task does not run for 30 s (here 2
 * s), and its own class takes over.
 */
#include "kernel.h"
#include "exit.h"

LICENSE;

#define STARVED 1  /* a DSQ that no CPU takes from */
#define NICE_19 139  /* static_prio */

TUNABLE u64 knob_slice_ns = 20000000;

s32 OP(starve_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	return prev_cpu;
}

void OP(starve_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 dsq_id = p->static_prio == NICE_19 ? STARVED : SCX_DSQ_LOCAL;

	scx_bpf_dsq_insert(p, dsq_id, knob_slice_ns, enq_flags);
}

s32 OP_SLEEPABLE(starve_init)
{
	return scx_bpf_create_dsq(STARVED, -1);
}

OPS(starve) = {
	.select_cpu = (void *)starve_select_cpu,
	.enqueue = (void *)starve_enqueue,
	.init = (void *)starve_init,
	.exit = (void *)record_exit,
	.timeout_ms = 2000,
	.name = "starve",
};
