/* SPDX-License-Identifier: GPL-2.0 */
/* The machine's topology, set by the ground before loading; never read from the kernel. */
#pragma once
#include "kernel.h"

CONFIG u32 nr_cpus = 1;
CONFIG u16 cpu_llc[MAX_CPUS]; /* the last-level cache a CPU is under */
CONFIG u16 cpu_sibling[MAX_CPUS]; /* the next CPU of its core, in a ring; itself if alone */
CONFIG u16 cpu_node[MAX_CPUS]; /* the memory node a CPU belongs to */
CONFIG u32 nr_types = 1; /* kinds of cores, by speed */
CONFIG u16 cpu_type[MAX_CPUS]; /* the kind of a CPU's core: 0 is the fastest */
CONFIG bool cpu_missing[MAX_CPUS]; /* was offline: its entries above are invalid */
CONFIG u64 tick_ns;  /* timer tick of a busy CPU: a slice ends at a tick */

/*
 * A CPU's number as an index. The compiler does not know its bound, so it keeps the check of the
 * bound that the verifier wants, in the form that the verifier understands.
 */
static __always_inline u32 cpu_index(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at;
}

/* The i-th CPU to examine from `cpu`: itself, then its neighbours by number, wrapping round. */
static __always_inline s32 cpu_neighbour(s32 cpu, u32 i)
{
	u32 other = cpu + i;

	return other < nr_cpus ? other : other - nr_cpus;
}

/* The kind of a CPU's core: below TYPES_MAX. */
static __always_inline u32 cpu_kind(s32 cpu)
{
	u32 at = cpu_index(cpu), kind = 0;

	if (at < MAX_CPUS)
		kind = cpu_type[at];
	kind &= TYPES_MAX - 1;
	/* else the compiler moves the bound to where the verifier does not see it */
	barrier_var(kind);
	return kind;
}

#define SIBLINGS_MAX 8 /* hardware threads of a core */

/* The next CPU of its core; itself if it has no sibling. */
static __always_inline s32 cpu_next_sibling(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS ? cpu_sibling[at] : cpu;
}

/* The lowest CPU of a CPU's core, which stands for the core. */
static __always_inline s32 core_of(s32 cpu)
{
	s32 lowest = cpu, at = cpu;
	u32 i;

	bpf_for(i, 0, SIBLINGS_MAX) {
		at = cpu_next_sibling(at);
		if (at == cpu)
			break;
		if (at < lowest)
			lowest = at;
	}
	return lowest;
}

/* The last-level cache a CPU is under. */
static __always_inline u32 cpu_cache(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS ? cpu_llc[at] : ~0U;
}

/*
 * The slice to ask the kernel for so that a task runs for at most `slice_ns`. A slice ends at the
 * first tick that finds it used up, and a task may start anywhere between two ticks. Asked for one
 * tick less, it ends within that tick.
 */
static __always_inline u64 slice_by_tick(u64 slice_ns, u64 tick)
{
	return slice_ns > tick ? slice_ns - tick : slice_ns;
}
