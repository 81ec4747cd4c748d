/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Place: which CPU a task becomes runnable on. An idle CPU near its last one, else its last one;
 * load is never balanced afterwards (slide 10), except with `pull`, where a CPU that has nothing to
 * do takes what waits elsewhere.
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "place_idle.h"

/* The i-th CPU to look at from `cpu`: itself, then its neighbours by number, wrapping round. */
static __always_inline s32 place_neighbour(s32 cpu, u32 i)
{
	u32 other = cpu + i;

	return other < nr_cpus ? other : other - nr_cpus;
}

/*
 * For a new task when no CPU idles: the nearest CPU where fewest wait, looked up without a lock. It
 * has nothing in any cache yet, and on the CPU of its parent it would wait with all its siblings.
 */
static __always_inline s32 place_shortest(struct task_struct *p, s32 parent_cpu)
{
	s32 shortest = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | parent_cpu);
	s32 best = parent_cpu;
	u32 i;

	for (i = 1; i < nr_cpus && i < MAX_CPUS && shortest > 0; i++) {
		s32 cpu = place_neighbour(parent_cpu, i);
		s32 waiting;

		if (!cpu_allowed(p, cpu))
			continue;
		waiting = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);
		if (waiting < shortest) {
			shortest = waiting;
			best = cpu;
		}
	}
	return best;
}

/* Has an idle CPU that p may use, if there is one, look for something to run. */
static __always_inline void place_kick_idle(struct task_struct *p)
{
	s32 cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);

	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}
