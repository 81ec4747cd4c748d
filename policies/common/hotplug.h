/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hotplug: which CPUs are there. A policy without these callbacks is thrown out when a CPU comes or goes.
 * The kernel takes the tasks of a CPU that goes back from wherever they wait, and asks for none any more
 * [rq_offline_scx]: all that is left to do is not to choose it, as its empty queue would look the shortest.
 */
#pragma once
#include "kernel.h"
#include "topology.h"

/* CPUs that have gone, or were not there in the beginning. Written by the callbacks alone. */
static bool cpu_gone[MAX_CPUS];

/* Whether p can be put on a CPU: it may run there, and the CPU is there. */
static __always_inline bool cpu_takes(const struct task_struct *p, s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && !cpu_gone[at] && cpu_allowed(p, cpu);
}

static __always_inline void cpu_goes(s32 cpu, bool goes)
{
	u32 at = cpu;

	barrier_var(at);
	if (at < MAX_CPUS)
		cpu_gone[at] = goes;
	/* The tables were made for the CPUs that were there when the policy was loaded. */
	if (!goes && at >= nr_cpus)
		scx_bpf_error("a CPU came that was not there when this was loaded: load it again");
}

/* In init: which are not there. */
static __always_inline void cpus_look(void)
{
	u32 cpu;

	for (cpu = 0; cpu < nr_cpus && cpu < MAX_CPUS; cpu++)
		cpu_gone[cpu] = !cpu_is_online(cpu);
}
