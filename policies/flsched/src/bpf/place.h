/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Place: the CPU on which a task becomes runnable. It is an idle CPU near its last one, else its
 * last one or one with a shorter queue. No CPU takes it from there afterwards (slide 10), but one
 * with nothing to run may ask for the task that runs before it [offer.h]. With `pull` such a CPU
 * takes tasks that wait elsewhere.
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "cpus.h"
#include "knobs.h"
#include "place_idle.h"
#include "visits.h"

/* How many tasks wait on a CPU behind the running one, read without a lock. */
static __always_inline s32 place_waiting(s32 cpu)
{
	s32 waiting = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu);

	return wait_apart(cpu) ? waiting + scx_bpf_dsq_nr_queued(cpu) : waiting;
}

/* A CPU, and how many tasks wait there. */
struct place_queue {
	s32 cpu;
	s32 waiting;
};

/* Makes `cpu` the best so far if p may run there and fewer tasks wait. */
static __always_inline void place_prefer(struct task_struct *p, s32 cpu, struct place_queue *best)
{
	s32 waiting;

	if (!cpu_takes(p, cpu))
		return;
	waiting = place_waiting(cpu);
	if (waiting < best->waiting)
		*best = (struct place_queue){ cpu, waiting };
}

/*
 * The CPU with the fewest waiting tasks, fewer than `shortest`, nearest first; else `cpu`, if p may
 * run there. Used for a new task when no CPU is idle, and at the end of a slice. A new task has no
 * cache contents yet, and would wait on its parent's CPU with all its siblings. This looks at every
 * CPU: both cases are rare.
 */
static __always_inline s32 place_shortest(struct task_struct *p, s32 cpu, s32 shortest)
{
	struct place_queue best = { cpu, cpu_takes(p, cpu) ? shortest : S32_MAX };
	u32 i;

	bpf_for(i, 1, nr_cpus) {
		if (best.waiting <= 0)
			break;
		place_prefer(p, cpu_neighbour(cpu, i), &best);
	}
	return best.cpu;
}

/*
 * For a woken task when no CPU is idle: its last CPU. If tasks wait there already, one of two CPUs
 * picked at random if fewer wait there. When a barrier opens, the first woken tasks take the idle
 * CPUs, including the last CPUs of other tasks. Without a second choice, those would queue behind
 * them while CPUs elsewhere have one task each. Two choices do nearly as well as looking everywhere
 * (Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, 2001), and cost two reads.
 */
static __always_inline s32 place_shorter(struct task_struct *p, s32 prev_cpu)
{
	struct place_queue best = { prev_cpu, place_waiting(prev_cpu) };
	u32 i;

	if (!cpu_takes(p, prev_cpu))
		return place_shortest(p, prev_cpu, 0);
	for (i = 0; i < 2 && best.waiting > 0; i++)
		place_prefer(p, bpf_get_prandom_u32() % nr_cpus, &best);
	return best.cpu;
}
