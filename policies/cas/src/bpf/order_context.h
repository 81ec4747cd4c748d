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

/* A search for who is next: the best of the current context, and the best of all, so far. */
struct context_search {
	u64 aux;	/* rank */
	u64 reg;	/* rank */
};

#define RANK_NONE (~0ULL)

static __always_inline void context_consider(struct context_search *search, u64 rank, bool here)
{
	if (rank < search->reg)
		search->reg = rank;
	if (here && rank < search->aux)
		search->aux = rank;
}

/* The key of who is next, or 0 where nobody waits. */
static __always_inline u64 context_chooses(const struct context_search *search, u32 epoch,
					   u64 threshold)
{
	u64 base = (u64)(epoch & EPOCH_MASK) << 40;

	if (search->reg == RANK_NONE)
		return 0;
	if (search->aux != RANK_NONE &&
	    context_goes_first(search->aux + base, search->reg + base, threshold))
		return search->aux + base;
	return search->reg + base;
}

/* The same by virtual time, where ranks are keys. */
static __always_inline u64 context_chooses_by_vtime(const struct context_search *search, u64 slack)
{
	if (search->reg == RANK_NONE)
		return 0;
	if (search->aux != RANK_NONE && vtime_goes_first(search->aux, search->reg, slack))
		return search->aux;
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
 * contexts, so a change to one of those costs nothing: all of them count as current. Linux on x86 gives
 * out its tags in turn (choose_new_asid, TLB_NR_DYN_ASIDS = 6), not by who ran longest ago.
 */
#define TAGS_MAX 8

struct context_tags {
	u8 slot[TAGS_MAX];	/* whose each tag is; SLOT_KERNEL: nobody's */
	u8 next;		/* which is given out next */
};

/* Which slots are current once `slot` runs, of those that were. `tags` 0: no other but this one. */
static __always_inline u32 context_enter(struct context_tags *of, u32 here, u32 slot, u32 tags)
{
	u32 kernel = 1u << SLOT_KERNEL, next = of->next & (TAGS_MAX - 1);

	if (!tags)
		return kernel | 1u << slot;
	if (here >> slot & 1)
		return here | kernel;
	here &= ~(1u << (of->slot[next] & (SLOTS_MAX - 1)));
	of->slot[next] = slot;
	of->next = next + 1 < tags ? next + 1 : 0;
	return here | kernel | 1u << slot;
}

/* The slot that an address space would best have, by its address. */
static __always_inline u32 context_slot(u64 mm, u32 slots)
{
	u32 hash = (mm >> 6) * 0x9e3779b97f4a7c15ULL >> 32;

	if (!mm || slots < 2)
		return SLOT_KERNEL;
	return 1 + ((u64)hash * (slots - 1) >> 32);
}
