/* SPDX-License-Identifier: GPL-2.0 */
/*
 * switched: counts instructions for a policy that may not read counters itself (before kernel 6.15).
 *
 * At each switch it adds what this CPU has retired since the last one to the task that goes, in the policy's own
 * table: both maps are the policy's. A task that runs on is counted when it goes, so what is known of it is as old
 * as its turn.
 *
 * Does not work where a task runs for many intervals without a switch: on a CPU that nobody else wants and for
 * which no rounds end.
 */
#include "kernel.h"
#include "topology.h"
#include "counters.h"
#include "task_table.h"

LICENSE;

struct count {
	u64 last;
	u64 own_cache_line[7];
};

CPU_TABLE(struct count, counts)

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct count *count = counts_of(this_cpu());
	struct task_slot *slot = task_slot(prev);
	u64 now = cpu_instructions(), before;

	if (!count)
		return 0;
	before = count->last;
	count->last = now;
	/* The first switch says only where to count from. */
	if (slot && before)
		count_into(&slot->instructions.of[cpu_kind(this_cpu())], count_between(before, now));
	return 0;
}
