/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: virtual time, the talk's future work "applying CAS into CFS". It is start-time fair
 * queueing (Goyal, Guo, Vin: Start-time Fair Queueing, SIGCOMM 1996). A task's tag is the CPU time
 * it had, over its weight, and the lowest tag goes first. A woken task gets a tag no earlier than
 * the CPU's clock, which is the lowest tag of all runnable tasks.
 *
 * The context-aware rule: the current context's lowest tag goes first while it is ahead of the
 * lowest of all by no more than the slack. So no always-runnable task is ever ahead of another by
 * more than the slack and one turn. Without the rule it is one turn.
 *
 * A tag is in ns of a task of nice 0, a multiple of SLOTS_MAX. A key is the tag, with the slot in
 * its low bits. Each CPU has its own clock, which begins late enough that no key is 0.
 */
#pragma once
#include "order_key.h"

#define SLACK_OFF    0  /* else 1 + the slack */
#define VTIME_WEIGHT 100	 /* of nice 0, as sched_ext has it */
#define VTIME_BEGINS (1ULL << 32)
#define VTIME_MASK   (~(u64)(SLOTS_MAX - 1))

/*
 * Weights are limited to 8 times as much or as little as nice 0, which is nice -9 or 9. At nice 19
 * a turn of 3 ms would equal what two tasks of nice -20 have in 36 s. The kernel's watchdog waits
 * for 30 s.
 */
#define VTIME_WEIGHT_MIN (VTIME_WEIGHT / 8)
#define VTIME_WEIGHT_MAX (VTIME_WEIGHT * 8)

/*
 * Parts of a slice of nice 0. A turn is about 3 ms [sysctl_sched_base_slice]. A woken task has to
 * be ahead of the running one by 1 ms to preempt it [sysctl_sched_wakeup_granularity].
 */
#define VTIME_TURN(slice)   ((slice) / 32)
#define VTIME_WAKEUP(slice) ((slice) / 100)

static __always_inline u64 vtime_key(u64 key, u32 slot)
{
	return (key & VTIME_MASK) | slot;
}

/* The key after a run of `ran_ns`. */
static __always_inline u64 vtime_ran(u64 key, u64 ran_ns, u32 weight)
{
	if (weight < VTIME_WEIGHT_MIN)
		weight = VTIME_WEIGHT_MIN;
	if (weight > VTIME_WEIGHT_MAX)
		weight = VTIME_WEIGHT_MAX;
	return key + (ran_ns * VTIME_WEIGHT / weight & VTIME_MASK);
}

/* A woken or moved task's tag: `own` is its tag by the clock `from`, `clock` is this CPU's. */
static __always_inline u64 vtime_arrives(u64 own, u64 from, u64 clock)
{
	s64 ahead = own - from;

	return clock + (ahead > 0 ? ahead : 0);
}

/* The same for a task that never slept: what it is behind by is not lost. */
static __always_inline u64 vtime_moves(u64 own, u64 from, u64 clock)
{
	return own - from + clock;
}

/* Whether the current context's first task goes before the first of all. */
static __always_inline bool vtime_goes_first(u64 aux, u64 reg, u64 slack)
{
	return (aux & VTIME_MASK) - (reg & VTIME_MASK) < slack;
}

/* Whether a woken task preempts the running one, whose tag is `running` by now. */
static __always_inline bool vtime_preempts(u64 key, u64 running, bool here, u64 slack, u64 slice)
{
	return key + VTIME_WAKEUP(slice) + (here ? 0 : slack) < running;
}
