/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a policy that charges by clocks knows of each task and each CPU. It embeds
 * `struct clock_task` and `struct clock_cpu` as `clock` in its tables, and says how it charges in
 * CHARGES_BY, DETECTS_BY and COUNTS_BY, and in SHARES_ARE_LEVELS whether tasks' shares are levels.
 */
#pragma once
#include "clocks.h"

enum charge_by {
	CHARGE_VICTIM, /* a task is not charged for drops that others cause */
	CHARGE_OFF, /* time, whatever the clock: the control arm */
	CHARGE_BOTH, /* cycles at the task's own ideal clock: a higher clock costs more */
	CHARGE_ENERGY, /* by the task's power, relative to the average task */
};

enum detect_by {
	DETECT_OBSERVED, /* as told, else from the license while the task ran */
	DETECT_TRAP,  /* the talk's own: registers disabled, so that first use traps */
	DETECT_TOLD,  /* as told only */
	DETECT_SAVED,  /* as told, else from the registers that the kernel saved */
};

enum counted_by {
	COUNTED_EVENTS, /* cycles at each license level */
	COUNTED_MODEL, /* modelled from the told levels, and bounded by counted cycles if any */
};

struct clock_task {
	u32 level; /* the level it needs, as of the last stretch */
	/*
	 * observe_level.h, for levels 1 and 2: how many stretches of time, or saved states, said
	 * something,
	 */
	u32 seen[2];
	u32 wide[2]; /* and in which part of them the level was needed */
	u32 clear_ns[2]; /* its time without the level since that last said something */
	u32 mw; /* its core's power while it ran, as a running mean; 0: unknown */
};

/* Written by its own CPU. */
struct clock_cpu {
	struct clock_counts counts; /* when the running task was last charged */
	u64 cycles;   /* at that time, with modelled levels and counted cycles */
	u64 active_total;  /* active_cores.h, of its package at that time */
	struct watched {
		u64 since_ns, high_ns; /* since when it is watched; how long the level was there */
		bool was_low; /* the level was not there in the stretch before */
		bool unexplained; /* the running task may be the one that needs it */
	} watched[2]; /* observe_level.h: its core's license at levels 1 and 2 */
	u32 fresh; /* the running task started since the last charge */
	/* With the license above the lowest, when there last ran a task that is */
	u64 needed_ns[2]; /* known to need the level, */
	u64 unknown_ns; /* or of unknown level */
	u32 known; /* 1 + the level of the running task; 0: unknown */
	u32 counts_known;
	u32 busy;
	u32 core; /* its core, by its lowest CPU */
	u32 needs; /* the running task's level, as told; 0: no task */
};
