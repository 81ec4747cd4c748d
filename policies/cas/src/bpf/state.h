/* SPDX-License-Identifier: GPL-2.0 */
/* What is known of tasks, CPUs and contexts, and the knobs. */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "order_o1.h"
#include "order_context.h"
#include "context_slots.h"
#include "sched_idle.h"

CONFIG u64 knob_slice_ns = 100000000;	/* DEF_TIMESLICE */
#ifdef O1
CONFIG u64 knob_threshold = THRESHOLD_OFF;
CONFIG u64 knob_slots = 1;
#else
CONFIG u64 knob_threshold = 11;		/* one more than the threshold; THRESHOLD_OFF */
CONFIG u64 knob_slots = 16;		/* queues a CPU */
#endif
CONFIG u64 knob_slack;			/* virtual time: one more than the slack; SLACK_OFF */
CONFIG u64 knob_aggregate;		/* CPUs of a context's home; 0: it has none */
CONFIG u64 knob_smt;			/* siblings of a core run the same context */
CONFIG u64 knob_tags;			/* contexts whose TLB entries a CPU keeps; 0: one */
CONFIG u64 knob_look;			/* enum look */

enum look {
	PEEK,		/* read a queue's head without a lock, where the kernel can be trusted to */
	ITERATE,	/* under its lock */
};

/* Where a task is. */
enum phase {
	OUT,		/* new or asleep */
	QUEUED,		/* waits in the present epoch */
	EXPIRED,	/* waits for the next one */
	RUNNING,
	STOPPED,	/* was running, and is about to be queued again */
	DECIDED,	/* the same, and its key is made */
};

/* All that is kept of a task: 40 bytes. */
struct cas_task {
	u64 stamp_ns;	/* when it last started, stopped or woke; 0: never */
	u64 key;
	struct o1_task o1;
};

struct cas_cpu {
	u64 hint[SLOTS_MAX];	/* no more than the key of each slot's first task; 0: none */
	u64 elsewhere;		/* the least hint of slots that are not of the current context, or 0 */
	struct o1_expired expired;
	u64 epoch_ns;		/* when the present epoch began */
	u64 turn_end_ns;	/* of who runs */
	u64 vtime;		/* by virtual time: the least tag of all that could run */
	u64 running_key;	/* by virtual time: of who runs, when its turn began */
	u64 since_ns;		/* when that was */
	struct context_tags tags;
	volatile u64 mm;	/* an address on its way to be a number */
	u64 entered_mm;		/* whose the current context is */
	volatile u64 woken_mm;	/* the same, of whom this CPU wakes: written without the lock */
	u64 turn_ns;		/* how long who runs here does so, about */
	u64 balanced_ns;	/* when it last looked whether others have more to do */
	u64 idle_turn_ns;	/* since when no SCHED_IDLE task has had a turn here, though one waits */
	u64 idle_due_ns;	/* when one is to have a turn; 0: none waits */
	u64 sequence;
	u32 epoch;
	u32 here;		/* which slots are of the current context */
	u32 tagged;		/* whose TLB entries this CPU keeps */
	u32 weight;		/* by virtual time: of who runs */
	u32 stale;		/* which hints may be too low; others set bits too */
	u8 slot;		/* the current context's */
	u8 looked;		/* which slot's hint to look up, besides: one more than it, or 0 */
	u8 elsewhere_known;	/* neither `here` nor a hint elsewhere changed since */
	u8 running;		/* somebody runs, or is about to */
	u8 prio;		/* of who runs */
	u8 preempting;		/* who runs did not end its turn itself */
	u8 takes_home;		/* who starts next has its home here */
	u8 sent_back;		/* the last tick found somebody on the local DSQ, and had it queued again */
} __attribute__((aligned(64)));

CPU_TABLE(struct cas_cpu, cpus)

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct cas_task);
} tasks SEC(".maps");

static __always_inline struct cas_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

static __always_inline u32 nice_of(const struct task_struct *p)
{
	u32 nice = p->static_prio - 100;

	return nice < O1_PRIOS ? nice : O1_NICE_0;
}

static volatile struct context_owner contexts[SLOTS_MAX];

/* For an address that is not where its hash says, or was not seen for a while. */
u32 find_slot(u64 mm, u64 now)
{
	return context_find_slot(contexts, mm, knob_slots, now, knob_slice_ns);
}

static __always_inline u32 slot_at(u64 mm, u64 now)
{
	u32 slot = context_slot(mm, knob_slots) & (SLOTS_MAX - 1);

	if (slot == SLOT_KERNEL || context_owns(&contexts[slot], mm, now, knob_slice_ns))
		return slot;
	return find_slot(mm, now) & (SLOTS_MAX - 1);
}

/*
 * The slot of its address space, read each time: exec changes p->mm and tells nobody. The verifier
 * lets nobody calculate with a pointer, but with what was read from memory.
 */
static __always_inline u32 slot_of(struct cas_cpu *c, const struct task_struct *p, u64 now)
{
	if (knob_slots == 1)
		return SLOT_KERNEL;
	c->mm = (u64)p->mm;
	return slot_at(c->mm, now);
}

static __always_inline u64 dsq_of(s32 cpu, u32 slot)
{
	return (u64)cpu << SLOT_BITS | slot;
}

/* Where SCHED_IDLE tasks wait for a CPU, in turn. */
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
	dsq_for_each(p, dsq_id)
		return p->scx.dsq_vtime;
	return 0;
}

/* All writing of hints is here, so that what was made of them is never older than they are. */
static __always_inline void set_hint(struct cas_cpu *c, u32 slot, u64 key)
{
	c->hint[slot] = key;
	if (knob_slots > 1 && !(c->here >> slot & 1))
		c->elsewhere_known = false;
}

/*
 * What to ask of the kernel for a turn. It ends at the first tick that finds it used up, and begins at one
 * more often than not: asked for half a tick less, it ends at the tick that is nearest.
 */
static __always_inline u64 slice_of(const struct cas_task *t)
{
	u64 turn = knob_slack ? VTIME_TURN(knob_slice_ns) : o1_turn(&t->o1, nr_cpus, knob_slice_ns);

	return turn > tick_ns ? turn - tick_ns / 2 : turn;
}

/* The virtual clock of the CPU that a task's key belongs to. */
static __always_inline u64 clock_of(const struct cas_task *t)
{
	struct cas_cpu *c = cpus_of(t->o1.cpu);

	return c ? c->vtime : VTIME_BEGINS;
}

/* A task is queued by this slot from here on: its key is made next. */
static __always_inline void join(struct cas_task *t, u32 slot)
{
	if (knob_slots > 1)
		context_moves(contexts, key_slot(t->key), slot);
}

static __always_inline void make_key(struct cas_cpu *c, struct cas_task *t, u32 epoch, u32 slot)
{
	t->key = key_of(epoch, t->o1.prio, c->sequence++, slot);
}
