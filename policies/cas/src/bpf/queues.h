/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues: the DSQs of each CPU, and the hints by which they are compared without a lock.
 *
 * A hint is the key of a queue's first task, written under the CPU's runqueue lock.
 * Two events bypass this. Another CPU takes a task, or the kernel does, because a property of the
 * task changes. Then the hint is too low, which is marked in `stale`, and the queue is read again
 * later. If the kernel moves a task without a callback, the hint is corrected when the next task is
 * taken from the queue. A hint is never too high, for only its own CPU raises it, so no task is
 * forgotten.
 *
 * The lowest hint of all other contexts is cached until one of those hints or the current context
 * changes. So while a context stays, a choice costs the same however many other tasks wait.
 */
#pragma once
#include "place_home.h"
#include "state.h"

static __always_inline u64 dsq_of(s32 cpu, u32 slot)
{
	return (u64)cpu << SLOT_BITS | slot;
}

/* The DSQ where SCHED_IDLE tasks wait for a CPU, in FIFO order. */
static __always_inline u64 dsq_of_idle(s32 cpu)
{
	return 1ULL << 32 | (u64)cpu;
}

static __always_inline u64 head_of(s32 cpu, u32 slot)
{
	u64 dsq_id = dsq_of(cpu, slot);
	struct task_struct *p;

	if (knob_look == PEEK && dsq_can_peek())
		return dsq_peek_vtime(dsq_id);
	dsq_for_each(p, dsq_id) return p->scx.dsq_vtime;
	return 0;
}

/* The only writer of hints, so that values derived from hints are never stale. */
static __always_inline void set_hint(struct cas_cpu *c, u32 slot, u64 key)
{
	c->hint[slot] = key;
	if (knob_slots > 1 && !(c->here >> slot & 1))
		c->elsewhere_known = false;
}

/*
 * Hands back the tasks in the queues of a CPU that goes offline. Their hints are too low then, and
 * are read anew when the CPU is online again. Raising them here, on another CPU, could forget a
 * task that is enqueued at this moment.
 */
__noinline int clear_queues(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);
	u32 slot;

	bpf_for(slot, 0, knob_slots)
		dsq_hand_back(dsq_of(cpu, slot), cpu);
	dsq_hand_back(dsq_of_idle(cpu), cpu);
	if (c)
		__sync_fetch_and_or(&c->stale, ~0U);
	return 0;
}

static __always_inline void begin(s32 cpu)
{
	struct cas_cpu *c = cpus_of(cpu);

	if (!c)
		return;
	c->vtime = VTIME_BEGINS;
	c->turn_ns = HOME_WAIT_NS; /* no task is kept at home before this is known */
}

static __always_inline s32 create(void)
{
	s32 error = 0;
	u32 i, slot;

	bpf_for(i, 0, nr_cpus) {
		u32 cpu = cpu_index(i);

		if (error || cpu >= MAX_CPUS)
			break;
		begin(cpu);
		bpf_for(slot, 0, knob_slots) {
			error = scx_bpf_create_dsq(dsq_of(cpu, slot), cpu_node[cpu]);
			if (error)
				break;
		}
		if (!error)
			error = scx_bpf_create_dsq(dsq_of_idle(cpu), cpu_node[cpu]);
	}
	return error;
}

/* In the kernel's dump: where a task is in the order, and in which queue. */
void OP(cas_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	struct cas_task *t = tasks_of(p);

	if (t)
		scx_bpf_dump("epoch: %u prio: %d slot: %u phase: %u", key_epoch(t->key),
			     key_prio(t->key), key_slot(t->key), t->o1.phase);
}
