/* SPDX-License-Identifier: GPL-2.0 */
/* Share: how much of each kind of core a task is still to have of its CPU time, and which it is to have next. */
#pragma once
#include "kernel.h"

#define SHARE_ONE 65535	/* a task's share of a kind is so many of these: 16 bits for each kind, from the lowest */

/* How far a task is behind on each kind of core, ns of its own CPU time: below 0 it has had more than its share. */
struct wants {
	s64 ns[TYPES_MAX];
};

static __always_inline u64 share_of(u64 shares, u32 kind)
{
	return shares >> (16 * kind) & 0xffff;
}

/*
 * A task has run on a kind for so long: it is owed its share of that time on each. What it is owed is kept
 * within `most`, so that a change of shares is not paid back for ever.
 */
static __always_inline void share_charge(struct wants *wants, u64 shares, u32 on, u64 ran_ns, s64 most)
{
	u32 kind;

	for (kind = 0; kind < TYPES_MAX; kind++) {
		s64 ns = wants->ns[kind] + (s64)(ran_ns * share_of(shares, kind) / SHARE_ONE);

		if (kind == on)
			ns -= ran_ns;
		if (ns > most)
			ns = most;
		if (ns < -most)
			ns = -most;
		wants->ns[kind] = ns;
	}
}

/* The kind that a task is to have next: the one it is most behind on, the faster of two alike. */
static __always_inline u32 share_next(const struct wants *wants, u32 kinds)
{
	u32 kind, next = 0;

	for (kind = 1; kind < TYPES_MAX; kind++)
		if (kind < kinds && wants->ns[kind] > wants->ns[next])
			next = kind;
	return next;
}
