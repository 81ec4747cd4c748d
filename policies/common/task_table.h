/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The task table: everything that the data plane and the control plane share about tasks.
 *
 * It is one array that user space maps. A task gets a slot when it enters the policy, and gives it
 * back when it ends. The slot's generation is odd while the slot is in use. A reader that sees the
 * same odd number before and after has read one task. Every field has one owner, the only side that
 * writes it:
 *
 *	DATA	the callbacks, here
 *	CONTROL	the control plane, in Rust (crates/policy/src/table.rs has the same layout)
 *
 * Shares are double-buffered: the control plane fills the buffer that is not in force for all
 * tasks, then advances the epoch, so no callback ever sees half an update.
 */
#pragma once
#include "kernel.h"

#define MAX_TASKS 16384
#define NO_SLOT	  0

struct by_type {
	u64 of[TYPES_MAX];
};

#define PLACES_MAX 64 /* kinds of cores, or memory domains, that shares are of */

#define TASK_SLOT(FIELD)                                                                     \
	FIELD(u32, generation, DATA) /* odd: in use */                                       \
	FIELD(s32, pid, DATA)                                                                \
	FIELD(s32, tgid, DATA)                                                               \
	FIELD(u32, weight, DATA)                                                             \
	FIELD(u32, kinds, DATA) /* a bit for each kind of core that it may run on; 0: all */ \
	FIELD(u32, pace, CONTROL) /* weight in place of its own; 0: its own */               \
	FIELD(u32, domains, DATA) /* the same as kinds for memory domains */                 \
	FIELD(u32, home, CONTROL) /* 1 + the domain that it belongs to; 0: none */           \
	FIELD(u32, limit, CONTROL) /* the limit of CPU time that it is in; 0: none */        \
	FIELD(u64, mm, DATA)  /* address space; exec changes it without a callback */         \
	FIELD(u64, cgroup, DATA) /* inode of its folder; 0: unknown */                       \
	FIELD(u64, runtime_ns, DATA) /* CPU time charged so far */                           \
	FIELD(struct by_type, ran_ns, DATA) /* the same by kind of core, or domain */        \
	FIELD(struct by_type, counted_ns, DATA) /* how much of it its CPUs counted in */     \
	FIELD(struct by_type, instructions, DATA) /* retired in that */                      \
	FIELD(u64, share_even, CONTROL) /* in force while the epoch is even */               \
	FIELD(u64, share_odd, CONTROL) /* in force while the epoch is odd */

struct task_slot {
#define FIELD(type, name, owner) type name;
	TASK_SLOT(FIELD)
#undef FIELD
};

#define LIMITS_MAX 4096

/* A cgroup's cpu.max [limits.h]. Number 0 is none. */
#define LIMIT(FIELD)                                                                  \
	FIELD(u64, quota_ns, CONTROL) /* CPU time in each period; 0: no limit */      \
	FIELD(u64, period_ns, CONTROL)                                                \
	FIELD(u64, burst_ns, CONTROL) /* how much of it can be saved up */            \
	FIELD(u64, cgroup, CONTROL) /* whose it is: inode of its folder */            \
	FIELD(u32, around, CONTROL) /* the limit that it is in; 0: none */            \
	FIELD(s64, left_ns, DATA) /* of the period; below 0: taken from the next */   \
	FIELD(s64, reserved_ns, DATA) /* by tasks that run, or are about to */        \
	FIELD(u64, ends_ns, DATA) /* when the period ends */                          \
	FIELD(u64, held_ns, DATA) /* when a task last had to wait for the next one */ \
	FIELD(u64, timer_ns, DATA) /* what its timer was last set to */

struct limit {
#define FIELD(type, name, owner) type name;
	LIMIT(FIELD)
#undef FIELD
};

/* Slot 0 belongs to no task: its share is that of tasks without a slot. */
struct task_table {
	u64 epoch; /* CONTROL */
	u64 working; /* CONTROL: a bit for each mechanism that works, if the policy has several */
	u64 free; /* DATA: count of pops << 32 | slot on top of the free list */
	u64 fresh; /* DATA: slots up to here have been given out at least once */
	u64 cpus[PLACES_MAX]; /* DATA: online CPUs of each place; all 0 if not counted */
	u64 domain_cpus[PLACES_MAX]; /* DATA: the same of each domain, if shares are of kinds */
	u64 limited; /* CONTROL: the highest number of a limit; 0: there is none */
	u32 next_free[MAX_TASKS]; /* DATA */
	struct task_slot slots[MAX_TASKS];
	struct limit limits[LIMITS_MAX];
};

/* CPU time of a limit that a task will use. */
struct reserved {
	u32 of; /* the limit */
	u32 ns; /* 0: none */
};

struct task_slot_of {
	u32 slot;
	u32 clock; /* vtime.h: 1 + the queue that sets the vtime's clock; 0: common clock */
	u64 waits_ns; /* vtime.h: since when it has waited to run; 0: it is not waiting */
	u64 lead_ns; /* vtime.h: how far before its own vtime it is queued; below 0: after it */
	u64 led_ns; /* vtime.h: when it was last queued before its vtime */
	u64 held_ns; /* limits.h: since when it has waited for a limit; 0: it has not */
	u64 held_vtime; /* limits.h: its vtime then */
	struct reserved reserved; /* limits.h: while it waits for a CPU, and need not for a limit */
	/* If the policy notes it [vtime_note_turn]: */
	bool woke; /* it was queued because it woke, not because it was preempted */
	u64 burst_ns; /* how long it has run since it last slept */
	u64 turn_ns; /* how long it runs before it sleeps */
	u64 ran_ns; /* when it last ran */
	s32 ran_on; /* the CPU where it did */
};

