/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: the context-aware rule (slides 16 and 17). A context is an address space. Of all that wait,
 * the best is Preg; of those in the current context, Paux. Paux goes first if its priority is worse by
 * no more than the threshold, and only inside an epoch (slide 50), so nobody gets more than a slice
 * before everybody had one.
 */
#pragma once
#include "order_key.h"
#include "order_vtime.h"

#define THRESHOLD_OFF 0	/* else one more than the threshold */

/* Whether the current context's best goes before the best of all. */
static __always_inline bool context_goes_first(u64 aux, u64 reg, u64 threshold)
{
	return key_epoch(aux) == key_epoch(reg) && key_prio(aux) - key_prio(reg) < threshold;
}

#define RANK_NONE (~0ULL)

/* A search for who is next: the best of the current context, and the best of all, so far: ranks. */
struct context_search {
	u64 aux;
	u64 reg;
	u64 tagged;	/* the best of contexts whose tag the CPU holds */
};

#define CONTEXT_SEARCH	{ RANK_NONE, RANK_NONE, RANK_NONE }

static __always_inline void context_consider(struct context_search *search, u64 rank, bool here)
{
	if (rank < search->reg)
		search->reg = rank;
	if (here && rank < search->aux)
		search->aux = rank;
}

static __always_inline void context_consider_tagged(struct context_search *search, u64 key, u32 epoch)
{
	if (key)
		search->tagged = key_rank(key, epoch);
}

/* The key of who is next, or 0 where nobody waits. */
static __always_inline u64 context_chooses(const struct context_search *search, u32 epoch,
					   u64 threshold)
{
	u64 base = (u64)(epoch & EPOCH_MASK) << EPOCH_SHIFT;

	if (search->reg == RANK_NONE)
		return 0;
	if (search->aux != RANK_NONE &&
	    context_goes_first(search->aux + base, search->reg + base, threshold))
		return search->aux + base;
	if (search->tagged != RANK_NONE &&
	    context_goes_first(search->tagged + base, search->reg + base, threshold))
		return search->tagged + base;
	return search->reg + base;
}

/* The same by virtual time, where ranks are keys. */
static __always_inline u64 context_chooses_by_vtime(const struct context_search *search, u64 slack)
{
	if (search->reg == RANK_NONE)
		return 0;
	if (search->aux != RANK_NONE && vtime_goes_first(search->aux, search->reg, slack))
		return search->aux;
	if (search->tagged != RANK_NONE && vtime_goes_first(search->tagged, search->reg, slack))
		return search->tagged;
	return search->reg;
}

/*
 * Whether a woken task takes the CPU from the one that runs [TASK_PREEMPTS_CURR]: it is better, and
 * from another context it is better by more than the threshold.
 */
static __always_inline bool context_preempts(u32 prio, u32 running, bool here, u64 threshold)
{
	if (here || threshold == THRESHOLD_OFF)
		return prio < running;
	return prio + threshold - 1 < running;
}

/* Slot 0 is for tasks without an address space: they run in whichever is current, as lazy TLB has it. */
#define SLOT_KERNEL 0

/*
 * Tags (future work of the talk: other architectures). A TLB with tags keeps the entries of the last few
 * contexts, so a change to one of those costs less: where the current context has nobody within the
 * threshold, the best of them goes first in the same way. Linux on x86 gives out its tags in turn
 * (choose_new_asid, TLB_NR_DYN_ASIDS = 6), not by who ran longest ago.
 */
#define TAGS_MAX 8

struct context_tags {
	u8 slot[TAGS_MAX];	/* whose each tag is; SLOT_KERNEL: nobody's */
	u8 next;		/* which is given out next */
};

/* Which slots have a tag once `slot` runs, of so many tags. */
static __always_inline u32 context_tag(struct context_tags *of, u32 tagged, u32 slot, u32 tags)
{
	u32 next = of->next & (TAGS_MAX - 1);

	if (tagged >> slot & 1)
		return tagged;
	tagged &= ~(1u << (of->slot[next] & (SLOTS_MAX - 1)));
	of->slot[next] = slot;
	of->next = next + 1 < tags ? next + 1 : 0;
	return tagged | 1u << slot;
}

/* The slot that an address space would best have, by its address. */
static __always_inline u32 context_slot(u64 mm, u32 slots)
{
	if (!mm || slots < 2)
		return SLOT_KERNEL;
	return 1 + ((u64)context_hash(mm) * (slots - 1) >> 32);
}
