/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The CPU's counter of retired instructions. A scheduler may read it from kernel 6.15 on
 * (ae0a457f5d33). Before that, crates/live/src/bpf/switched.bpf.c reads it instead.
 */
#pragma once
#include "kernel.h"
#include "task_table.h"

/* A counter's value since it was opened. */
struct count {
	u64 instructions;
	u64 counting_ns; /* how long it has counted */
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

/* This CPU's count; all 0 if it has no counter. */
static __always_inline struct count cpu_count(void)
{
	struct bpf_perf_event_value value = {};

	bpf_perf_event_read_value(&instructions, BPF_F_CURRENT_CPU, &value, sizeof(value));
	return (struct count){ value.counter, value.running };
}
#endif

/* Adds the instructions that p's CPU counted while p ran. */
static __always_inline void count_into(struct task_slot *slot, u32 kind, struct count before,
				       struct count now)
{
	/* The counter stops while its CPU is offline or its PMU unit counts other events. */
	if (!before.counting_ns || now.counting_ns <= before.counting_ns ||
	    now.instructions < before.instructions)
		return;
	slot->instructions.of[kind] += now.instructions - before.instructions;
	slot->counted_ns.of[kind] += now.counting_ns - before.counting_ns;
}
