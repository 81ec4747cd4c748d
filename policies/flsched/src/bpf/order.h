/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: who is next on a CPU. Slide 13: round robin with a fixed slice. Slide 12: priority moves a
 * task in its queue and takes nothing from the one that runs.
 */
#pragma once
#include "kernel.h"

#define WEIGHT_NICE_0 100	/* p->scx.weight of a task of nice 0 */

/* What a wakeup may know of the woken task. */
struct order_task {
	u32 weight;
	bool pinned;	/* it can run on this one CPU only, and there are others */
	bool kernel;	/* it is the kernel's own: whoever waits for RCU or a work item waits for it */
};

/* Whether a woken task is to be moved to the head: it outranks the rest, cannot go elsewhere, or works for all. */
static __always_inline bool order_prefers_head(struct order_task task)
{
	return task.weight > WEIGHT_NICE_0 || task.pinned || task.kernel;
}

/*
 * The head is last in, first out, so each CPU gives it away at most once in two turns of `turn_ns`:
 * half of its time is left to those behind, who else would starve where tasks that outrank them
 * keep waking. Returns whether it is free now, and takes it.
 */
static __always_inline bool order_take_head(u64 *taken_ns, u64 now_ns, u64 turn_ns)
{
	if (*taken_ns && elapsed_ns(*taken_ns, now_ns) < 2 * turn_ns)
		return false;
	*taken_ns = now_ns;
	return true;
}

/* The longest that a task runs: a slice that is not longer than a tick ends at the tick after it. */
static __always_inline u64 order_turn(u64 slice_ns, u64 tick_ns, u64 deferred_ns)
{
	u64 turn_ns = slice_ns > tick_ns ? slice_ns : slice_ns + tick_ns;

	return deferred_ns ? turn_ns + deferred_ns + tick_ns : turn_ns;
}

/*
 * Code-faithful deferral: the released code marks no task for rescheduling when its slice ends.
 * At a tick that finds the slice used up, the task is given `defer_ns` once more, and no further.
 * `deferred` is the task that this CPU has already given it. Returns the slice to go on with, or 0
 * where it is over.
 */
static __always_inline u64 order_defer(s32 *deferred, s32 pid, u64 defer_ns)
{
	if (*deferred == pid) {
		*deferred = 0;
		return 0;
	}
	*deferred = pid;
	return defer_ns;
}
