/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Place: few CPUs for each context, the talk's future work "aggregation into limited processors"
 * (slide 42). A context's home is a CPU and its next neighbours under the same last-level cache, as
 * many as the knob says. A woken task goes to the first of them, idle or not, unless it would wait
 * for too long there. The limit, HOME_WAIT_NS, is the time that another CPU takes to be woken and
 * to fill its TLB and caches. So tasks that run for microseconds and block stay together, and tasks
 * that compute spread. A home moves with the work: a CPU with nothing to run may take a task from a
 * CPU that has other contexts as well. It then becomes the home of that task's context.
 */
#pragma once
#include "order_key.h"
#include "topology.h"

#define HOME_CPUS_MAX 16
#define HOME_WAIT_NS  50000
#define HOME_CONTEXTS 2 /* that wait on one CPU: with more, CPUs are too few for homes */
#define HOMES	      1024 /* more than contexts, so that few share one; a power of two */

/* 1 + the first CPU of each context's home; 0: none yet. Unlocked: the last writer wins. */
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

/* How long it takes until this many tasks had a turn. */
static __always_inline u64 home_wait(u32 tasks, u64 turn_ns)
{
	return tasks * turn_ns;
}

/* The running mean of a CPU's turns, in which the last turn weighs an eighth. */
static __always_inline u64 home_turn(u64 mean_ns, u64 turn_ns)
{
	return mean_ns - mean_ns / 8 + turn_ns / 8;
}

static __always_inline void move_home(u32 home, s32 cpu)
{
	homes[home & (HOMES - 1)] = cpu + 1;
}
