/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The decisions of order_o1.h, order_key.h, order_context.h, order_vtime.h, context_slots.h and
 * share.h.
 */
#include "kernel.h"
#include "topology.h"
#include "order_o1.h"
#include "context_slots.h"
#include "share.h"

EXPORT u64 slice(u32 nice, u64 slice_ns)
{
	return o1_slice(nice, slice_ns);
}

EXPORT u32 prio(u32 nice, u64 sleep_avg_ns, u64 slice_ns)
{
	return o1_prio(nice, sleep_avg_ns, slice_ns);
}

EXPORT bool interactive(u32 prio, u32 nice)
{
	return o1_interactive(prio, nice);
}

EXPORT void wakes(struct o1_task *t, u64 slept, bool user, u64 slice_ns)
{
	o1_wake(t, slept, user, slice_ns);
}

EXPORT void starts(struct o1_task *t, u64 waited, bool user, u64 slice_ns)
{
	o1_start(t, waited, user, slice_ns);
}

EXPORT void ran(struct o1_task *t, u64 ran_ns, u64 slice_ns)
{
	o1_charge(t, ran_ns, slice_ns);
}

EXPORT void refill(struct o1_task *t, u64 slice_ns)
{
	o1_refill(t, slice_ns);
}

EXPORT u64 turn(const struct o1_task *t, u32 cpus, u64 slice_ns)
{
	return o1_turn(t, cpus, slice_ns);
}

EXPORT bool starving(u64 since_ns, u8 best_nice, u32 nice, u64 now, u32 runnable, u64 slice_ns)
{
	struct o1_expired expired = { since_ns, best_nice };

	return o1_starving(&expired, nice, now, runnable, slice_ns);
}

EXPORT bool goes_on(struct o1_expired *expired, const struct o1_task *t, u64 now, u32 runnable,
		    u64 slice_ns)
{
	return o1_let_go_on(expired, t, now, runnable, slice_ns);
}

EXPORT u64 key(u32 epoch, u32 prio, u64 sequence, u32 slot)
{
	return key_of(epoch, prio, sequence, slot);
}

EXPORT u32 slot_of(u64 key)
{
	return key_slot(key);
}

EXPORT u32 epoch_of(u64 key)
{
	return key_epoch(key);
}

EXPORT bool later(u32 epoch, u32 than)
{
	return epoch_later(epoch, than);
}

EXPORT u32 context(u64 mm, u32 slots)
{
	return context_slot(mm, slots);
}

EXPORT bool preempts(u32 prio, u32 running, bool here, u64 threshold)
{
	return context_preempts(prio, running, here, threshold);
}

/*
 * The key of the next task, given the keys of the slots' first tasks (0: none). `here` are the
 * current slots, `tagged` those with a tag.
 */
EXPORT u64 next(const u64 *heads, u32 slots, u32 here, u32 tagged, u32 epoch, u64 threshold)
{
	struct context_search search = CONTEXT_SEARCH;
	u32 slot;

	for (slot = 0; slot < slots; slot++)
		if (heads[slot])
			context_consider(&search, key_rank(heads[slot], epoch), here >> slot & 1);
	for (slot = 0; slot < slots; slot++)
		if (heads[slot] && tagged >> slot & 1 &&
		    key_rank(heads[slot], epoch) < search.tagged)
			context_consider_tagged(&search, heads[slot], epoch);
	return context_chooses(&search, epoch, threshold);
}

/* The same by virtual time. */
EXPORT u64 next_by_vtime(const u64 *heads, u32 slots, u32 here, u64 slack)
{
	struct context_search search = CONTEXT_SEARCH;
	u32 slot;

	for (slot = 0; slot < slots; slot++)
		if (heads[slot])
			context_consider(&search, key_rank(heads[slot], 0), here >> slot & 1);
	return context_chooses_by_vtime(&search, slack);
}

EXPORT u64 tag_with_slot(u64 key, u32 slot)
{
	return vtime_key(key, slot);
}

EXPORT u64 tag_ran(u64 key, u64 ran_ns, u32 weight)
{
	return vtime_ran(key, ran_ns, weight);
}

EXPORT u64 tag_arrives(u64 own, u64 from, u64 clock)
{
	return vtime_arrives(own, from, clock);
}

EXPORT bool tag_preempts(u64 key, u64 running, bool here, u64 slack, u64 slice_ns)
{
	return vtime_preempts(key, running, here, slack, slice_ns);
}

EXPORT u32 tag(struct context_tags *tags, u32 tagged, u32 slot, u32 count)
{
	return context_tag(tags, tagged, slot, count);
}

EXPORT u32 slots_of(u32 class, u32 own, u32 theirs)
{
	return share_slots(class, own, theirs);
}

EXPORT u32 find(struct context_owner *owners, u64 mm, u32 slots, u64 now, u64 slice_ns)
{
	return context_find_slot(owners, mm, slots, now, slice_ns);
}

EXPORT void moves(struct context_owner *owners, u32 from, u32 to)
{
	move_thread(owners, from, to);
}
