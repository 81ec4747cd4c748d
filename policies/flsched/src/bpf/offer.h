/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offer: work that waits behind a running task is brought to a CPU that idles. The released code
 * offers all that wait to idle CPUs whenever it switches (push_rt_tasks). A task on a local DSQ
 * cannot be taken from there, but the one that runs can go: where others wait, a tick that finds an
 * idle CPU ends the slice, and the task goes on there. After a barrier one CPU may have three tasks
 * and another a single one; all wait for the three, so it matters to even out before a slice is over.
 *
 * What is claimed belongs to one CPU and is touched with its runqueue locked, so it needs no lock.
 */
#pragma once
#include "kernel.h"
#include "hotplug.h"
#include "topology.h"

/* What a CPU has claimed: the number of an idle CPU plus 1, or 0. */
struct offer {
	s32 claimed;
};

/* What was claimed is of no use: it looks busy since, and says anew that it is idle. */
static __always_inline void offer_withdraw(struct offer *offer)
{
	if (!offer->claimed)
		return;
	scx_bpf_kick_cpu(offer->claimed - 1, SCX_KICK_IDLE);
	offer->claimed = 0;
}

/*
 * A tick while p runs and others wait behind it: claims an idle CPU for it. Returns whether there is
 * one, so that p's slice is to end. The claim outlives p where p blocks first: others may use it, or it ends with the
 * next that can go nowhere.
 */
static __always_inline bool offer_claim(struct offer *offer, struct task_struct *p)
{
	s32 cpu;

	if (nr_cpus == 1 || p->nr_cpus_allowed == 1) {
		offer_withdraw(offer);
		return false;
	}
	if (offer->claimed && !cpu_takes(p, offer->claimed - 1))
		offer_withdraw(offer);
	if (!offer->claimed) {
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
		if (cpu >= 0)
			offer->claimed = cpu + 1;
	}
	return offer->claimed;
}

/* The slice of p is over: the CPU that was claimed, if p may run there, else a negative number. */
static __always_inline s32 offer_take(struct offer *offer, struct task_struct *p)
{
	s32 cpu = offer->claimed - 1;

	if (cpu < 0 || !cpu_takes(p, cpu))
		return -1;
	offer->claimed = 0;
	return cpu;
}
