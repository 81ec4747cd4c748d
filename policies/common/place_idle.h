/* SPDX-License-Identifier: GPL-2.0 */
/* Idle CPUs for tasks, for policies that otherwise leave a task on its last CPU. */
#pragma once
#include "kernel.h"
#include "topology.h"

/*
 * An idle CPU for p, now claimed, or a negative number. The kernel's own search goes from near to
 * far: the last CPU, its cache and node, then any. It prefers fully idle cores, and among partly
 * idle ones the last CPU's core. The sync-wakeup shortcut queues behind the waker although others
 * are idle. It is switched off, because the paper has no such case.
 */
static __always_inline s32 place_idle_near(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	bool is_idle = false;
	s32 cpu;

	if (nr_cpus == 1)
		return -1;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags & ~SCX_WAKE_SYNC, &is_idle);
	return is_idle ? cpu : -1;
}

/* Kicks an idle CPU that p may use, so that it looks for tasks. Returns whether there was one. */
static __always_inline bool place_kick_idle(struct task_struct *p)
{
	s32 cpu;

	if (nr_cpus == 1 || p->nr_cpus_allowed == 1)
		return false;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return cpu >= 0;
}

/*
 * Kicks one idle CPU for each task of a DSQ that may run there. More would find nothing, and would
 * be asked again. Returns false if no CPU is idle.
 */
__noinline bool place_kick_for(u64 dsq_id)
{
	struct task_struct *p;
	s32 cpu;

	dsq_for_each(p, dsq_id)
	{
		if (p->nr_cpus_allowed == 1)
			continue;
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu >= 0)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		else if (goes_anywhere(p))
			return false;
	}
	return true;
}
