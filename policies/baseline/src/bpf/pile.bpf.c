/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pile: every task on CPU 0, whatever else is idle.
 *
 * A cheat to test metrics with. By a metric that counts work only, such as a clock of instructions,
 * it looks excellent: no migrations, no remote wakeups, and idle CPUs cost nothing. A gate that it
 * passes is a bad gate.
 */
#include "kernel.h"
#include "exit.h"

LICENSE;

TUNABLE u64 knob_slice_ns = 20000000;

s32 OP(pile_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = cpu_allowed(p, 0) ? 0 : prev_cpu;

	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu;
}

void OP(pile_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
}

OPS(pile) = {
	.select_cpu = (void *)pile_select_cpu,
	.enqueue = (void *)pile_enqueue,
	.exit = (void *)record_exit,
	.name = "pile",
};
