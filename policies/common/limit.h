/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limit: how much CPU time a cgroup has left of its cpu.max, and what a run costs.
 *
 * The control plane writes into the task table which cgroups have a limit, and which limit a task
 * is in. A task's CPU time is taken from that limit and from all those around it.
 */
#pragma once
#include "task_table.h"

#define LIMITS_DEEP 32 /* limits in limits that are looked at */

/*
 * Begins the next period if it is time, or that which is now. The first one begins with the first
 * use, so that the periods of many cgroups do not all end at once.
 */
static __always_inline void limit_renew(struct limit *limit, u64 now)
{
	u64 ends = limit->ends_ns, period = limit->period_ns, quota = limit->quota_ns, periods;
	s64 room, more;

	if (!period || !quota || (s64)(now - ends) < 0)
		return;
	periods = ends ? (now - ends) / period + 1 : 1;
	if (!__sync_bool_compare_and_swap(&limit->ends_ns, ends, (ends ?: now) + periods * period))
		return;
	/* Below 0 if the limit has been lowered. */
	room = quota + limit->burst_ns - limit->left_ns - limit->reserved_ns;
	more = !ends || room < 0 || periods > (u64)room / quota ? room : (s64)(periods * quota);
	__sync_fetch_and_add(&limit->left_ns, more);
}

/*
 * The first limit without CPU time left, of this one and those around it; 0: all have some. A task
 * that runs has reserved `own_ns` of them. Not inlined, as the next: the verifier walks each once.
 */
__noinline u32 limit_reached(u32 at, u64 own_ns)
{
	u64 now = scx_bpf_now();
	u32 i;

	bpf_for(i, 0, LIMITS_DEEP) {
		struct limit *limit = limit_at(at);

		if (!limit)
			return 0;
		limit_renew(limit, now);
		if (limit->quota_ns && limit->left_ns + (s64)own_ns <= 0)
			return at;
		at = limit->around;
	}
	return 0;
}

/* Takes CPU time from a limit and those around it: it has been used, or is only reserved. */
__noinline int limit_take(u32 at, s64 ns, bool reserves)
{
	u32 i;

	bpf_for(i, 0, LIMITS_DEEP) {
		struct limit *limit = limit_at(at);

		if (!limit)
			break;
		__sync_fetch_and_add(&limit->left_ns, -ns);
		if (reserves)
			__sync_fetch_and_add(&limit->reserved_ns, ns);
		at = limit->around;
	}
	return 0;
}

/*
 * Charges the time that p, the owner of the slot, has run. A thread that calls exec takes over the
 * pid of its process's first thread, so the pid is refreshed.
 */
static __always_inline void task_charge(struct task_slot *slot, const struct task_struct *p,
					u64 ran_ns)
{
	slot->runtime_ns += ran_ns;
	slot->pid = p->pid;
	if (task_table.limited && slot->limit)
		limit_take(slot->limit, ran_ns, false);
}
