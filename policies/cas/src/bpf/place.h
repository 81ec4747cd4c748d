/* SPDX-License-Identifier: GPL-2.0 */
/* Place: which CPU a task becomes runnable on. An idle CPU near its last one, else its last one. */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "place_idle.h"

/* Has an idle CPU that p may use, if there is one, look for something to run. */
static __always_inline void place_kick_idle(struct task_struct *p)
{
	s32 cpu;

	if (nr_cpus == 1 || p->nr_cpus_allowed == 1)
		return;
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}
