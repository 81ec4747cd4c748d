/* SPDX-License-Identifier: GPL-2.0 */
/* The state of each CPU. */
#pragma once
#include "knobs.h"
#include "offer.h"
#include "order.h"
#include "visits.h"

/* Wakers on other CPUs write only head_taken_ns, and rarely (with CODE, deferred too). */
struct fl_cpu {
	u64 head_taken_ns;
	u64 began_ns; /* the first tick that found `runs` here */
	s32 runs;
	s32 deferred;
	struct offer offer;
	struct visits visits;
} __attribute__((aligned(64)));

CPU_TABLE(struct fl_cpu, cpus)

static __always_inline u64 slice_ns(void)
{
	return slice_by_tick(knob_slice_ns, tick_ns);
}

static __always_inline u64 turn_ns(void)
{
	return order_turn(knob_slice_ns, tick_ns, knob_variant == CODE ? knob_defer_ns : 0);
}

/* Takes the head of a CPU's queue, in one turn of two. Returns the flag; 0: it is not free. */
static __always_inline u64 take_head(s32 cpu)
{
	struct fl_cpu *state = cpus_of(cpu);

	if (!state || !order_take_head(&state->head_taken_ns, scx_bpf_now(), turn_ns()))
		return 0;
	return SCX_ENQ_HEAD;
}

/* Head or tail of the CPU's queue, for a task that has just become runnable. */
static __always_inline u64 place_in_queue(struct task_struct *p, s32 cpu)
{
	struct order_task task = {
		.weight = p->scx.weight,
		.pinned = nr_cpus > 1 && p->nr_cpus_allowed == 1,
		.kernel = p->flags & PF_KTHREAD,
	};

	return order_prefers_head(task) ? take_head(cpu) : 0;
}

/* When a task has blocked, its last CPU no longer defers a slice's end for it. */
static __always_inline void end_deferral(struct task_struct *p, s32 cpu)
{
	struct fl_cpu *state = knob_variant == CODE ? cpus_of(cpu) : NULL;

	if (state && state->deferred == p->pid)
		state->deferred = 0;
}
