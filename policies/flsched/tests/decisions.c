/* SPDX-License-Identifier: GPL-2.0 */
/* The decisions of order.h and place.h as functions that a test can call. */
#include "kernel.h"
#include "topology.h"
#include "order.h"
#include "place.h"

EXPORT bool prefers_head(u32 weight, bool pinned, bool kernel)
{
	return order_prefers_head(
		(struct order_task){ .weight = weight, .pinned = pinned, .kernel = kernel });
}

EXPORT bool take_head(u64 *taken_ns, u64 now_ns, u64 turn_ns)
{
	return order_take_head(taken_ns, now_ns, turn_ns);
}

EXPORT u64 turn(u64 slice_ns, u64 tick_ns, u64 deferred_ns)
{
	return order_turn(slice_ns, tick_ns, deferred_ns);
}

EXPORT u64 slice(u64 slice_ns, u64 tick_ns)
{
	return slice_by_tick(slice_ns, tick_ns);
}

EXPORT u64 defer(s32 *deferred, s32 pid, u64 defer_ns)
{
	return order_defer(deferred, pid, defer_ns);
}

EXPORT s32 victim(u32 cpus, s32 cpu, u32 i)
{
	nr_cpus = cpus;
	return cpu_neighbour(cpu, i);
}
