/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: virtual time, the talk's future work "applying CAS into CFS". Start-time fair queueing (Goyal,
 * Guo, Vin: Start-time Fair Queueing, SIGCOMM 1996): a task's tag is the CPU time it had, over its
 * weight; the least goes first; who slept comes back no earlier than the CPU's own clock, which is the
 * least tag of all that could run.
 *
 * The context-aware rule: the current context's least goes first while it is ahead of the least of all by
 * no more than the slack. So nobody who always could run is ever ahead of another such by more than
 * the slack and one turn: without the rule it is one turn.
 *
 * A tag is in ns of a task of nice 0, a multiple of SLOTS_MAX; a key is the tag and, in what that leaves
 * free, the slot. Each CPU has a clock of its own, which begins late enough that no key is 0.
 */
#pragma once
#include "order_key.h"

#define SLACK_OFF	0		/* else one more than the slack */
#define VTIME_WEIGHT	100		/* of nice 0, as sched_ext has it */
#define VTIME_BEGINS	(1ULL << 32)
#define VTIME_MASK	(~(u64)(SLOTS_MAX - 1))

/*
 * Weights beyond these count as these: 8 times as much or as little as nice 0, which is nice -9 or 9. Of nice 19
 * a turn of 3 ms takes all that two tasks of nice -20 have in 36 s; the kernel's watchdog waits for 30 s.
 */
#define VTIME_WEIGHT_MIN	(VTIME_WEIGHT / 8)
#define VTIME_WEIGHT_MAX	(VTIME_WEIGHT * 8)

/* Part of a slice of nice 0: a turn, about 3 ms [sysctl_sched_base_slice], and how far ahead of who
 * runs a woken task has to be to take the CPU, 1 ms [sysctl_sched_wakeup_granularity]. */
#define VTIME_TURN(slice)	((slice) / 32)
#define VTIME_WAKEUP(slice)	((slice) / 100)

static __always_inline u64 vtime_key(u64 key, u32 slot)
{
	return (key & VTIME_MASK) | slot;
}

/* It ran for so long. */
static __always_inline u64 vtime_ran(u64 key, u64 ran_ns, u32 weight)
{
	if (weight < VTIME_WEIGHT_MIN)
		weight = VTIME_WEIGHT_MIN;
	if (weight > VTIME_WEIGHT_MAX)
		weight = VTIME_WEIGHT_MAX;
	return key + (ran_ns * VTIME_WEIGHT / weight & VTIME_MASK);
}

/* It comes back, or from another CPU: `own` is its tag by the clock `from`, `clock` is the CPU's. */
static __always_inline u64 vtime_arrives(u64 own, u64 from, u64 clock)
{
	s64 ahead = own - from;

	return clock + (ahead > 0 ? ahead : 0);
}

/* The same of one that never slept: what it is behind by is not lost. */
static __always_inline u64 vtime_moves(u64 own, u64 from, u64 clock)
{
	return own - from + clock;
}

/* Whether the current context's first goes before the first of all. */
static __always_inline bool vtime_goes_first(u64 aux, u64 reg, u64 slack)
{
	return (aux & VTIME_MASK) - (reg & VTIME_MASK) < slack;
}

/* Whether a woken task takes the CPU from the one that runs, whose tag is `running` by now. */
static __always_inline bool vtime_preempts(u64 key, u64 running, bool here, u64 slack, u64 slice)
{
	return key + VTIME_WAKEUP(slice) + (here ? 0 : slack) < running;
}
