/* SPDX-License-Identifier: GPL-2.0 */
/* Queue: where tasks wait, and which of them a CPU takes. In each queue the order is that of CPU time. */
#pragma once
#include "state.h"
#include "place_idle.h"

/* A queue for each kind of core; those below are for each CPU, for tasks that may not run on all. */
static __always_inline u64 queue_of_kind(u32 kind)
{
	return MAX_CPUS + kind;
}

/* For a task that may run on some CPUs: of those, the one for which fewest wait; its own if none is better. */
static __always_inline u64 queue_of_bound(struct task_struct *p)
{
	s32 best = scx_bpf_task_cpu(p), least = S32_MAX;
	u32 i;

	if (p->nr_cpus_allowed == 1)
		return best;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(scx_bpf_task_cpu(p), i), waiting;

		if (!cpu_takes(p, cpu))
			continue;
		waiting = scx_bpf_dsq_nr_queued(cpu);
		if (waiting < least) {
			least = waiting;
			best = cpu;
		}
	}
	return best;
}

static __always_inline void queue_up(struct task_struct *p, u64 enq_flags)
{
	struct un_task *task = bpf_task_storage_get(&un_tasks, p, 0, 0);
	u64 vtime = p->scx.dsq_vtime, queue;

	/* Who slept has no claim on the time of those who did not. */
	if (enq_flags & SCX_ENQ_WAKEUP)
		vtime = vtime_after(vtime, vtime_now - knob_slice_ns);
	if (p->nr_cpus_allowed >= (s32)nr_cpus)
		queue = queue_of_kind(task ? share_next(&task->wants, nr_types) : 0);
	else
		queue = queue_of_bound(p);
	dsq_insert_vtime(p, queue, knob_slice_ns, vtime, enq_flags);
	place_kick_idle(p);
}

/* A CPU that went idle between an insertion and the search for idle CPUs was not kicked: at a tick it is. */
static __always_inline void queue_kick(s32 cpu)
{
	u64 queue = queue_of_kind(cpu_kind(cpu));

	if (scx_bpf_dsq_nr_queued(queue) > 0)
		place_kick_for(queue);
	if (scx_bpf_dsq_nr_queued(cpu) > 0)
		place_kick_for(cpu);
}

/* The vtime of who waits first in a queue, as a distance that can be compared; S64_MAX: nobody. */
static __always_inline s64 queue_head(u64 queue, s64 handicap)
{
	if (!scx_bpf_dsq_nr_queued(queue))
		return S64_MAX;
	return dsq_can_peek() ? (s64)(dsq_peek_vtime(queue) - vtime_now) + handicap : handicap;
}

/*
 * Takes who has had the least CPU time of those that wait for this CPU or its kind; or for another kind, if it
 * is a slice behind. `prev` goes on unless somebody has had less. Whether one was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev)
{
	s64 least = prev ? (s64)(prev->scx.dsq_vtime - vtime_now) : S64_MAX, head;
	u32 kind = cpu_kind(cpu), i;
	u64 queue = cpu;
	bool found = false;

	head = queue_head(cpu, 0);
	if (head < least) {
		least = head;
		found = true;
	}
	for (i = 0; i < TYPES_MAX; i++) {
		head = i < nr_types ? queue_head(queue_of_kind(i), i == kind ? 0 : knob_slice_ns) : S64_MAX;
		if (head < least) {
			least = head;
			queue = queue_of_kind(i);
			found = true;
		}
	}
	if (found && dsq_move_to_local(queue))
		return true;
	if (dsq_take_from_away(cpu))
		return true;
	if (prev)
		return false;
	/* Nothing to do: whatever can be had. */
	for (i = 0; i < TYPES_MAX; i++)
		if (i < nr_types && dsq_move_to_local(queue_of_kind(i)))
			return true;
	bpf_for(i, 0, nr_cpus) {
		s32 other = cpu_neighbour(cpu, i);

		if (scx_bpf_dsq_nr_queued(other) && dsq_move_to_local(other))
			return true;
	}
	return false;
}
