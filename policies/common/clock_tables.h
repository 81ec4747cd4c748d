/* SPDX-License-Identifier: GPL-2.0 */
/* Where the policy keeps what is known of clocks [clock_state.h], and what all CPUs share of it. */
#pragma once
#include "clock_charge.h"
#include "clock_state.h"
#include "cpus.h"
#include "task_table.h"
#include "topology.h"

static __always_inline struct clock_cpu *clock_cpu_of(s32 cpu)
{
	__auto_type state = cpus_of(cpu);

	if (!state)
		return NULL;
	barrier_var(state); /* else the verifier sees the address computed before the check */
	return &state->clock;
}

static __always_inline struct clock_task *clock_task_of(struct task_struct *p)
{
	__auto_type task = tasks_of(p);

	if (!task)
		return NULL;
	barrier_var(task);
	return &task->clock;
}

/* 1 + the level that a task is said to need; 0: nothing is said. */
static __always_inline u64 level_told(const struct task_slot *slot)
{
	u64 told = slot && SHARES_ARE_LEVELS ? task_share(slot) : 0;

	return told <= LICENSE_LEVELS ? told : 0;
}

static u32 core_busy[MAX_CPUS]; /* busy threads of each core, by its lowest CPU */
static u64 node_active[MAX_CPUS]; /* active_cores.h: active cores of each package, by node */

/* The mean power of tasks, mW: a running mean. */
static u64 mean_mw;

/* Time refunded so far, and time charged beyond run time; for the ground to read. */
EXPORT u64 refunded_ns;
EXPORT u64 surcharged_ns;

/* How many saved states were looked at, and how many of them had wide registers in use. */
EXPORT u64 saved_looks;
EXPORT u64 saved_wide;
