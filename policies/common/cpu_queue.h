/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One DSQ for each CPU, numbered like the CPU, and some that several CPUs share. Other CPUs can
 * take tasks from a CPU's DSQ.
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "cpus.h"
#include "place_idle.h"
#include "waiting_cpus.h"

/* The number of a DSQ that several CPUs share. */
static __always_inline u64 shared_queue(u32 number)
{
	return MAX_CPUS + number;
}

/* Whether several CPUs share a DSQ. */
static __always_inline bool is_shared(u64 queue)
{
	return queue >= MAX_CPUS;
}

/* In init. */
static __always_inline s32 create_queues(u32 shared)
{
	s32 error;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		u32 at = cpu_index(i);

		error = scx_bpf_create_dsq(i, at < MAX_CPUS ? cpu_node[at] : -1);
		if (error)
			return error;
	}
	bpf_for(i, 0, shared) {
		error = scx_bpf_create_dsq(shared_queue(i), -1);
		if (error)
			return error;
	}
	return 0;
}

/* The shortest queue among those examined so far. */
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

/* The CPU with the shortest queue among those p can be put on, nearest first; else p's own CPU. */
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

/*
 * Whether a CPU should take a task that waits for another CPU (cpu_helps). Counting queues is
 * costly, so whether the other CPU is available is tested first.
 */
static __always_inline bool cpu_queue_helps(s32 cpu, s32 other)
{
	return cpu_lacks(other, CPU_GONE | CPU_TAKEN) &&
	       cpu_helps(cpu, scx_bpf_dsq_nr_queued(cpu), other, scx_bpf_dsq_nr_queued(other));
}

/*
 * Takes a task that waits for an offline or taken CPU: no other path looks there. Returns whether
 * there was one.
 */
static __always_inline bool cpu_queue_take_from_away(s32 cpu)
{
	u32 i;

	bpf_for(i, 1, nr_away ? nr_cpus : 1) {
		s32 other = cpu_neighbour(cpu, i);

		if (cpu_queue_helps(cpu, other) && scx_bpf_dsq_move_to_local(other))
			return true;
	}
	return false;
}

/*
 * Takes the task that waits nearest: in this CPU's queue or, if `elsewhere`, in that of another.
 * Returns whether there was one. While it looks at other queues, this runqueue's lock is not always
 * held. A task that arrives on this CPU's queue meanwhile causes no kick, so this queue is checked
 * again last.
 */
static __always_inline bool cpu_queue_take_near(s32 cpu, bool elsewhere)
{
	s32 other = cpu;
	u32 i;

	if (scx_bpf_dsq_nr_queued(cpu) && scx_bpf_dsq_move_to_local(cpu))
		return true;
	if (!elsewhere)
		return false;
	for_each_waiting(i, other, cpu) {
		/* Read without a lock: if the queue is filled just now, the enqueuing CPU kicks. */
		if (!scx_bpf_dsq_nr_queued(other))
			forget_waiting(other);
		else if (scx_bpf_dsq_move_to_local(other))
			return true;
	}
	return scx_bpf_dsq_move_to_local(cpu);
}

/*
 * In enqueue, when p goes to a CPU's queue and no other CPU is idle. A CPU other than p's own may
 * just have found its queue empty and be about to idle. It looks under its runqueue's lock, and p
 * enters the queue only after this callback returns. So a CPU that still runs may find nothing
 * until then. If no other task waits there, the kick makes it look again.
 */
static __always_inline void cpu_queue_kick(struct task_struct *p, s32 cpu)
{
	if (cpu != scx_bpf_task_cpu(p))
		scx_bpf_kick_cpu(cpu, scx_bpf_dsq_nr_queued(cpu) > 0 ? SCX_KICK_IDLE : 0);
}

/*
 * In tick, for any DSQ: kicks a CPU that went idle after the search for idle CPUs and before the
 * insertion. Nothing else has kicked it.
 */
static __always_inline void queue_kick(u64 dsq_id)
{
	if (!scx_bpf_dsq_nr_queued(dsq_id))
		return;
	note_waiting(dsq_id);
	place_kick_for(dsq_id);
}
