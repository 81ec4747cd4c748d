/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of each task and each CPU. */
#pragma once
#include "charge.h"
#include "cpus.h"
#include "knobs.h"
#include "task_table.h"
#include "topology.h"
#include "vtime.h"

struct avx_task {
	u32 level; /* the level it needs, as of the last stretch */
	/*
	 * observe.h, for levels 1 and 2: how many stretches of time, or saved states, said
	 * something,
	 */
	u32 seen[2];
	u32 wide[2]; /* and in which part of them the level was needed */
	u32 clear_ns[2]; /* its time without the level since that last said something */
	u32 mw; /* its core's power while it ran, as a running mean; 0: unknown */
};

TASK_STORAGE(struct avx_task, tasks)

/* Written by its own CPU. Other CPUs read vtime, a tick old at most, and write it [preempt.h]. */
struct avx_cpu {
	u64 since_ns;   /* when the running task was last charged */
	struct clock_counts counts; /* at that time */
	u64 cycles;   /* at that time, with modelled levels and counted cycles */
	u64 vtime;   /* of the running task, at that time; VTIME_IDLE: none */
	u64 balanced_ns;	 /* when queues were last balanced here */
	u64 active_total;  /* active.h, of its package at since_ns */
	struct watched {
		u64 since_ns, high_ns; /* since when it is watched; how long the level was there */
		bool was_low; /* the level was not there in the stretch before */
		bool unexplained; /* the running task may be the one that needs it */
	} watched[2]; /* observe.h: its core's license at levels 1 and 2 */
	u32 fresh; /* the running task started since the last charge */
	/* With the license above the lowest, when there last ran a task that is */
	u64 needed_ns[2]; /* known to need the level, */
	u64 unknown_ns; /* or of unknown level */
	u32 known; /* 1 + the level of the running task; 0: unknown */
	u32 counts_known;
	u32 busy;
	u32 core; /* its core, by its lowest CPU */
	u32 needs; /* the running task's level, as told; 0: no task */
} __attribute__((aligned(64)));

CPU_TABLE(struct avx_cpu, cpus)

static u32 core_busy[MAX_CPUS]; /* busy threads of each core, by its lowest CPU */
static u64 node_active[MAX_CPUS]; /* active.h: active cores of each package, by node */

/* The mean power of tasks, mW: a running mean. */
static u64 mean_mw;

/* Time refunded so far, and time charged beyond run time; for the ground to read. */
EXPORT u64 refunded_ns;
EXPORT u64 surcharged_ns;

/* How many saved states were looked at, and how many of them had wide registers in use. */
EXPORT u64 saved_looks;
EXPORT u64 saved_wide;
