/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The 15 locks of Linux's round-robin class that FLSCHED removed, each at its place in the code.
 * Each can be left out singly.
 *
 * FLSCHED's slide 10 counts 2 for statistics, 5 for balancing and 8 for bandwidth control. The
 * places are those of kernel/sched_rt.c of Linux 2.6.38, where the released FLSCHED has exactly 15
 * commented out. The five for balancing balance the allowance of run time, not tasks. The eight are
 * taken at hotplug only.
 *
 * Where the original nests locks, this takes them one after the other: a BPF program may hold only
 * one.
 */
#pragma once
#include "kernel.h"
#include "topology.h"

enum rt_lock {
	KEEP_ALL,
	/* statistics */
	UPDATE_CURR,
	START_BANDWIDTH,
	/* balancing */
	DO_BALANCE_BANDWIDTH,
	DO_BALANCE_OTHER,
	BALANCE_RETAKE,
	PERIOD_RQ,
	PERIOD_RUNTIME,
	/* bandwidth control, at hotplug */
	DISABLE_BANDWIDTH,
	DISABLE_OWN,
	DISABLE_OTHER,
	DISABLE_OWN_AGAIN,
	DISABLE_RQ,
	ENABLE_BANDWIDTH,
	ENABLE_OWN,
	ENABLE_RQ,
	OMIT_ALL,
};

CONFIG u64 knob_without; /* enum rt_lock: the one that is left out */

#define RT_PERIOD_NS  1000000000ULL /* sched_rt_period_us */
#define RT_RUNTIME_NS 950000000ULL /* sched_rt_runtime_us */

struct rt_bandwidth {
	struct bpf_spin_lock lock;
	u64 period_end_ns; /* 0: the period timer is not running */
};

/* A CPU's allowance of run time. */
struct rt_rq {
	struct bpf_spin_lock lock;
	u64 time_ns;  /* used in this period */
	u64 runtime_ns; /* allowed in this period; 0 is RT_RUNTIME_NS */
	s64 borrowed_ns; /* from other CPUs; negative: lent to them */
	u64 start_ns;  /* when the running task got the CPU, or was last charged */
};

/* Stands for the runqueue lock, which a policy cannot take. */
struct rt_rq_lock {
	struct bpf_spin_lock lock;
	u64 periods;
};

CPU_TABLE(struct rt_rq, rt_rqs)
CPU_TABLE(struct rt_rq_lock, rt_rq_locks)
CPU_TABLE(struct rt_bandwidth, rt_bandwidths) /* one, at 0 */

static __always_inline bool rt_keeps(enum rt_lock lock)
{
	return knob_without != lock && knob_without != OMIT_ALL;
}

/* Runs `section` under the lock of `object`, or without it if that lock is left out. */
#define RT_LOCKED(which, object, section)             \
	do {                                          \
		if (rt_keeps(which))                  \
			spin_lock(&(object)->lock);   \
		section;                              \
		if (rt_keeps(which))                  \
			spin_unlock(&(object)->lock); \
	} while (0)

static __always_inline u64 rt_allowed_ns(struct rt_rq *rt)
{
	return (rt->runtime_ns ?: RT_RUNTIME_NS) + rt->borrowed_ns;
}

/* start_rt_bandwidth: the period timer runs while there is something to count. */
static __always_inline void rt_start_bandwidth(u64 now)
{
	struct rt_bandwidth *bandwidth = rt_bandwidths_of(0);

	if (!bandwidth || bandwidth->period_end_ns)
		return;
	RT_LOCKED(START_BANDWIDTH, bandwidth, bandwidth->period_end_ns = now + RT_PERIOD_NS);
}

/* do_balance_runtime: a CPU that used up its allowance borrows from CPUs that did not. */
static __always_inline void rt_balance_runtime(struct rt_rq *rt, s32 cpu)
{
	struct rt_bandwidth *bandwidth = rt_bandwidths_of(0);
	s64 spare_ns = 0;
	u32 i;

	if (!bandwidth)
		return;
	RT_LOCKED(DO_BALANCE_BANDWIDTH, bandwidth, barrier_var(spare_ns));
	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++) {
		struct rt_rq *other = rt_rqs_of(i);

		if (!other || other == rt || other->time_ns >= rt_allowed_ns(other))
			continue;
		RT_LOCKED(DO_BALANCE_OTHER, other, {
			/* It may have used up its allowance since the check above. */
			s64 left_ns = rt_allowed_ns(other) - other->time_ns;
			s64 part = left_ns > 0 ? left_ns / nr_cpus : 0;

			other->borrowed_ns -= part;
			spare_ns += part;
		});
	}
	RT_LOCKED(BALANCE_RETAKE, rt, rt->borrowed_ns += spare_ns);
}

