/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap: two tasks that run on different kinds of cores change places if that brings both nearer to
 * their shares. A small sum decides it. A `deal` on each of the two CPUs says which task goes
 * where.
 */
#pragma once
#include "shares.h"

/* A deal: this task goes to that CPU as soon as it stops. 0: none. */
static __always_inline u64 deal_of(s32 pid, s32 cpu)
{
	return (u64)(u32)pid << 32 | (u32)(cpu + 1);
}

static __always_inline s32 deal_pid(u64 deal)
{
	return deal >> 32;
}

static __always_inline s32 deal_cpu(u64 deal)
{
	return (s32)(u32)deal - 1;
}

/* By how much two tasks, on kinds `a` and `b`, come nearer to their shares by a swap, ns. */
static __always_inline s64 swap_gain(const struct wants *here, u32 a, const struct wants *there,
				     u32 b)
{
	a &= TYPES_MAX - 1;
	b &= TYPES_MAX - 1;
	return here->ns[b] - here->ns[a] + there->ns[a] - there->ns[b];
}

/* The same for a move to an idle CPU of kind `b`. */
static __always_inline s64 move_gain(const struct wants *here, u32 a, u32 b)
{
	a &= TYPES_MAX - 1;
	b &= TYPES_MAX - 1;
	return here->ns[b] - here->ns[a];
}
