/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of the CPU: how many instructions it has retired. A scheduler may read them from kernel 6.15 on
 * (ae0a457f5d33); before, crates/live/src/bpf/switched.bpf.c reads them in its place.
 */
#pragma once
#include "kernel.h"

#ifdef __bpf__
struct bpf_perf_event_value {
	u64 counter;
	u64 enabled;
	u64 running;
};

/* A counter for each CPU, opened by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, MAX_CPUS);
	__type(key, u32);
	__type(value, u32);
} instructions SEC(".maps");

/* Of this CPU, since its counter was opened; 0 where it has none. */
static __always_inline u64 cpu_instructions(void)
{
	struct bpf_perf_event_value value = {};

	bpf_perf_event_read_value(&instructions, BPF_F_CURRENT_CPU, &value, sizeof(value));
	return value.counter;
}
#endif

/* Counts nobody can have had: the counter jumped back, or could not be read. */
#define COUNT_LOST (~0ULL)

static __always_inline u64 count_between(u64 before, u64 now)
{
	return now >= before && now != COUNT_LOST ? now - before : COUNT_LOST;
}

/* Adds to a sum; what was lost begins it anew, by which the control plane knows. */
static __always_inline void count_into(u64 *sum, u64 count)
{
	*sum = count == COUNT_LOST ? 0 : *sum + count;
}
