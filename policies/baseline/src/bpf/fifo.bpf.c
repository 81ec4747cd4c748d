/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fifo: one queue for all CPUs of a node, first come, first served.
 *
 * This is the least that a sched_ext policy can do, so it shows the cost of sched_ext itself. Other
 * policies are compared with it. At wakeup a task takes an idle CPU if there is one. The policy
 * knows neither weights nor caches, and every CPU takes the one queue's lock.
 */
#include "kernel.h"
#include "exit.h"

LICENSE;

TUNABLE u64 knob_slice_ns = 20000000;

s32 OP(fifo_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);

	if (is_idle)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu;
}

void OP(fifo_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, knob_slice_ns, enq_flags);
}

/* It keeps no state of a CPU. Without these callbacks the kernel would unload it at hotplug. */
void OP_SLEEPABLE(fifo_cpu_online, s32 cpu)
{
}

void OP_SLEEPABLE(fifo_cpu_offline, s32 cpu)
{
}

OPS(fifo) = {
	.select_cpu = (void *)fifo_select_cpu,
	.enqueue = (void *)fifo_enqueue,
	.cpu_online = (void *)fifo_cpu_online,
	.cpu_offline = (void *)fifo_cpu_offline,
	.exit = (void *)record_exit,
	.name = "fifo",
};
