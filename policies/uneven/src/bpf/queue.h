/* SPDX-License-Identifier: GPL-2.0 */
/* Queue: where tasks wait, and which of them a CPU takes. Each queue is ordered by virtual time. */
#pragma once
#include "state.h"
#include "overdue.h"
#include "preempt.h"

/*
 * The queue of a kind of core. A task's kind changes with each turn, so all tasks in kinds' queues
 * use the common clock (VTIME_CLOCKS). CPUs' queues are for tasks that may not run on all CPUs.
 */
static __always_inline u64 queue_of_kind(u32 kind)
{
	return shared_queue(kind);
}

/* A CPU takes a task of another kind if it is a slice behind [queue_take]. */
static __always_inline s64 preempt_margin(s32 cpu, u64 queue)
{
	if (queue == (u32)cpu)
		return WAKEUP_NS;
	if (queue == queue_of_kind(cpu_kind(cpu)))
		return (s64)(knob_slice_ns / 2);
	return is_shared(queue) ? (s64)(3 * knob_slice_ns / 2) : S64_MAX;
}

/* There are no domains. */
static __always_inline bool may_leave_for(s32 cpu, s32 at)
{
	return true;
}

/* Whether any task waits that every CPU may take. */
static __always_inline bool any_waits(void)
{
	bool waits = false;
	u32 i;

	bpf_for(i, 0, nr_types)
		waits |= scx_bpf_dsq_nr_queued(queue_of_kind(i)) > 0;
	return waits;
}

static __always_inline void queue_up(struct task_struct *p, u64 enq_flags)
{
	struct un_task *task = tasks_of(p);
	s32 cpu = scx_bpf_task_cpu(p), victim;
	u64 queue, vtime;

	if (goes_anywhere(p))
		queue = queue_of_kind(task ? share_next(&task->wants, nr_types) : 0);
	else
		queue = cpu = p->nr_cpus_allowed == 1 ? cpu : cpu_queue_shortest(p);
	vtime = vtime_insert(p, queue, enq_flags, knob_slice_ns);
	if (place_kick_idle(p))
		return;
	victim = queue == (u64)cpu ? -1 : claim_cpu_of_idle_task(p, cpu);
	if (victim >= 0)
		scx_bpf_kick_cpu(victim, SCX_KICK_PREEMPT);
	else if (queue != (u64)cpu || !preempt_idle_task(p, cpu)) {
		if (may_preempt(p, enq_flags))
			preempt_for(queue, vtime, true);
		cpu_queue_kick(p, cpu);
	}
}

/* The head of another kind's queue, as if it were later by `handicap`. */
static __always_inline s64 queue_head(u64 queue, s64 handicap)
{
	s64 head = vtime_head(queue);

	return head == S64_MAX ? head : head + handicap;
}

/* Whether a task waits for this CPU or its kind. */
static __always_inline bool queue_waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) > 0 ||
	       scx_bpf_dsq_nr_queued(queue_of_kind(cpu_kind(cpu))) > 0;
}

/*
 * Takes the task with the least CPU time of those that wait for this CPU or its kind. A task of
 * another kind counts if it is a slice behind. `prev` continues unless a task has had less. Returns
 * whether a task was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev)
{
	struct un_cpu *state = cpus_of(cpu);
	s64 least = prev ? vtime_ahead(vtime_common(prev)) : S64_MAX, head;
	u32 kind = cpu_kind(cpu), i;
	u64 queue = cpu;
	u64 now = scx_bpf_now();
	bool found = false;

	if (state)
		state->share.chose_ns = now;
	if (take_forgotten(cpu, queue_of_kind(0), nr_types, knob_slice_ns, now))
		return true;
	head = vtime_head(cpu);
	if (head < least) {
		least = head;
		found = true;
	}
	for (i = 0; i < TYPES_MAX; i++) {
		head = i < nr_types ? queue_head(queue_of_kind(i), i == kind ? 0 : knob_slice_ns)
				    : S64_MAX;
		if (head < least) {
			least = head;
			queue = queue_of_kind(i);
			found = true;
		}
	}
	if (take_overdue(cpu, least, knob_slice_ns))
		return true;
	if (found && limit_take_first(queue))
		return true;
	if (cpu_queue_take_from_away(cpu))
		return true;
	if (prev)
		return false;
	/* Nothing to run: take any task. */
	for (i = 0; i < TYPES_MAX; i++)
		if (i < nr_types && limit_take_first(queue_of_kind(i)))
			return true;
	return cpu_queue_take_near(cpu, true);
}
