/* SPDX-License-Identifier: GPL-2.0 */
/* The machine as the ground describes it: set before loading, never read from the kernel. */
#pragma once
#include "kernel.h"

CONFIG u32 nr_cpus = 1;
CONFIG u16 cpu_llc[MAX_CPUS];	/* which last-level cache a CPU is under */
CONFIG u16 cpu_sibling[MAX_CPUS];	/* the next CPU of its core, in a ring; itself where it is alone */
CONFIG u16 cpu_node[MAX_CPUS];	/* which memory node a CPU belongs to */
CONFIG u32 nr_types = 1;	/* kinds of cores, by how fast they are */
CONFIG u16 cpu_type[MAX_CPUS];	/* which of them a CPU is: 0 is the fastest */
CONFIG bool cpu_missing[MAX_CPUS];	/* it was not there: nothing above is true of it */
CONFIG u64 tick_ns;		/* between two timer ticks of a busy CPU: when slices are looked at */

/* The i-th CPU to look at from `cpu`: itself, then its neighbours by number, wrapping round. */
static __always_inline s32 cpu_neighbour(s32 cpu, u32 i)
{
	u32 other = cpu + i;

	return other < nr_cpus ? other : other - nr_cpus;
}

/* Which kind of core a CPU is: below TYPES_MAX. */
static __always_inline u32 cpu_kind(s32 cpu)
{
	u32 at = cpu, kind = 0;

	barrier_var(at);
	if (at < MAX_CPUS)
		kind = cpu_type[at];
	kind &= TYPES_MAX - 1;
	barrier_var(kind);	/* or the compiler moves the bound to where the verifier does not see it */
	return kind;
}

#define SIBLINGS_MAX 8	/* hardware threads of a core */

/* The next CPU of its core: itself where it is alone. */
static __always_inline s32 cpu_next_sibling(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);	/* or the compiler goes back to the signed one, which has no lower bound */
	return at < MAX_CPUS ? cpu_sibling[at] : cpu;
}

/* Which last-level cache a CPU is under. */
static __always_inline u32 cpu_cache(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS ? cpu_llc[at] : ~0U;
}

/*
 * What to ask of the kernel so that a task runs for at most `slice_ns`. A slice ends at the first
 * tick that finds it used up, and a task may start anywhere between two ticks: asked for a tick less,
 * it ends within that tick.
 */
static __always_inline u64 slice_by_tick(u64 slice_ns, u64 tick)
{
	return slice_ns > tick ? slice_ns - tick : slice_ns;
}
