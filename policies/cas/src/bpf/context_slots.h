/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which context owns which slot, on all CPUs. A context keeps the slot that it was first given. So
 * two contexts share one only if there are more contexts than slots. A context gives its slot up
 * with its last thread. If it sleeps for long, another context that needs a slot takes it.
 *
 * There is no lock. Two CPUs may give out a slot at once, or a context may lose its slot while its
 * threads wait there. Either costs what any shared slot does: threads of both count as siblings.
 */
#pragma once
#include "order_context.h"

#define SLOTS_TRIED   8 /* from the hashed one on: if all are taken, each wakeup pays */
#define SLICES_ASLEEP 10 /* unseen for so many slices, a context has the highest bonus */

struct context_owner {
	u64 mm; /* its address as a number; 0: no owner */
	u64 seen_ns; /* when it was last seen, to a slice */
	u32 threads; /* threads last queued in this slot */
};

/* Moves a thread from slot `from` to slot `to`: it called exec, is new, or ends. */
static __always_inline void move_thread(volatile struct context_owner *owners, u32 from, u32 to)
{
	if (from == to)
		return;
	if (from != SLOT_KERNEL)
		__sync_fetch_and_sub(&owners[from & (SLOTS_MAX - 1)].threads, 1);
	if (to != SLOT_KERNEL)
		__sync_fetch_and_add(&owners[to & (SLOTS_MAX - 1)].threads, 1);
}

/* Whether a context can lose its slot: it has no threads, or sleeps. */
static __always_inline bool context_is_away(const volatile struct context_owner *owner, u64 now,
					    u64 slice)
{
	return !owner->threads || elapsed_ns(owner->seen_ns, now) > SLICES_ASLEEP * slice;
}

/* Whether a slot belongs to this context, and was seen to within a slice. */
static __always_inline bool context_owns(const volatile struct context_owner *owner, u64 mm,
					 u64 now, u64 slice)
{
	return owner->mm == mm && elapsed_ns(owner->seen_ns, now) < slice;
}

/* The slot of a context. Gives it one if it has none and one is free. */
static __always_inline u32 context_find_slot(volatile struct context_owner *owners, u64 mm,
					     u32 slots, u64 now, u64 slice)
{
	u32 home = context_slot(mm, slots), found = home, i;
	bool unused = false;

	if (home == SLOT_KERNEL)
		return home;
	for (i = 0; i < SLOTS_TRIED && i < slots - 1; i++) {
		u32 slot = home + i < slots ? home + i : home + i - (slots - 1);
		volatile struct context_owner *owner = &owners[slot & (SLOTS_MAX - 1)];

		if (owner->mm == mm) {
			owner->seen_ns = now;
			return slot;
		}
		if (!unused && context_is_away(owner, now, slice)) {
			unused = true;
			found = slot;
		}
	}
	if (unused) {
		owners[found & (SLOTS_MAX - 1)].mm = mm;
		owners[found & (SLOTS_MAX - 1)].seen_ns = now;
	}
	return found;
}
