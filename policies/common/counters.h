/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of the CPU: how many instructions it has retired. A scheduler may read them from kernel 6.15 on
 * (ae0a457f5d33); before, crates/live/src/bpf/switched.bpf.c reads them in its place.
 */
#pragma once
#include "kernel.h"
#include "task_table.h"

/* What a counter says, since it was opened. */
struct count {
	u64 instructions;
	u64 counting_ns;	/* for how long it has counted */
};

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

/* Of this CPU; all 0 where it has none. */
static __always_inline struct count cpu_count(void)
{
	struct bpf_perf_event_value value = {};

	bpf_perf_event_read_value(&instructions, BPF_F_CURRENT_CPU, &value, sizeof(value));
	return (struct count){ value.counter, value.running };
}
#endif

/* Adds what p's CPU has counted while p ran. */
static __always_inline void count_into(struct task_slot *slot, u32 kind, struct count before, struct count now)
{
	/* A counter whose CPU went and came back, or whose unit counts for others, stands still. */
	if (!before.counting_ns || now.counting_ns <= before.counting_ns || now.instructions < before.instructions)
		return;
	slot->instructions.of[kind] += now.instructions - before.instructions;
	slot->counted_ns.of[kind] += now.counting_ns - before.counting_ns;
}
