/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: which task is next on a CPU. Slide 13: round robin with a fixed slice. Slide 12: priority
 * moves a task within its queue and never preempts the running task.
 */
#pragma once
#include "kernel.h"

#define WEIGHT_NICE_0 100 /* p->scx.weight of a task of nice 0 */

/* The woken task's properties that a wakeup may use. */
struct order_task {
	u32 weight;
	bool pinned; /* it may run on this CPU only, and there are others */
	bool kernel; /* a kernel thread: tasks that wait for RCU or a work item wait for it */
};

/*
 * Whether a woken task goes to the head: it has a higher weight, is pinned, or is a kernel thread.
 */
static __always_inline bool order_prefers_head(struct order_task task)
{
	return task.weight > WEIGHT_NICE_0 || task.pinned || task.kernel;
}

/*
 * The head is last in, first out. So each CPU gives it away at most once in two turns of `turn_ns`,
 * which leaves half of its time to the tasks behind. Else they would starve while tasks of higher
 * weight keep waking. Returns whether the head is free now, and takes it.
 */
static __always_inline bool order_take_head(u64 *taken_ns, u64 now_ns, u64 turn_ns)
{
	if (*taken_ns && elapsed_ns(*taken_ns, now_ns) < 2 * turn_ns)
		return false;
	*taken_ns = now_ns;
	return true;
}

/* The longest time a task runs: a slice no longer than a tick ends at the tick after it. */
static __always_inline u64 order_turn(u64 slice_ns, u64 tick_ns, u64 deferred_ns)
{
	u64 turn_ns = slice_ns > tick_ns ? slice_ns : slice_ns + tick_ns;

	return deferred_ns ? turn_ns + deferred_ns + tick_ns : turn_ns;
}

/*
 * Deferral as in the released code, which marks no task for rescheduling when its slice ends. At a
 * tick that finds the slice used up, the task gets `defer_ns` once. `deferred` is the task that
 * this CPU has already given it to. Returns the slice to continue with, or 0 if the turn is over.
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
