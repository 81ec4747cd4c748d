/* SPDX-License-Identifier: GPL-2.0 */
/* A queue for each CPU: a DSQ of the CPU's own number, from which others can take. */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "hotplug.h"
#include "place_idle.h"

/* In init, for policies to whom it does not matter on which node they are. */
static __always_inline s32 cpu_queues_create(void)
{
	s32 error;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		error = scx_bpf_create_dsq(i, -1);
		if (error)
			return error;
	}
	return 0;
}

/* In dispatch. A function of its own to the verifier, which would else go on from each of its ways. */
__noinline int cpu_queue_clear_unasked(void)
{
	s32 cpu = cpu_to_clear();

	if (cpu >= 0) {
		dsq_hand_back(cpu, cpu);
		scx_bpf_kick_cpu(cpu, 0);	/* kernels without later fixes wake nobody [move_local_task_to_local_dsq] */
	}
	return 0;
}

/* The shortest queue of those that were looked at. */
struct shortest {
	s32 cpu;
	s32 waiting;
};

static __always_inline void shortest_look(struct shortest *of, s32 cpu)
{
	s32 waiting = scx_bpf_dsq_nr_queued(cpu);

	if (waiting < of->waiting)
		*of = (struct shortest){ cpu, waiting };
}

/* Of the CPUs that p can be put on, the one for which fewest wait, near first; its own where there is none. */
static __always_inline s32 cpu_queue_shortest(struct task_struct *p)
{
	s32 own = scx_bpf_task_cpu(p);
	struct shortest best = { own, S32_MAX };
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(own, i);

		if (cpu_takes(p, cpu))
			shortest_look(&best, cpu);
	}
	return best.cpu;
}

/* Whether a CPU is to take one of those that wait for another (cpu_helps). */
static __always_inline bool cpu_queue_helps(s32 cpu, s32 other)
{
	return cpu_lacks_any(other) &&
	       cpu_helps(cpu, scx_bpf_dsq_nr_queued(cpu), other, scx_bpf_dsq_nr_queued(other));
}

/* Takes a task that waits for a CPU which has gone, or is taken: nobody else would look there. Whether there was one. */
static __always_inline bool cpu_queue_take_from_away(s32 cpu)
{
	u32 i;

	bpf_for(i, 1, nr_away ? nr_cpus : 1) {
		s32 other = cpu_neighbour(cpu, i);

		if (cpu_queue_helps(cpu, other) && dsq_move_to_local(other))
			return true;
	}
	return false;
}

/*
 * Takes what waits nearest, for this CPU first, of so many. Whether there was anything. While it looks at others this
 * runqueue's lock is not held all the time: who came to its own queue meanwhile is not kicked for, and is looked for last.
 */
static __always_inline bool cpu_queue_take_near(s32 cpu, u32 reach)
{
	u32 i;

	bpf_for(i, 0, reach) {
		s32 other = cpu_neighbour(cpu, i);

		/* read without a lock: a queue that fills just now is kicked for by its filler */
		if (scx_bpf_dsq_nr_queued(other) && dsq_move_to_local(other))
			return true;
	}
	return reach > 1 && dsq_move_to_local(cpu);
}

/*
 * In enqueue, where p is put into the queue of a CPU and no other idles: one that is not p's own may just have found nothing
 * and be about to idle. It does so under its runqueue's lock, and p comes into the queue once this callback has returned:
 * one that runs still may find nothing until then, and where nobody else waits looks again.
 */
static __always_inline void cpu_queue_kick(struct task_struct *p, s32 cpu)
{
	if (cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, scx_bpf_dsq_nr_queued(cpu) > 0 ? SCX_KICK_IDLE : 0);
}

/* In tick: a CPU that went idle between the search for idle CPUs and an insertion was not kicked. Any DSQ. */
static __always_inline void queue_kick(u64 dsq_id)
{
	if (scx_bpf_dsq_nr_queued(dsq_id) > 0)
		place_kick_for(dsq_id);
}
