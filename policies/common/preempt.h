/* SPDX-License-Identifier: GPL-2.0 */
/* Preempt: a woken task takes the CPU of a running one that has had more, by virtual time. */
#pragma once
#include "chassis.h"
#include "cpus.h"
#include "sched_idle.h"
#include "vtime.h"

#define WAKEUP_NS 1000000LL /* how far ahead a woken task has to be to preempt */

/*
 * Where the vtime of the task that runs on a CPU is kept: in `vtime` of the policy's table of CPUs.
 * VTIME_IDLE: no task runs there. NULL: there is no such CPU.
 */
static __always_inline u64 *running_vtime(s32 cpu)
{
	__auto_type state = cpus_of(cpu);

	return state ? &state->vtime : NULL;
}

/* The policy's: how far ahead of it a task of that queue has to be before the CPU takes it. */
static __always_inline s64 preempt_margin(s32 cpu, u64 queue);

/*
 * The CPU whose task has the highest vtime, if a task of that queue is far enough ahead of it; else
 * -1. The CPU counts as one that runs the woken task from now on, so that the next one gets
 * another. A task that may not run on all CPUs is in the queue of its CPU, and gets no other. Not
 * inlined: the verifier walks it once.
 */
__noinline s32 preempt_victim(u64 queue, u64 vtime, u32 anywhere)
{
	u64 *taken = NULL;
	s32 victim = -1;
	s64 most = 0;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = roles.taker ? roles.taker(queue, i) : (s32)i;
		u64 *running = running_vtime(cpu);
		s64 ahead = running ? *running - vtime : 0;

		if (cpu < 0)
			break;
		if (!running || *running == VTIME_IDLE || ahead <= most ||
		    ahead <= preempt_margin(cpu, queue) || ((u32)cpu != queue && !anywhere) ||
		    cpu_lacks(cpu, CPU_GONE | CPU_TAKEN))
			continue;
		most = ahead;
		victim = cpu;
		taken = running;
	}
	if (taken)
		*taken = vtime;
	return victim;
}

/* In enqueue: whether p has just woken, and may preempt others. */
static __always_inline bool may_preempt(const struct task_struct *p, u64 enq_flags)
{
	return enq_flags & SCX_ENQ_WAKEUP && task_preempts(p);
}

/*
 * In enqueue: a task that may preempt has just been queued with this vtime. `anywhere`: any CPU
 * that takes from the queue may run it.
 */
static __always_inline void preempt_for(u64 queue, u64 vtime, bool anywhere)
{
	s32 victim = preempt_victim(queue, vtime, anywhere);

	if (victim >= 0)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
}
