/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Place: few CPUs for each context, the talk's future work "aggregation into limited processors" (slide
 * 42). A context's home is a CPU and its next neighbours under the same last-level cache, as many as the
 * knob says. Who wakes goes to the first of them, idle or not, where it should not wait longer than
 * another CPU would take to be woken and to fill its TLB and caches: HOME_WAIT_NS. So many that run for
 * microseconds and block stay together, and those that compute spread. A home moves with the work: a
 * CPU that has nothing to do, and takes a task from one that has other contexts as well, becomes the home
 * of the task's.
 */
#pragma once
#include "order_key.h"
#include "topology.h"

#define HOME_CPUS_MAX	16
#define HOME_WAIT_NS	50000
#define HOME_CONTEXTS	2	/* that wait on one CPU: where there are more, CPUs are too few for homes */
#define HOMES		1024	/* more than contexts, so that few share one; a power of two */

/* One more than the first CPU of each context's home; 0: none yet. Whoever writes last is right. */
static u16 homes[HOMES];

static __always_inline u32 home_of(u64 mm)
{
	return context_hash(mm) >> 8 & (HOMES - 1);
}

/* The i-th CPU of a home, or a negative number. */
static __always_inline s32 home_cpu(u32 home, u32 i)
{
	u32 first = homes[home & (HOMES - 1)];
	s32 cpu;

	if (!first)
		return -1;
	first--;
	cpu = cpu_neighbour(first, i);
	return cpu_cache(cpu) == cpu_cache(first) ? cpu : -1;
}

/* How long it takes until so many had their turn, of about so long. */
static __always_inline u64 home_wait(u32 tasks, u64 turn_ns)
{
	return tasks * turn_ns;
}

/* The mean turn of a CPU's tasks, of which the last one weighs an eighth. */
static __always_inline u64 home_turn(u64 mean_ns, u64 turn_ns)
{
	return mean_ns - mean_ns / 8 + turn_ns / 8;
}

static __always_inline void home_moves(u32 home, s32 cpu)
{
	homes[home & (HOMES - 1)] = cpu + 1;
}
