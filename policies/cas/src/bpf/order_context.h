/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: the context-aware rule (slides 16 and 17). A context is an address space. Preg is the best
 * of all waiting tasks; Paux the best of those in the current context. Paux goes first if its
 * priority is worse by no more than the threshold, and only inside an epoch (slide 50). So no task
 * gets more than a slice before every task had one.
 */
#pragma once
#include "order_key.h"
#include "order_vtime.h"

#define THRESHOLD_OFF 0 /* else 1 + the threshold */

/* Whether the current context's best goes before the best of all. */
static __always_inline bool context_goes_first(u64 aux, u64 reg, u64 threshold)
{
	return key_epoch(aux) == key_epoch(reg) && key_prio(aux) - key_prio(reg) < threshold;
}

#define RANK_NONE (~0ULL)

/* A search for the next task: ranks of the best of the current context, and of all, so far. */
struct context_search {
	u64 aux;
	u64 reg;
	u64 tagged; /* the best of contexts whose tag the CPU holds */
};

#define CONTEXT_SEARCH { RANK_NONE, RANK_NONE, RANK_NONE }

static __always_inline void context_consider(struct context_search *search, u64 rank, bool here)
{
	if (rank < search->reg)
		search->reg = rank;
	if (here && rank < search->aux)
		search->aux = rank;
}

static __always_inline void context_consider_tagged(struct context_search *search, u64 key,
						    u32 epoch)
{
	if (key)
		search->tagged = key_rank(key, epoch);
}

/* The key of the next task, or 0 if no task waits. */
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
 * Whether a woken task preempts the running one [TASK_PREEMPTS_CURR]: it is better, and if it is
 * from another context, better by more than the threshold.
 */
static __always_inline bool context_preempts(u32 prio, u32 running, bool here, u64 threshold)
{
	if (here || threshold == THRESHOLD_OFF)
		return prio < running;
	return prio + threshold - 1 < running;
}

/* Slot 0 is for tasks without an address space: they run in the current one, as with lazy TLB. */
#define SLOT_KERNEL 0

/*
 * Tags (future work of the talk: other architectures). A TLB with tags keeps the entries of the
 * last few contexts, so a change to one of those costs less. If the current context has no task
 * within the threshold, the best task of the tagged contexts goes first in the same way. Linux on
 * x86 assigns its tags round robin (choose_new_asid, TLB_NR_DYN_ASIDS = 6), not least recently used
 * first.
 */
#define TAGS_MAX 8

struct context_tags {
	u8 slot[TAGS_MAX]; /* the slot that has each tag; SLOT_KERNEL: none */
	u8 next;	 /* the tag to assign next */
};

/* Which slots have a tag once `slot` runs, with this many tags. */
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

/* The preferred slot of an address space, by its address. */
static __always_inline u32 context_slot(u64 mm, u32 slots)
{
	if (!mm || slots < 2)
		return SLOT_KERNEL;
	return 1 + ((u64)context_hash(mm) * (slots - 1) >> 32);
}
