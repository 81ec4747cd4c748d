/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SCHED_IDLE: tasks that run only while no other task wants the CPU.
 *
 * The kernel gives such a task a weight of 3, where nice 19 has 15 and nice 0 has 1024
 * [WEIGHT_IDLEPRIO]. p->scx.weight is 1 both for it and for nice 19, so only p->policy tells them
 * apart. A policy that divides CPU time by weight could not bound the task's wait by that weight:
 * it would be 341 turns of each other task. So a SCHED_IDLE task goes behind all others. After
 * waiting for IDLE_WAITS_NS it still gets a short turn. It may hold a lock that others need, and
 * the kernel's watchdog unloads a policy that leaves a task waiting for 30 s.
 */
#pragma once
#include "kernel.h"
#include "cpus.h"

#define IDLE_WAITS_NS (2 * 1000 * 1000 * 1000ULL)
#define IDLE_TURN_NS  (10 * 1000 * 1000ULL) /* at most, while others wait: 0.5% of the CPU */

static __always_inline bool task_is_idle(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE;
}

/* Whether p may preempt others when it wakes [wakeup_preempt_fair]. */
static __always_inline bool task_preempts(const struct task_struct *p)
{
	return p->policy != SCHED_IDLE && p->policy != SCHED_BATCH;
}

/* The slice of a SCHED_IDLE task if other tasks get `slice_ns`. */
static __always_inline u64 idle_slice(u64 slice_ns)
{
	return slice_ns < IDLE_TURN_NS ? slice_ns : IDLE_TURN_NS;
}

#define IDLE_MANY_NS  (5 * 1000 * 1000 * 1000ULL) /* longest wait while many wait */
#define IDLE_APART_NS (100 * 1000 * 1000ULL) /* between their turns, if that wait allows it */

/*
 * The time from one turn of a SCHED_IDLE task on a CPU to the next, with `waiting` of them there
 * and other tasks keeping the CPU busy. A single one waits for IDLE_WAITS_NS, many for
 * IDLE_MANY_NS, so that together they get a few percent of the CPU. If that would take more than
 * half of the CPU, they wait for longer.
 */
static __always_inline u64 idle_gap(u32 waiting, u64 tick)
{
	u64 one = IDLE_WAITS_NS / (waiting ? waiting : 1),
	    many = IDLE_MANY_NS / (waiting ? waiting : 1);
	u64 gap = many < IDLE_APART_NS ? many : IDLE_APART_NS;

	if (gap < one)
		gap = one;
	return gap > 4 * tick ? gap : 4 * tick;
}

/*
 * CPUs whose last task was a SCHED_IDLE one, which any other task may preempt at once. To such a
 * task these CPUs are as good as idle [sched_idle_cpu]. A CPU that has gone idle since may still be
 * marked.
 */
static u32 cpu_runs_idle[MAX_CPUS];
static u32 nr_run_idle;

/* Notes whether a CPU runs a SCHED_IDLE task. That changes seldom. */
static __always_inline void note_idle_task(s32 cpu, bool idle)
{
	u32 at = cpu_index(cpu);

	if (at >= MAX_CPUS || cpu_runs_idle[at] == idle)
		return;
	if (__sync_bool_compare_and_swap(&cpu_runs_idle[at], !idle, idle))
		__sync_fetch_and_add(&nr_run_idle, idle ? 1 : -1);
}

/*
 * Whether a CPU runs a SCHED_IDLE task that p may preempt. If so, p claims the CPU, so that other
 * woken tasks look elsewhere.
 */
static __always_inline bool claim_idle_task(struct task_struct *p, s32 cpu)
{
	u32 at = cpu_index(cpu);

	if (at >= MAX_CPUS || !cpu_runs_idle[at] || !cpu_takes(p, cpu))
		return false;
	note_idle_task(cpu, false);
	return true;
}

/*
 * In enqueue, if p waits for one CPU: preempts a SCHED_IDLE task that runs there. Returns whether
 * one does.
 */
static __always_inline bool preempt_idle_task(struct task_struct *p, s32 cpu)
{
	if (task_is_idle(p) || !nr_run_idle || !claim_idle_task(p, cpu))
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

/* A CPU that runs a SCHED_IDLE task, claimed for p, nearest to `from`; negative if none. */
static __always_inline s32 claim_cpu_of_idle_task(struct task_struct *p, s32 from)
{
	u32 i;

	if (!nr_run_idle || task_is_idle(p))
		return -1;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(from, i);

		if (claim_idle_task(p, cpu))
			return cpu;
	}
	return -1;
}
