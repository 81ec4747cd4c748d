/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of each task and each CPU, and what a run costs. */
#pragma once
#include "knobs.h"
#include "clock_state.h"
#include "limit.h"
#include "vtime.h"

struct avx_task {
	struct clock_task clock;
};

TASK_STORAGE(struct avx_task, tasks)

/* Written by its own CPU. Other CPUs read vtime, a tick old at most, and write it [preempt.h]. */
struct avx_cpu {
	u64 since_ns;   /* when the running task was last charged */
	u64 vtime;   /* of the running task, at that time; VTIME_IDLE: none */
	u64 balanced_ns;	 /* when queues were last balanced here */
	struct clock_cpu clock;
} __attribute__((aligned(64)));

CPU_TABLE(struct avx_cpu, cpus)

#include "clock_account.h"

/*
 * Fills the task table's kinds of cores with license levels: how long the task's cycles took at
 * each.
 */
static __always_inline void tell_levels(struct task_slot *slot, const struct charge_of *of)
{
	u32 level;

	for (level = 0; level < LICENSE_LEVELS; level++)
		slot->ran_ns.of[level] += of->took_ns[level];
}

/* Charges p for its time on this CPU since it was charged last. */
static __always_inline void account(struct task_struct *p, s32 at)
{
	struct avx_cpu *cpu = cpus_of(at);
	struct avx_task *task = tasks_of(p);
	struct task_slot_of *kept = task_slots_of(p);
	struct task_slot *slot = slot_in(kept);
	struct charge_of of = {};
	u64 now = scx_bpf_now(), ran_ns, charge_ns;

	if (!cpu || !task)
		return;
	ran_ns = elapsed_ns(cpu->since_ns, now);
	charge_ns = clock_charge(&task->clock, slot, at, ran_ns, now, &of);
	cpu->since_ns = now;
	if (slot) {
		task_charge(slot, p, ran_ns);
		tell_levels(slot, &of);
	}
	cpu->vtime =
		vtime_run(p, kept, vtime_of(charge_ns, vtime_weight_of(p, slot)), knob_slice_ns);
}

/* p starts here. */
static __always_inline void account_start(struct task_struct *p, s32 at, u64 now)
{
	struct avx_cpu *cpu = cpus_of(at);

	if (!cpu)
		return;
	cpu->since_ns = now;
	clock_start(p, at, now);
}
