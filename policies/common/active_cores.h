/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Active: how many cores of a package have a thread that is not idle. Turbo depends on it. The low
 * bits of a word hold their number. The high bits hold the sum of the times at which cores became
 * idle, minus the times at which they became active. One addition changes both, so a reader gets a
 * consistent pair. Number times now, plus that sum, is how long all cores together have been
 * active. Two such values give the mean number in between.
 */
#pragma once
#include "clock_tables.h"

#define ACTIVE_BITS 10  /* more cores than a package has */
#define ACTIVE_MASK ((1U << ACTIVE_BITS) - 1)

/* Time for the upper bits, in units of 1.024 us. */
static __always_inline u64 active_time(u64 ns)
{
	return ns >> 10;
}

/* A core of a package becomes active or idle. */
static __always_inline void active_count(u32 node, bool comes, u64 now)
{
	u64 at = active_time(now) << ACTIVE_BITS;

	barrier_var(node);
	if (node < MAX_CPUS)
		__sync_fetch_and_add(&node_active[node], comes ? 1 - at : at - 1);
}

/* A CPU becomes idle or busy. Only the CPU itself calls this, so that it is counted once. */
static __always_inline void active_set(s32 cpu, bool busy)
{
	struct clock_cpu *state = clock_cpu_of(cpu);
	u32 core, at = cpu_index(cpu);

	if (!state || state->busy == busy || at >= MAX_CPUS)
		return;
	state->busy = busy;
	core = state->core;
	barrier_var(core);
	if (core >= MAX_CPUS)
		return;
	/* The first thread of its core to become busy, or the last one to become idle. */
	if (__sync_fetch_and_add(&core_busy[core], busy ? 1 : -1) == !busy)
		active_count(cpu_node[at], busy, scx_bpf_now());
}

static __always_inline u64 active_word(s32 cpu)
{
	u32 at = cpu_index(cpu), node;
	u64 word = 1;

	if (at >= MAX_CPUS)
		return word;
	node = cpu_node[at];
	barrier_var(node);
	if (node < MAX_CPUS)
		word = node_active[node];
	barrier_var(word); /* read once */
	return word;
}

/* The active cores of a CPU's package, now. */
static __always_inline u32 active_cores(s32 cpu)
{
	return active_word(cpu) & ACTIVE_MASK;
}

/*
 * How many cores were active on average since the last call on this CPU, at since_ns, in parts of
 * ACTIVE_ONE.
 */
static __always_inline u32 take_active(s32 at, struct clock_cpu *cpu, u64 since_ns, u64 now)
{
	u64 word = active_word(at), cores = word & ACTIVE_MASK, took;
	u64 total = cores * active_time(now) + (word >> ACTIVE_BITS);
	u64 more = (total - cpu->active_total) << ACTIVE_BITS >> ACTIVE_BITS; /* it wraps */

	cpu->active_total = total;
	took = elapsed_ns(active_time(since_ns), active_time(now));
	return took ? more * ACTIVE_ONE / took : cores * ACTIVE_ONE;
}

/* Whether a CPU's core has other hardware threads. */
static __always_inline bool has_sibling(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS && cpu_sibling[at] != at;
}

/* In init. */
static __always_inline void active_look(void)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct clock_cpu *state = clock_cpu_of(i);

		if (!state)
			return;
		state->core = core_of(i);
	}
}
