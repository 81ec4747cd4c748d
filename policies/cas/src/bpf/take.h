/* SPDX-License-Identifier: GPL-2.0 */
/* Take: a CPU with nothing to do looks for work of others, in the order that share.h says. */
#pragma once
#include "choose.h"
#include "share.h"

/* Which of these slots of another CPU has most waiting: a context that is entered may as well stay. */
__noinline u32 fullest(s32 victim, u32 slots)
{
	struct cas_cpu *theirs = cpus_of(victim);
	u32 slot, best = SLOT_KERNEL;
	s32 most = 0;

	if (!theirs)
		return best;
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++) {
		s32 queued;

		if (!(slots >> slot & 1) || !theirs->hint[slot])
			continue;
		queued = scx_bpf_dsq_nr_queued(dsq_of(victim, slot));
		if (queued > most) {
			most = queued;
			best = slot;
		}
	}
	return best;
}

/* Takes the first task of a queue that may run here. */
static __always_inline bool take_first(struct cas_cpu *own, struct cas_cpu *theirs, s32 victim,
				       u32 slot)
{
	if (!theirs->hint[slot] || !dsq_move_to_local(dsq_of(victim, slot)))
		return false;
	__sync_fetch_and_or(&theirs->stale, 1u << slot);
	own->takes_home = knob_aggregate && slots_waiting(victim) > 1;
	return true;
}

/* Takes a task of this class that waits on `victim`, if there is one that may run here. */
__noinline int take(s32 cpu, s32 victim, u32 class)
{
	struct cas_cpu *own = cpus_of(cpu), *theirs = cpus_of(victim);
	u32 slots, first, slot;

	if (!own || !theirs)
		return 0;
	slots = share_slots(class, own->here, theirs->here);
	first = class == SHARE_OWN ? own->slot : fullest(victim, slots);
	first &= SLOTS_MAX - 1;
	if (take_first(own, theirs, victim, first))
		return 1;
	slots &= ~(1u << first);
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (slots >> slot & 1 && take_first(own, theirs, victim, slot))
			return 1;
	return 0;
}