#ifdef __bpf__
struct task_table task_table SEC(".bss.task_table");
#else
EXPORT struct task_table task_table;
#endif

TASK_STORAGE(struct task_slot_of, task_slots)

static __always_inline struct task_slot *task_table_at(u32 slot)
{
	if (slot >= MAX_TASKS)
		return NULL;
	barrier_var(slot); /* else the verifier sees the address computed before the bound */
	return slot != NO_SLOT ? &task_table.slots[slot] : NULL;
}

/* A task's slot, or NULL if the table was full when the task came. */
static __always_inline struct task_slot *slot_in(const struct task_slot_of *of)
{
	return of ? task_table_at(of->slot) : NULL;
}

static __always_inline struct task_slot *task_slot(struct task_struct *p)
{
	return slot_in(task_slots_of(p));
}

/* Takes a free slot: the last one given back, or a fresh one. Gives up after 64 lost races. */
static __always_inline u32 task_table_pop(void)
{
	u32 tries;
	u64 fresh;

	for (tries = 0; tries < 64; tries++) {
		u64 top = task_table.free;
		u32 slot = (u32)top;
		u64 rest;

		if (slot == NO_SLOT)
			break;
		if (slot >= MAX_TASKS)
			return NO_SLOT;
		rest = ((top >> 32) + 1) << 32 | task_table.next_free[slot];
		if (__sync_bool_compare_and_swap(&task_table.free, top, rest))
			return slot;
	}
	fresh = __sync_fetch_and_add(&task_table.fresh, 1) + 1;
	return fresh < MAX_TASKS ? (u32)fresh : NO_SLOT;
}

static __always_inline void task_table_push(u32 slot)
{
	u32 tries;

	if (slot >= MAX_TASKS)
		return;
	for (tries = 0; tries < 64; tries++) {
		u64 top = task_table.free;

		task_table.next_free[slot] = (u32)top;
		if (__sync_bool_compare_and_swap(&task_table.free, top,
						 ((top >> 32) + 1) << 32 | slot))
			return;
	}
}

static __always_inline struct limit *limit_at(u32 at)
{
	if (at >= LIMITS_MAX)
		return NULL;
	barrier_var(at); /* else the verifier sees the address computed before the bound */
	return at ? &task_table.limits[at] : NULL;
}

/* The inode of a cgroup's folder. 0: no cgroups. */
static __always_inline u64 cgroup_id(const struct cgroup *cgroup)
{
	return cgroup ? cgroup->kn->id : 0;
}

/* The limit that a cgroup has itself. 0: none. */
__noinline u32 limit_of_cgroup(u64 cgroup)
{
	u32 i;

	bpf_for(i, 1, task_table.limited + 1) {
		struct limit *limit = limit_at(i);

		if (limit && limit->cgroup == cgroup && limit->quota_ns)
			return i;
	}
	return 0;
}

/* So many cgroups around a task's own are looked at; the control plane looks at all. */
#define MAX_CGROUP_LEVELS 16

/* The limit of a cgroup's tasks: its own, or that of the nearest cgroup around it. 0: none. */
static __always_inline u32 limit_around(const struct cgroup *cgroup)
{
	const struct cgroup_subsys_state *at;
	u32 i, limit = 0;

	if (!task_table.limited || !cgroup)
		return 0;
	at = &cgroup->self;
	bpf_for(i, 0, MAX_CGROUP_LEVELS) {
		limit = limit_of_cgroup(cgroup_id(at->cgroup));
		at = at->parent;
		if (limit || !at)
			break;
	}
	return limit;
}

/* A task that is forked within a cgroup is in the same limit. */
static __always_inline u32 limit_of_newcomer(const struct cgroup *cgroup)
{
	struct task_struct *p = task_table.limited ? bpf_get_current_task_btf() : NULL;
	struct task_slot *slot = p ? task_slot(p) : NULL;

	return slot && slot->cgroup == cgroup_id(cgroup) ? slot->limit : limit_around(cgroup);
}

/*
 * For init_task, which returns this error: without storage a task's CPU time could not be charged.
 * If the table is full, the task has no slot and is scheduled all the same.
 */
static __always_inline s32 task_table_enter(struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_slot_of *of = task_slots_add(p);
	struct task_slot *slot;

	if (!of)
		return -ENOMEM;
	of->slot = task_table_pop();
	slot = task_table_at(of->slot);
	if (!slot)
		return 0;
	slot->pid = p->pid;
	slot->tgid = p->tgid;
	slot->weight = p->scx.weight;
	slot->mm = (u64)p->mm;
	slot->cgroup = cgroup_id(cgroup_of_newcomer(args));
	slot->kinds = 0;
	slot->domains = 0;
	slot->runtime_ns = 0;
	slot->ran_ns = (struct by_type){};
	slot->counted_ns = (struct by_type){};
	slot->instructions = (struct by_type){};
	/*
	 * The only time the data plane writes these: they hold values of the slot's previous task.
	 */
	slot->pace = 0;
	slot->home = 0;
	slot->limit = args->fork ? limit_of_newcomer(cgroup_of_newcomer(args)) : 0;
	slot->share_even = 0;
	slot->share_odd = 0;
	__sync_fetch_and_add(&slot->generation, 1);
	return 0;
}

/* For exit_task. */
static __always_inline void task_table_leave(struct task_struct *p)
{
	struct task_slot_of *of = task_slots_of(p);
	struct task_slot *slot = slot_in(of);

	if (!slot)
		return;
	__sync_fetch_and_add(&slot->generation, 1);
	task_table_push(of->slot);
	of->slot = NO_SLOT;
}

/* The share in force for a task. */
static __always_inline u64 task_share(const struct task_slot *slot)
{
	return task_table.epoch & 1 ? slot->share_odd : slot->share_even;
}
