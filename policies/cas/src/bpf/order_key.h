/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: the key that a task is queued by. It is one number, so that it can order a queue, and the
 * heads of queues can be compared: first by epoch, then by priority, then by arrival.
 *
 *	63      48 47      40 39     5 4     0
 *	  epoch    priority+1  sequence  slot
 *
 * The slot is where the task is queued, so the lowest of several keys names its queue. Epochs wrap,
 * and are compared relative to the present one. Sequences wrap after 34 billion, which is a day of
 * a CPU that queues 400,000 tasks a second. Then equals of one epoch change places once. No key is
 * 0, which stands for "none".
 */
#pragma once
#include "kernel.h"

#define SLOTS_MAX     32
#define SLOT_BITS     5
#define EPOCH_SHIFT   48
#define EPOCH_MASK    0xffffu
#define PRIO_SHIFT    40
#define SEQUENCE_MASK ((1ULL << (PRIO_SHIFT - SLOT_BITS)) - 1)

static __always_inline u64 key_of(u32 epoch, u32 prio, u64 sequence, u32 slot)
{
	return (u64)(epoch & EPOCH_MASK) << EPOCH_SHIFT | (u64)(prio + 1) << PRIO_SHIFT |
	       (sequence & SEQUENCE_MASK) << SLOT_BITS | slot;
}

static __always_inline u64 key_sequence(u64 key)
{
	return key >> SLOT_BITS & SEQUENCE_MASK;
}

static __always_inline u32 key_slot(u64 key)
{
	return key & (SLOTS_MAX - 1);
}

static __always_inline u32 key_epoch(u64 key)
{
	return key >> EPOCH_SHIFT;
}

static __always_inline u32 key_prio(u64 key)
{
	return (u8)(key >> PRIO_SHIFT) - 1;
}

/* A key's distance from the beginning of `epoch`: the key with the lower rank goes first. */
static __always_inline u64 key_rank(u64 key, u32 epoch)
{
	return key - ((u64)(epoch & EPOCH_MASK) << EPOCH_SHIFT);
}

/* A hash of an address space, so that neighbouring addresses get unrelated numbers. */
static __always_inline u32 context_hash(u64 mm)
{
	return (mm >> 6) * 0x9e3779b97f4a7c15ULL >> 32;
}

/* Whether `epoch` is later than `than`. The two are less than half a wrap apart. */
static __always_inline bool epoch_later(u32 epoch, u32 than)
{
	return ((epoch - than) & EPOCH_MASK) - 1 < EPOCH_MASK / 2;
}
