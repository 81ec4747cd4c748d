/* SPDX-License-Identifier: GPL-2.0 */
/* Share: how much CPU time a task is owed on each kind of core, and which kind it gets next. */
#pragma once
#include "kernel.h"
#include "cpus.h"
#include "task_table.h"

/* The unit of a task's share of a kind: 16 bits for each kind, from the lowest bits. */
#define SHARE_ONE 65535

/* How far a task is behind on each kind, ns of its own CPU time; negative: it has had more. */
struct wants {
	s64 ns[TYPES_MAX];
};

static __always_inline u64 share_of(u64 shares, u32 kind)
{
	return shares >> (16 * kind) & 0xffff;
}

/*
 * Charges a run on a kind: the task is owed its share of that time on each kind. The debt is
 * limited to `most`, so that a change of shares is not paid back for ever.
 */
static __always_inline void share_charge(struct wants *wants, u64 shares, u32 on, u64 ran_ns,
					 s64 most)
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

/* The kind that a task gets next: the one it is most behind on; the faster of two equal ones. */
static __always_inline u32 share_next(const struct wants *wants, u32 kinds)
{
	u32 kind, next = 0;

	for (kind = 1; kind < TYPES_MAX; kind++)
		if (kind < kinds && wants->ns[kind] > wants->ns[next])
			next = kind;
	return next;
}

/*
 * A task whose shares are unknown gets the default ones. Before there are any, all kinds are alike.
 */
static __always_inline u64 shares_of(const struct task_slot *slot)
{
	u64 shares = slot ? task_share(slot) : 0;

	return shares ? shares : task_share(&task_table.slots[0]);
}

/*
 * Written by its own CPU. Other CPUs read it, a tick old at most, and write `deal` and `expects_ns`
 * atomically.
 */
struct share_cpu {
	struct wants wants; /* of the running task, as of its last charge */
	u64 deal;
	u64 expects_ns; /* when a task was last sent here */
	u64 chose_ns;  /* when it last chose among waiting tasks */
	s32 pid;	 /* the running task; 0: none */
	bool brief; /* whether it sleeps too soon for a swap, if the policy notes that */
	u64 may[CPU_WORDS]; /* CPUs the running task may run on; all bits if all online ones */
};

/* Tells the control plane how many CPUs of each kind are online. */
__noinline int count_kinds(void)
{
	struct by_type there = {};
	u32 i;

	bpf_for(i, 0, nr_cpus)
		if (!cpu_is_gone(i))
			there.of[cpu_kind(i)]++;
	bpf_for(i, 0, TYPES_MAX)
		task_table.cpus[i] = there.of[i];
	return 0;
}
