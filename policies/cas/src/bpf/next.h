/* SPDX-License-Identifier: GPL-2.0 */
/* Next: gives a CPU to the task that choose.h has found, and ends a turn for one that waits. */
#pragma once
#include "account.h"
#include "choose.h"
#include "take.h"

/* The running task continues, because no waiting task goes before it. */
static __always_inline void go_on(struct task_struct *prev, struct cas_cpu *c, struct cas_task *t,
				  u64 now)
{
	u64 slice = slice_of(t);

	t->o1.phase = RUNNING;
	note_turn(c, t, prev, now);
	c->preempting = false;
	c->turn_end_ns = now + slice;
	scx_bpf_task_set_slice(prev, slice);
}

enum next {
	NOBODY,
	GOES_ON,
	MOVED
};

/* Which task is next: one that waits here, or the running one, whose key is `going_on` if not 0. */
__noinline int next_here(s32 cpu, u64 going_on)
{
	struct cas_cpu *c = cpus_of(cpu);
	u64 key;
	u32 i;

	if (!c)
		return NOBODY;
	if (c->looked) {
		i = (c->looked - 1) & (SLOTS_MAX - 1);
		c->looked = 0;
		set_hint(c, i, head_of(cpu, i));
	}
	/* Each time a queue turns out empty, there is one less to try. */
	for (i = 0; i <= SLOTS_MAX && i <= knob_slots; i++) {
		if (c->stale)
			refresh(cpu);
		key = choose(cpu, going_on);
		if (!key)
			break;
		if (is_later(c, key))
			begin_epoch(c, key_epoch(key));
		if (key == going_on)
			return GOES_ON;
		if (scx_bpf_dsq_move_to_local(dsq_of(cpu, key_slot(key)))) {
			c->looked = key_slot(key) + 1;
			return MOVED;
		}
		set_hint(c, key_slot(key), 0);
	}
	return NOBODY;
}

/*
 * A task that was about to run when a better one woke is behind that one on the local DSQ. No other
 * CPU can take it from there, so it goes back to its queue; else every task there gets a tick. The
 * kernel also puts tasks on the local DSQ itself, if they exit or must not migrate. Those come back
 * at once, and stay.
 */
static __always_inline void send_back_waiting(struct task_struct *p, struct cas_cpu *c)
{
	bool waits = scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0, sent_back = c->sent_back;

	c->sent_back = waits && !sent_back && can_reenqueue();
	if (c->sent_back) {
		reenqueue_here();
	} else if (waits) {
		c->preempting = true;
		scx_bpf_task_set_slice(p, 0);
	}
}
