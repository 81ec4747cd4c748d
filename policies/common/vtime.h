/* SPDX-License-Identifier: GPL-2.0 */
/* Virtual time: CPU time by weight. Who has had the least is next. It wraps: only differences mean something. */
#pragma once
#include "kernel.h"

#define VTIME_BEGINS (1ULL << 32)	/* so that no task has 0 */

/* Of who started last that had the most: those who come start from near it. */
static u64 vtime_now = VTIME_BEGINS;

/*
 * How fast a task's vtime goes: nice -9 and 9 at most, a factor of seven. Beyond that a turn of the one would
 * be so long in the other's time that the watchdog takes its wait for a stall.
 */
#define WEIGHT_MAX 745
#define WEIGHT_MIN 13

static __always_inline u32 vtime_weight(u32 weight)
{
	if (weight > WEIGHT_MAX)
		weight = WEIGHT_MAX;
	return weight < WEIGHT_MIN ? WEIGHT_MIN : weight;
}

static __always_inline u64 vtime_of(u64 ran_ns, u32 weight)
{
	return ran_ns * 100 / vtime_weight(weight);
}

/* The later of two. */
static __always_inline u64 vtime_after(u64 vtime, u64 other)
{
	return (s64)(vtime - other) < 0 ? other : vtime;
}

/* How far it is from now: what can be compared. */
static __always_inline s64 vtime_ahead(u64 vtime)
{
	return vtime - vtime_now;
}

/*
 * What p is queued by: who slept has no claim on the time of those who did not; and who ran while nobody waited owes
 * nobody more than a few slices of the lowest weight, which others may be ahead by: or it would wait for as long as
 * all of them together need to have had as much.
 */
static __always_inline u64 vtime_queued(const struct task_struct *p, u64 enq_flags, u64 slice_ns)
{
	u64 vtime = p->scx.dsq_vtime, most = vtime_now + vtime_of(4 * slice_ns, WEIGHT_MIN);

	if ((s64)(vtime - most) > 0)
		vtime = most;
	return enq_flags & SCX_ENQ_WAKEUP ? vtime_after(vtime, vtime_now - slice_ns) : vtime;
}

/* In running: who waited long, or was bound to a CPU, catches up for a few slices and no longer. */
static __always_inline void vtime_starts(struct task_struct *p, u64 slice_ns)
{
	u64 vtime = vtime_after(p->scx.dsq_vtime, vtime_now - 4 * slice_ns);

	if (vtime != p->scx.dsq_vtime)
		task_set_dsq_vtime(p, vtime);
	vtime_now = vtime_after(vtime_now, vtime);
}

/* Who waits first in a queue, by how far it is from now; S64_MAX: nobody; 0 where the kernel does not let it be seen. */
static __always_inline s64 vtime_head(u64 dsq_id)
{
	if (!scx_bpf_dsq_nr_queued(dsq_id))
		return S64_MAX;
	return dsq_can_peek() ? vtime_ahead(dsq_peek_vtime(dsq_id)) : 0;
}
