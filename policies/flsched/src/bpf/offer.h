/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offer: moves work from behind a running task to an idle CPU. The released code offers all waiting
 * tasks to idle CPUs at every switch (push_rt_tasks). A task on a local DSQ cannot be taken from
 * there, but the running task can move. If others wait, a tick that finds an idle CPU ends the
 * slice, and the running task continues on that CPU. After a barrier one CPU may have three tasks
 * and another one task. All threads wait for the three, so it matters to even out before a slice is
 * over.
 *
 * A CPU that runs out of tasks does not wait for that tick. It interrupts a CPU where tasks wait,
 * at most 16 times a tick if no task can move from there: that is about 1 % of that CPU's time.
 *
 * A claim belongs to one CPU and is accessed under its runqueue lock, so it needs no lock of its
 * own. Other CPUs write `asked_ns`, without a lock: at worst a CPU is interrupted twice.
 */
#pragma once
#include "kernel.h"
#include "cpus.h"
#include "topology.h"

struct offer {
	s32 claimed; /* 1 + the number of an idle CPU, or 0 */
	u64 asked_ns; /* when a CPU with nothing to run asked; 0: a task has moved since */
};

/*
 * Drops an unused claim. The claimed CPU has looked busy since; the kick makes it report idle
 * again.
 */
static __always_inline void offer_withdraw(struct offer *offer)
{
	if (!offer->claimed)
		return;
	scx_bpf_kick_cpu(offer->claimed - 1, SCX_KICK_IDLE);
	offer->claimed = 0;
}

/*
 * In a tick while p runs and others wait behind it: claims an idle CPU for p. Returns whether there
 * is one, so that p's slice should end. If p blocks first, the claim stays: another task may use
 * it, or it is dropped at the next task that cannot move.
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

/* At the end of p's slice: the claimed CPU if p may run there, else a negative number. */
static __always_inline s32 offer_take(struct offer *offer, struct task_struct *p)
{
	s32 cpu = offer->claimed - 1;

	if (cpu < 0 || !cpu_takes(p, cpu))
		return -1;
	offer->claimed = 0;
	return cpu;
}

/*
 * Interrupts a CPU where tasks wait behind the running one, which then ends its slice. Returns
 * false if that was done in vain a short while ago.
 */
static __always_inline bool offer_ask(struct offer *offer, s32 cpu)
{
	u64 now = scx_bpf_now();

	if (offer->asked_ns && elapsed_ns(offer->asked_ns, now) < tick_ns / 16)
		return false;
	offer->asked_ns = now;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}
