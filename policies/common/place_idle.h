/* SPDX-License-Identifier: GPL-2.0 */
/* Place: an idle CPU for a task, for policies that put it there and otherwise leave it where it was. */
#pragma once
#include "kernel.h"
#include "topology.h"

/*
 * An idle CPU for p, now claimed, or a negative number. The kernel's own search goes from near to far: the last CPU,
 * its cache and node, then any; first among cores that idle as a whole, and then among all, the last CPU's core before
 * others. A sync wakeup's shortcut (queue behind the waker, although others idle) is not asked for: the paper has no
 * such case.
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

/* Has an idle CPU that p may use, if there is one, look for something to run. Whether there was one. */
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
 * Has idle CPUs look for something to run, one for each task of a DSQ that may run there: another one would
 * find nothing, and be asked again. Returns false where no CPU idles.
 */
static __always_inline bool place_kick_for(u64 dsq_id)
{
	struct task_struct *p;
	s32 cpu;

	dsq_for_each(p, dsq_id) {
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
