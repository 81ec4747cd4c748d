/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of tasks, CPUs and contexts, and its knobs. */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "order_o1.h"
#include "order_context.h"
#include "context_slots.h"
#include "sched_idle.h"

CONFIG u64 knob_slice_ns = 100000000; /* DEF_TIMESLICE */
#ifdef O1
CONFIG u64 knob_threshold = THRESHOLD_OFF;
CONFIG u64 knob_slots = 1;
#else
CONFIG u64 knob_threshold = 11; /* 1 + the threshold; THRESHOLD_OFF */
CONFIG u64 knob_slots = 16;  /* queues for each CPU */
#endif
CONFIG u64 knob_slack;   /* virtual time: 1 + the slack; SLACK_OFF */
CONFIG u64 knob_aggregate;  /* CPUs of a context's home; 0: no home */
CONFIG u64 knob_smt;   /* siblings of a core run the same context */
CONFIG u64 knob_tags;   /* contexts whose TLB entries a CPU keeps; 0: one */
CONFIG u64 knob_look;   /* enum look */

enum look {
	PEEK,  /* read a queue's head without a lock, where the kernel does so reliably */
	ITERATE, /* read it under the queue's lock */
};

/* The state of a task. */
enum phase {
	OUT,  /* new or asleep */
	QUEUED, /* waits in the present epoch */
	EXPIRED, /* waits for the next one */
	RUNNING,
	STOPPED, /* was running, and is about to be queued again */
	DECIDED, /* like STOPPED, with its key made */
};

/* All that is stored for a task: 40 bytes. */
struct cas_task {
	u64 stamp_ns; /* when it last started, stopped or woke; 0: never */
	u64 key;
	struct o1_task o1;
};

struct cas_cpu {
	u64 hint[SLOTS_MAX]; /* at most the key of each slot's first task; 0: none */
	u64 elsewhere;  /* the lowest hint of slots outside the current context, or 0 */
	struct o1_expired expired;
	u64 epoch_ns;  /* when the present epoch began */
	u64 turn_end_ns; /* of the running task */
	u64 vtime;  /* by virtual time: the lowest tag of all runnable tasks */
	u64 running_key; /* by virtual time: the running task's, when its turn began */
	u64 since_ns;  /* when that was */
	struct context_tags tags;
	volatile u64 mm; /* an address on its way to become a number */
	u64 entered_mm; /* the address space of the current context */
	volatile u64 woken_mm; /* like mm, of the task that this CPU wakes: written unlocked */
	u64 turn_ns;  /* mean turn of the tasks that run here */
	u64 balanced_ns; /* when it last checked whether other CPUs have more tasks */
	u64 idle_turn_ns; /* since when a waiting SCHED_IDLE task has had no turn here */
	u64 idle_due_ns; /* when one gets a turn; 0: none waits */
	u64 sequence;
	u32 epoch;
	u32 here;  /* the slots of the current context */
	u32 tagged;  /* the slots whose TLB entries this CPU keeps */
	u32 weight;  /* by virtual time: of the running task */
	u32 stale;  /* which hints may be too low; other CPUs set bits too */
	u8 slot;	 /* of the current context */
	u8 looked;  /* 1 + a slot whose hint to read anew as well, or 0 */
	u8 elsewhere_known; /* neither `here` nor a hint elsewhere has changed since */
	u8 running;  /* a task runs, or is about to */
	u8 prio;	 /* of the running task */
	u8 preempting;  /* the running task does not end its turn itself */
	u8 takes_home;  /* the next task to start has its home here */
	u8 sent_back;  /* the last tick re-enqueued a task of the local DSQ */
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

/* The slot of an address that is not where its hash says, or was not seen for a while. */
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
 * The slot of p's address space. Read each time, because exec changes p->mm without a callback. The
 * verifier forbids arithmetic on a pointer, but not on a number read back from memory.
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
 * The slice to ask the kernel for. A turn ends at the first tick that finds it used up, and most
 * turns begin at a tick. Asked for half a tick less, it ends at the nearest tick.
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

/* Counts a task in this slot from now on. Its key is made next. */
static __always_inline void join(struct cas_task *t, u32 slot)
{
	if (knob_slots > 1)
		context_moves(contexts, key_slot(t->key), slot);
}

static __always_inline void make_key(struct cas_cpu *c, struct cas_task *t, u32 epoch, u32 slot)
{
	t->key = key_of(epoch, t->o1.prio, c->sequence++, slot);
}
