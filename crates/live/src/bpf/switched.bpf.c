/* SPDX-License-Identifier: GPL-2.0 */
/*
 * switched: counts instructions for a policy that may not read counters itself (before kernel
 * 6.15).
 *
 * It runs at each switch, and when the kernel has charged a task for its CPU time
 * (sched_stat_runtime: at ticks and as the task leaves). That is just before the policy's own
 * callback charges the task. This CPU's instructions since the last time go to the task, in the
 * policy's own table. Both maps are the policy's.
 */
#include "kernel.h"
#include "topology.h"
#include "counters.h"
#include "task_table.h"

LICENSE;

struct last {
	struct count count;
} __attribute__((aligned(64)));

CPU_TABLE(struct last, lasts)

/* Adds the count to the task that runs here. */
static __always_inline int count_for(struct task_struct *p)
{
	struct last *last = lasts_of(this_cpu());
	struct task_slot *slot = task_slot(p);
	struct count before;

	if (!last)
		return 0;
	before = last->count;
	last->count = cpu_count();
	if (slot)
		count_into(slot, cpu_kind(this_cpu()), before, last->count);
	return 0;
}

SEC("tp_btf/sched_stat_runtime")
int BPF_PROG(on_runtime, struct task_struct *p, u64 runtime)
{
	/* Another CPU may charge a task that runs elsewhere. */
	return p->pid == (s32)bpf_get_current_pid_tgid() ? count_for(p) : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return count_for(prev);
}
