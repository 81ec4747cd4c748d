/* SPDX-License-Identifier: GPL-2.0 */
/* Active: how many cores of a package have a thread that does not idle, on which turbo depends. */
#pragma once
#include "state.h"

/* A CPU begins to idle or to work. Its own alone says so, so that a CPU is counted once. */
static __always_inline void active_set(s32 cpu, bool busy)
{
	struct avx_cpu *state = cpus_of(cpu);
	u32 core, node, at = cpu;

	barrier_var(at);
	if (!state || state->busy == busy || at >= MAX_CPUS)
		return;
	state->busy = busy;
	state->changed_ns = now_ns();
	core = state->core;
	node = cpu_node[at];
	barrier_var(core);
	barrier_var(node);
	if (core >= MAX_CPUS || node >= MAX_CPUS)
		return;
	if (busy && __sync_fetch_and_add(&core_busy[core], 1) == 0)
		__sync_fetch_and_add(&node_active[node], 1);
	if (!busy && __sync_fetch_and_add(&core_busy[core], -1) == 1)
		__sync_fetch_and_add(&node_active[node], -1);
}

static __always_inline u32 active_cores(s32 cpu)
{
	u32 at = cpu, node;

	barrier_var(at);
	if (at >= MAX_CPUS)
		return 1;
	node = cpu_node[at];
	barrier_var(node);
	return node < MAX_CPUS ? node_active[node] : 1;
}

/* Whether a CPU's core has other threads. */
static __always_inline bool has_sibling(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_sibling[at] != at;
}

/* In init: each CPU's core is the lowest of its siblings. */
static __always_inline void active_look(void)
{
	u32 i, j;

	bpf_for(i, 0, nr_cpus) {
		struct avx_cpu *state = cpus_of(i);
		u32 lowest = i, at = i;

		if (!state)
			return;
		for (j = 0; j < SIBLINGS_MAX; j++) {
			barrier_var(at);
			if (at >= MAX_CPUS)
				break;
			at = cpu_sibling[at];
			if (at < lowest)
				lowest = at;
		}
		state->core = lowest;
	}
}
