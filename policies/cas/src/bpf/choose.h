/* SPDX-License-Identifier: GPL-2.0 */
/* Choose: which task is next on a CPU, by the hints of its queues. */
#pragma once
#include "queues.h"

/* Reads the queues anew whose hints may be too low. */
__noinline int refresh(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 stale, slot;

	if (!c)
		return 0;
	stale = __sync_fetch_and_and(&c->stale, 0);
	for (slot = 0; slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (stale >> slot & 1)
			set_hint(c, slot, head_of(cpu, slot));
	return 0;
}

/*
 * The slots that count as current. If siblings of a core should run the same context, these are the
 * slots of the lowest-numbered busy sibling.
 */
static __always_inline u32 current_slots(s32 cpu, const struct cas_cpu *c)
{
	s32 sibling = cpu, first = cpu;
	u32 here = c->here, i;

	for (i = 0; knob_smt && i < SIBLINGS_MAX; i++) {
		const struct cas_cpu *of;

		sibling = cpu_next_sibling(sibling);
		of = cpus_of(sibling);
		if (of && of->running && sibling < first) {
			first = sibling;
			here = of->here;
		}
	}
	return here;
}

/* The key that goes first of two; 0 stands for none. */
static __always_inline u64 lesser(const struct cas_cpu *c, u64 a, u64 b)
{
	if (!a || !b)
		return a ? a : b;
	return key_rank(b, c->epoch) < key_rank(a, c->epoch) ? b : a;
}

/* The lowest hint of these slots, or 0. */
__noinline u64 least_hint(s32 cpu, u32 slots)
{
	struct cas_cpu *c = cpus_of(cpu);
	u64 least = 0;
	u32 slot;

	for (slot = 0; c && slot < SLOTS_MAX && slot < knob_slots; slot++)
		if (slots >> slot & 1)
			least = lesser(c, least, c->hint[slot]);
	return least;
}

/* The lowest hint of the current context's slots. */
static __always_inline u64 own_hint(s32 cpu, const struct cas_cpu *c, u32 here)
{
	if (here != c->here)
		return least_hint(cpu, here);
	return lesser(c, c->hint[SLOT_KERNEL], c->hint[c->slot & (SLOTS_MAX - 1)]);
}

/* The lowest hint of all other slots. It is cached if `here` is the CPU's own context. */
static __always_inline u64 hint_elsewhere(s32 cpu, struct cas_cpu *c, u32 here)
{
	if (here != c->here)
		return least_hint(cpu, ~here);
	if (!c->elsewhere_known) {
		c->elsewhere = least_hint(cpu, ~here);
		c->elsewhere_known = true;
	}
	return c->elsewhere;
}

/*
 * The key of the next task on a CPU. If `prev` is not 0, it is the key of the running task, which
 * may continue as one of its context. While the context stays and nothing changes elsewhere, only
 * the context's own slots are examined.
 */
__noinline u64 choose(s32 cpu, u64 prev)
{
	struct context_search search = CONTEXT_SEARCH;
	struct cas_cpu *c = cpus_of(cpu);
	u32 here;
	u64 own, elsewhere;

	if (!c)
		return 0;
	here = current_slots(cpu, c);
	if (knob_slots == 1) {
		own = c->hint[0];
		elsewhere = 0;
	} else {
		own = own_hint(cpu, c, here);
		elsewhere = hint_elsewhere(cpu, c, here);
	}
	if (prev)
		context_consider(&search, key_rank(prev, c->epoch),
				 !knob_smt || here >> key_slot(prev) & 1);
	if (own)
		context_consider(&search, key_rank(own, c->epoch), true);
	if (elsewhere)
		context_consider(&search, key_rank(elsewhere, c->epoch), false);
	if (knob_tags)
		context_consider_tagged(&search, least_hint(cpu, c->tagged), c->epoch);
	if (!knob_slack)
		return context_chooses(&search, c->epoch, knob_threshold);
	if (search.reg != RANK_NONE && search.reg > c->vtime)
		c->vtime = search.reg & VTIME_MASK;
	return context_chooses_by_vtime(&search, knob_slack);
}

/* In how many of a CPU's slots tasks wait. */
__noinline u32 slots_waiting(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot, count = 0;

	for (slot = 0; c && slot < SLOTS_MAX && slot < knob_slots; slot++)
		count += !!c->hint[slot];
	return count;
}
