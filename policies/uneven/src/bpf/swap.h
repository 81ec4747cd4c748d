/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap: two tasks that run on different kinds of cores change places where that brings both nearer to their
 * shares. Whether it does is a small sum; who goes where is agreed in a `deal` on each of the two CPUs.
 */
#pragma once
#include "share.h"

/* A deal: this task is to go to that CPU as soon as it stops. 0 is none. */
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

/* By how much the two come nearer to their shares, ns: the one on kind `a`, the other on `b`. */
static __always_inline s64 swap_gain(const struct wants *here, u32 a, const struct wants *there, u32 b)
{
	a &= TYPES_MAX - 1;
	b &= TYPES_MAX - 1;
	return here->ns[b] - here->ns[a] + there->ns[a] - there->ns[b];
}

/* The same where a CPU of kind `b` has nothing to do. */
static __always_inline s64 move_gain(const struct wants *here, u32 a, u32 b)
{
	a &= TYPES_MAX - 1;
	b &= TYPES_MAX - 1;
	return here->ns[b] - here->ns[a];
}
