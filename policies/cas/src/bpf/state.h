/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of tasks, CPUs and contexts, and its knobs. */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "order_o1.h"
#include "order_context.h"
#include "context_slots.h"
#include "sched_idle.h"

TUNABLE u64 knob_slice_ns = 100000000; /* DEF_TIMESLICE */
#ifdef O1
/* o1 has none of cas' own knobs. Volatile, as CONFIG is: both objects have the same code. */
#define CAS_KNOB static const volatile
CAS_KNOB u64 knob_threshold = THRESHOLD_OFF;
CAS_KNOB u64 knob_slots = 1;
#else
#define CAS_KNOB CONFIG
CAS_KNOB u64 knob_threshold = 11; /* 1 + the threshold; THRESHOLD_OFF */
CAS_KNOB u64 knob_slots = 16;  /* queues for each CPU */
#endif
CAS_KNOB u64 knob_slack;	 /* virtual time: 1 + the slack; SLACK_OFF */
CAS_KNOB u64 knob_aggregate; /* CPUs of a context's home; 0: no home */
CAS_KNOB u64 knob_smt;  /* siblings of a core run the same context */
CAS_KNOB u64 knob_tags; /* contexts whose TLB entries a CPU keeps; 0: one */
CAS_KNOB u64 knob_look; /* enum look */

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

TASK_STORAGE(struct cas_task, tasks)

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
static __always_inline void join_slot(struct cas_task *t, u32 slot)
{
	if (knob_slots > 1)
		move_thread(contexts, key_slot(t->key), slot);
}

static __always_inline void make_key(struct cas_cpu *c, struct cas_task *t, u32 epoch, u32 slot)
{
	t->key = key_of(epoch, t->o1.prio, c->sequence++, slot);
}

/* Sets the slots of the context that runs now. A task without one runs in the previous context. */
static __always_inline void enter_context(struct cas_cpu *c, u64 mm, u32 slot)
{
	u32 here = 1u << SLOT_KERNEL | 1u << slot;

	c->entered_mm = mm;
	c->slot = slot;
	if (knob_tags)
		c->tagged = context_tag(&c->tags, c->tagged, slot, knob_tags);
	if (here != c->here) {
		c->here = here;
		c->elsewhere_known = false;
	}
}

/* A task is taken out of its queue because a property changes, and is queued again. */
static __always_inline struct cas_task *leave_queue(struct task_struct *p)
{
	struct cas_cpu *c = cpus_of(scx_bpf_task_cpu(p));
	struct cas_task *t = tasks_of(p);

	if (c && t && (t->o1.phase == QUEUED || t->o1.phase == EXPIRED))
		__sync_fetch_and_or(&c->stale, 1u << key_slot(t->key));
	return t;
}