/*
 * update_curr_rt: the run time is added up under the lock of the CPU's allowance. Returns what was
 * added.
 */
static __always_inline u64 rt_update_curr(s32 cpu, u64 now)
{
	struct rt_rq *rt = rt_rqs_of(cpu);
	bool exceeded = false;
	u64 ran_ns = 0;

	if (!rt)
		return 0;
	RT_LOCKED(UPDATE_CURR, rt, {
		ran_ns = elapsed_ns(rt->start_ns, now);
		rt->time_ns += ran_ns;
		rt->start_ns = now;
		exceeded = rt->time_ns > rt_allowed_ns(rt);
	});
	if (exceeded)
		rt_balance_runtime(rt, cpu);
	return ran_ns;
}

/* do_sched_rt_period_timer: once a period, one CPU goes over all of them. */
static __always_inline void rt_period(u64 now)
{
	struct rt_bandwidth *bandwidth = rt_bandwidths_of(0);
	u64 end = bandwidth ? bandwidth->period_end_ns : 0;
	u32 i;

	if (!end || now < end ||
	    !__sync_bool_compare_and_swap(&bandwidth->period_end_ns, end, now + RT_PERIOD_NS))
		return;
	for (i = 0; i < nr_cpus && i < MAX_CPUS; i++) {
		struct rt_rq_lock *rq = rt_rq_locks_of(i);
		struct rt_rq *rt = rt_rqs_of(i);

		if (!rq || !rt)
			continue;
		RT_LOCKED(PERIOD_RQ, rq, rq->periods++);
		RT_LOCKED(PERIOD_RUNTIME, rt, {
			u64 refill = rt_allowed_ns(rt);

			rt->time_ns -= rt->time_ns < refill ? rt->time_ns : refill;
			rt->borrowed_ns = 0;
		});
	}
}

/* disable_runtime: a CPU that goes offline gives back what it lent and borrowed. */
static __always_inline void rt_disable_runtime(s32 cpu)
{
	struct rt_bandwidth *bandwidth = rt_bandwidths_of(0);
	struct rt_rq_lock *rq = rt_rq_locks_of(cpu);
	struct rt_rq *rt = rt_rqs_of(cpu);
	s64 owed_ns = 0;
	u64 part_ns;
	u32 i;

	if (!bandwidth || !rq || !rt)
		return;
	RT_LOCKED(DISABLE_RQ, rq, rq->periods = 0);
	RT_LOCKED(DISABLE_BANDWIDTH, bandwidth, barrier_var(owed_ns));
	RT_LOCKED(DISABLE_OWN, rt, owed_ns = rt->borrowed_ns);
	part_ns = (u64)(owed_ns < 0 ? -owed_ns : owed_ns) / nr_cpus;
	for (i = 0; part_ns && i < nr_cpus && i < MAX_CPUS; i++) {
		struct rt_rq *other = rt_rqs_of(i);

		if (!other || other == rt)
			continue;
		RT_LOCKED(DISABLE_OTHER, other,
			  other->borrowed_ns += owed_ns < 0 ? -(s64)part_ns : (s64)part_ns);
	}
	RT_LOCKED(DISABLE_OWN_AGAIN, rt, rt->borrowed_ns = 0);
}

/* enable_runtime: a CPU that comes online starts with a full allowance. */
static __always_inline void rt_enable_runtime(s32 cpu)
{
	struct rt_bandwidth *bandwidth = rt_bandwidths_of(0);
	struct rt_rq_lock *rq = rt_rq_locks_of(cpu);
	struct rt_rq *rt = rt_rqs_of(cpu);
	u64 runtime_ns = RT_RUNTIME_NS;

	if (!bandwidth || !rq || !rt)
		return;
	RT_LOCKED(ENABLE_RQ, rq, rq->periods = 0);
	RT_LOCKED(ENABLE_BANDWIDTH, bandwidth, barrier_var(runtime_ns));
	RT_LOCKED(ENABLE_OWN, rt, {
		rt->runtime_ns = runtime_ns;
		rt->time_ns = 0;
	});
}
