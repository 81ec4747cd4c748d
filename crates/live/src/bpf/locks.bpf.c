/* SPDX-License-Identifier: GPL-2.0 */
/*
 * locks: counts raw spin locks taken by the scheduler's own text, by caller.
 *
 * Probes sit on the lock functions; the return address identifies the caller. A lock's address
 * shows whether it is a runqueue's own. The counts themselves need no lock: a slot is claimed with
 * one compare-and-swap.
 *
 * crates/live/src/locks.rs mirrors struct place.
 */
#include "kernel.h"

LICENSE;

#define PLACES 4096
#define PROBES 16

struct place {
	u64 caller;  /* the return address */
	u64 runqueue;  /* acquisitions of a runqueue's lock */
	u64 tasks;  /* acquisitions of the lock of sched_ext's list of all tasks */
	u64 other;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct raw_spinlock___any {
	u32 any;
};

struct rq {
	struct raw_spinlock___any __lock;
};

struct pt_regs {
#ifdef __TARGET_ARCH_x86
	unsigned long di;
	unsigned long sp;
#else
	u64 regs[31];
#endif
};
#pragma clang attribute pop

extern const struct rq runqueues __ksym;

CONFIG s32 nr_cpus = 1;
CONFIG u64 text_start;  /* the scheduler's text */
CONFIG u64 text_end;
CONFIG u64 tasks_lock;  /* scx_tasks_lock */

struct place places[PLACES];
u64 lost;

static __always_inline bool of_runqueue(u64 lock)
{
	s32 cpu;

	for (cpu = 0; cpu < nr_cpus && cpu < MAX_CPUS; cpu++) {
		const struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);

		if (rq && lock == (u64)__builtin_preserve_access_index(&rq->__lock))
			return true;
	}
	return false;
}

static __always_inline struct place *place_of(u64 caller)
{
	u32 hash = caller * 0x9e3779b1u >> 4;
	u32 i;

	for (i = 0; i < PROBES; i++) {
		struct place *place = &places[(hash + i) & (PLACES - 1)];

		if (place->caller == caller)
			return place;
		if (!place->caller) {
			u64 before = __sync_val_compare_and_swap(&place->caller, 0, caller);

			if (!before || before == caller)
				return place;
		}
	}
	return NULL;
}

/* At the entry of a function: its first argument, and its return address. */
static __always_inline void arguments(struct pt_regs *ctx, u64 *lock, u64 *caller)
{
#ifdef __TARGET_ARCH_x86
	*lock = ctx->di;
	bpf_probe_read_kernel(caller, sizeof(*caller), (void *)ctx->sp);
#else
	*lock = ctx->regs[0];
	*caller = ctx->regs[30];
#endif
}

SEC("kprobe.multi")
int on_lock(struct pt_regs *ctx)
{
	u64 lock = 0, caller = 0;
	struct place *place;

	arguments(ctx, &lock, &caller);
	if (caller < text_start || caller >= text_end)
		return 0;
	place = place_of(caller);
	if (!place)
		__sync_fetch_and_add(&lost, 1);
	else if (of_runqueue(lock))
		__sync_fetch_and_add(&place->runqueue, 1);
	else if (lock == tasks_lock)
		__sync_fetch_and_add(&place->tasks, 1);
	else
		__sync_fetch_and_add(&place->other, 1);
	return 0;
}
