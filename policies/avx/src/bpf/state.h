/* SPDX-License-Identifier: GPL-2.0 */
/* What the policy knows of each task and each CPU. */
#pragma once
#include "charge.h"
#include "hotplug.h"
#include "knobs.h"
#include "task_table.h"
#include "topology.h"
#include "vtime.h"

struct avx_task {
	u32 level;	/* what it needs, as of the last stretch */
	u32 seen[2];	/* observe.h, of levels 1 and 2: how many stretches of time, or saved states, said something, */
	u32 wide[2];	/* and in which part of them the level was needed */
	u32 clear_ns[2];	/* its time without the level since that said something */
	u32 mw;		/* what its core drew while it ran, a mean that forgets; 0: not known */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct avx_task);
} avx_tasks SEC(".maps");

/* Written by its own CPU; others read vtime, a tick old at most. */
struct avx_cpu {
	u64 since_ns;			/* when who runs here was charged last */
	struct clock_counts counts;	/* at that time */
	u64 cycles;			/* at that time, where levels are a model's and cycles are counted */
	u64 vtime;			/* of who runs here, as of then; VTIME_IDLE: nobody */
	u64 balanced_ns;		/* when queues were evened out here last */
	u64 active_total;		/* active.h, of its package at since_ns */
	struct watched {
		u64 since_ns, high_ns;	/* since when it is watched, and for how long the level was there */
		bool was_low;		/* it was not there in the stretch of time before, whose that was */
		bool unexplained;	/* who runs here may be the one that needs it */
	} watched[2];			/* observe.h: its core's license at levels 1 and 2 */
	u32 fresh;			/* who runs here has come since it was charged last */
	u64 needed_ns[2];		/* when who is known to need them ran here last, */
	u64 unknown_ns;			/* and when of whom nothing is known, with the license above the lowest */
	u32 known;			/* one more than the level of who runs here; 0: not known */
	u32 counts_known;
	u32 busy;
	u32 core;			/* its core, by its lowest CPU */
	u32 needs;			/* level of who runs here, as far as it was said; 0: nobody */
} __attribute__((aligned(64)));

CPU_TABLE(struct avx_cpu, cpus)

#define VTIME_IDLE 0	/* no task has this: vtimes begin at VTIME_BEGINS */

/* Busy threads of each core, by its lowest CPU; cores with any of each package, and for how long: a node is one. */
static u32 core_busy[MAX_CPUS];
static u64 node_active[MAX_CPUS];	/* see active.h */

/* What tasks draw, mW: a mean over tasks that forgets. */
static u64 mean_mw;

/* What was refunded so far, and charged beyond time; for whoever asks. */
EXPORT u64 refunded_ns;
EXPORT u64 surcharged_ns;

/* How many saved states of tasks were looked at, and had wide registers in use. */
EXPORT u64 saved_looks;
EXPORT u64 saved_wide;
