/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of each task and each CPU, and how it is updated. */
#pragma once
#include "counters.h"
#include "cpus.h"
#include "knobs.h"
#include "shares.h"
#include "limit.h"
#include "task_table.h"
#include "topology.h"
#include "vtime.h"

struct un_task {
	struct wants wants;
};

TASK_STORAGE(struct un_task, tasks)

/* Written by its own CPU. Other CPUs read it, and write `vtime` [preempt.h]. */
struct un_cpu {
	struct share_cpu share;
	u64 since_ns;  /* when the running task was last charged */
	struct count counted; /* this CPU's count at that time */
	u64 vtime;  /* of the running task, at since_ns; VTIME_IDLE: none */
} __attribute__((aligned(64)));

CPU_TABLE(struct un_cpu, cpus)

/* Kinds of cores that p may run on, a bit for each. */
static __always_inline u32 kinds_allowed(const struct task_struct *p)
{
	u32 kinds = 0, i;

	bpf_for(i, 0, nr_cpus)
		if (cpu_allowed(p, i))
			kinds |= 1U << cpu_kind(i);
	return kinds;
}

/* A CPU's count, which only that CPU can read. */
static __always_inline struct count count_now(s32 at)
{
	return reads_counters && at == this_cpu() ? cpu_count() : (struct count){};
}

/* Charges p for its time on its CPU since the last charge. */
static __always_inline void charge(struct task_struct *p, s32 at)
{
	struct un_cpu *cpu = cpus_of(at);
	struct un_task *task = tasks_of(p);
	struct task_slot_of *of = task_slots_of(p);
	struct task_slot *slot = slot_in(of);
	u64 now = scx_bpf_now(), ran_ns;
	u32 kind = cpu_kind(at);
	struct count before;

	if (!cpu)
		return;
	ran_ns = elapsed_ns(cpu->since_ns, now);
	before = cpu->counted;
	cpu->since_ns = now;
	cpu->counted = count_now(at);
	cpu->vtime = vtime_run(p, of, vtime_of(ran_ns, vtime_weight_of(p, slot)), knob_slice_ns);
	if (slot) {
		task_charge(slot, p, ran_ns);
		slot->ran_ns.of[kind] += ran_ns;
		count_into(slot, kind, before, cpu->counted);
	}
	if (task) {
		share_charge(&task->wants, shares_of(slot), kind, ran_ns, 4 * knob_round_ns);
		cpu->share.wants = task->wants;
	}
}
