/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Limits: tasks of cgroups that have had their cpu.max wait, in policies by virtual time.
 *
 * Once a limit has no CPU time left [limit.h], its tasks wait in a queue that no CPU takes from. A
 * timer begins the limit's next period and returns the tasks to their CPUs' queues. Only a tick
 * ends a turn, so a task that starts reserves the time until the next one, and gives it back when
 * it stops. If a task runs for too long all the same, the next period has so much less.
 */
#pragma once
#include "cpu_queue.h"
#include "cpus.h"
#include "limit.h"
#include "preempt.h"
#include "vtime.h"

#define LIMIT_QUEUES	256 /* limits share them, if there are more */
#define LIMIT_QUEUES_AT 4096 /* number of the first one: above those of cpu_queue.h */
#define LIMIT_TIMER_NS	(1000 * 1000ULL) /* a timer runs for as long at least */
#define LIMIT_GONE_NS	(100 * 1000 * 1000ULL) /* and that of a limit that is gone for so long */
#define LIMIT_STAYS_NS	(1000 * 1000 * 1000ULL) /* a limit's timer goes on for so long */

/*
 * The kernel unloads a policy that lets a task wait for 30 s, whatever it waits for. After this
 * time a task is started, and stopped again at once.
 */
#define LIMIT_STARTS_NS (10 * 1000 * 1000 * 1000ULL)

static __always_inline u64 limit_queue(u32 at)
{
	return LIMIT_QUEUES_AT + at % LIMIT_QUEUES;
}

/* Whether p goes on beyond any limit: the kernel waits for it, or it ends. */
static __always_inline bool limit_excuses(struct task_struct *p)
{
	return p->flags & PF_EXITING || vtime_is_waited_for(p) || migration_is_disabled(p) ||
	       !cpu_is_active(scx_bpf_task_cpu(p));
}

/*
 * The limit whose next period p has to wait for; 0: none. If p runs it has reserved `own_ns`.
 */
static __always_inline u32 limit_over(struct task_struct *p, u64 own_ns)
{
	struct task_slot *slot = task_table.limited ? task_slot(p) : NULL;
	u32 over = slot && slot->limit ? limit_reached(slot->limit, own_ns) : 0;

	return over && !limit_excuses(p) ? over : 0;
}

/* What the task that runs on a CPU has reserved. Written with that CPU's runqueue locked. */
static struct reserved limit_reserved[MAX_CPUS];

/* In tick and dispatch: whether the task p that runs on a CPU has to wait for its limit. */
static __always_inline bool limit_ends(struct task_struct *p, s32 cpu)
{
	u32 at = cpu_index(cpu);

	return task_table.limited && at < MAX_CPUS && limit_over(p, limit_reserved[at].ns);
}

static void limit_expires(u32 at);

TIMERS(limit_timers, LIMITS_MAX, limit_expires)

#define LIMIT_SOON 1 /* in timer_ns: the timer does not wait for the end of a period */

/* Starts a limit's timer for the end of its period, if it does not expire before that. */
static __always_inline void limit_await(u32 at, struct limit *limit, u64 now)
{
	u64 ends = limit->ends_ns, in_ns = elapsed_ns(now, ends);

	if (!limit->quota_ns)
		in_ns = LIMIT_GONE_NS;
	else if (limit->timer_ns == LIMIT_SOON || (limit->timer_ns == ends && in_ns))
		return;
	limit->timer_ns = ends;
	limit_timers_start(at, in_ns > LIMIT_TIMER_NS ? in_ns : LIMIT_TIMER_NS);
}

/*
 * A task has left some of what it had reserved: others that wait for its limits may run after all.
 * Not inlined: the verifier walks it once.
 */
__noinline int limit_resume(u32 at)
{
	u32 i;

	bpf_for(i, 0, LIMITS_DEEP) {
		struct limit *limit = limit_at(at);

		if (!limit)
			break;
		if (limit->left_ns > 0 && limit->timer_ns != LIMIT_SOON &&
		    scx_bpf_dsq_nr_queued(limit_queue(at))) {
			limit->timer_ns = LIMIT_SOON;
			limit_timers_start(at, LIMIT_TIMER_NS);
		}
		at = limit->around;
	}
	return 0;
}

/* How long a task runs at least: until a tick can end its turn, or until it sleeps before that. */
static __always_inline u32 limit_turn(const struct task_slot_of *of)
{
	return of->turn_ns && of->turn_ns < tick_ns ? of->turn_ns : tick_ns;
}

static __always_inline void limit_reserve(struct reserved *reserved, u32 at, u32 ns)
{
	*reserved = (struct reserved){ at, ns };
	limit_take(at, ns, true);
}

static __always_inline void limit_return(struct reserved *reserved)
{
	u32 ns = reserved->ns;

	reserved->ns = 0;
	if (ns)
		limit_take(reserved->of, -(s64)ns, true);
}

static u64 limits_held_ns; /* when a task last had to wait for any limit */

/*
 * The vtime of a task that waits for a limit: a slice ahead of the first of those that wait
 * already, at most. Where they have little time, none could make up for more. Not inlined: the
 * verifier walks it once.
 */
__noinline u64 limit_vtime(u32 at, u64 vtime)
{
	s64 most = vtime_head(limit_queue(at));

	if (most == S64_MAX)
		return vtime;
	most += knob_slice_ns;
	return vtime_ahead(vtime) > most ? vtime_now + most : vtime;
}

/* Notes that p waits for a limit from now on. Returns its vtime there. */
static __always_inline u64 limit_wait(struct task_struct *p, struct task_slot_of *of, u32 at,
				      struct limit *limit)
{
	u64 now = scx_bpf_now(), vtime = vtime_leave(p, of);

	limit_return(&of->reserved);
	limit->held_ns = limits_held_ns = now;
	/* If it has not run since it last waited, it keeps its place. */
	if (!of->held_ns) {
		of->held_ns = now;
		of->held_vtime = limit_vtime(at, vtime);
	}
	limit_await(at, limit, now);
	return of->held_vtime;
}

/* In enqueue: whether p waits for a limit's next period. */
static __always_inline bool limit_holds(struct task_struct *p)
{
	u32 at = limit_over(p, 0);
	struct limit *limit = limit_at(at);
	struct task_slot_of *of = limit ? task_slots_of(p) : NULL;

	if (!of)
		return false;
	scx_bpf_dsq_insert_vtime(p, limit_queue(at), knob_slice_ns, limit_wait(p, of, at, limit),
				 0);
	return true;
}

/* Whether p is started although it has to wait: else the kernel would give the policy up. */
static __always_inline bool limit_starts(const struct task_slot_of *of, u64 now)
{
	return of->held_ns && elapsed_ns(of->held_ns, now) > LIMIT_STARTS_NS;
}

/* Not inlined: the verifier walks it once. */
__noinline int limit_clear_queue(u64 queue)
{
	struct task_struct *p;
	u64 now = scx_bpf_now();

	if (elapsed_ns(limits_held_ns, now) > LIMIT_STAYS_NS)
		return 0;
	dsq_for_each(p, queue)
	{
		u32 at = limit_over(p, 0);
		struct limit *limit = limit_at(at);
		struct task_slot_of *of = limit ? task_slots_of(p) : NULL;

		if (!of || of->reserved.ns || limit_starts(of, now))
			return 0;
		dsq_move_vtime(p, queue, limit_queue(at), limit_wait(p, of, at, limit));
	}
	return 0;
}

/*
 * In dispatch, before a task is taken from a queue: the first ones wait elsewhere if their limits
 * are reached.
 */
static __always_inline void limit_clear(u64 queue)
{
	if (task_table.limited)
		limit_clear_queue(queue);
}

/*
 * Takes the first task of a queue that this CPU may run, and that need not wait for a limit.
 * Whether there was one.
 */
static __always_inline bool limit_take_first(u64 queue)
{
	limit_clear(queue);
	return vtime_take(queue, knob_slice_ns);
}

/* p leaves the policy, and will not use what it has reserved. */
static __always_inline void limit_leave(struct task_struct *p)
{
	struct task_slot_of *of = task_table.limited ? task_slots_of(p) : NULL;

	if (of)
		limit_return(&of->reserved);
}

/* In stopping: gives back what the task that ran on a CPU had reserved. */
static __always_inline void limit_stop(s32 cpu)
{
	u32 at = cpu_index(cpu);

	if (!task_table.limited || at >= MAX_CPUS || !limit_reserved[at].ns)
		return;
	limit_return(&limit_reserved[at]);
	limit_resume(limit_reserved[at].of);
}

/*
 * In running: reserves the time of a turn. Ends the turn of a task that was queued before its limit
 * had no time left.
 */
static __always_inline void limit_start(struct task_struct *p, struct task_slot_of *of, s32 cpu)
{
	struct task_slot *slot = task_table.limited ? slot_in(of) : NULL;
	u32 at = cpu_index(cpu);

	if (!slot || at >= MAX_CPUS)
		return;
	of->held_ns = 0;
	limit_return(&limit_reserved[at]);
	if (of->reserved.ns) {
		limit_reserved[at] = of->reserved;
		of->reserved.ns = 0;
	} else if (limit_over(p, 0)) {
		scx_bpf_task_set_slice(p, 0);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (slot->limit) {
		limit_reserve(&limit_reserved[at], slot->limit, limit_turn(of));
	}
}

/* An idle CPU that p may use, now claimed; -1: none. */
static __always_inline s32 limit_claim(struct task_struct *p)
{
	s32 own = scx_bpf_task_cpu(p);

	if (scx_bpf_test_and_clear_cpu_idle(own))
		return own;
	return p->nr_cpus_allowed > 1 ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : -1;
}

/*
 * Returns tasks that wait for a limit, the one that has had least first, while it has time for
 * them. They go to idle CPUs, else to those with the shortest queues: their last ones may be few.
 * Those of a CPU that goes offline go to the kernel, which waits until it has pushed them away.
 */
static __always_inline void limit_release(u64 queue, u64 now)
{
	struct task_struct *p;

	dsq_for_each(p, queue)
	{
		struct task_slot_of *of = task_slots_of(p);
		struct task_slot *slot = slot_in(of);
		u32 over = limit_over(p, 0);
		struct limit *limit = limit_at(over);
		s32 idle, cpu;
		u64 vtime;

		if (!of)
			continue;
		if (!cpu_is_active(scx_bpf_task_cpu(p))) {
			dsq_push_off(p);
			continue;
		}
		if (limit && !limit_starts(of, now)) {
			limit_await(over, limit, now);
			if (limit_queue(over) != queue)
				dsq_move_vtime(p, queue, limit_queue(over), p->scx.dsq_vtime);
			continue;
		}
		idle = limit_claim(p);
		cpu = idle < 0 ? cpu_queue_shortest(p) : idle;
		vtime = vtime_return(p, of, cpu, knob_slice_ns);
		if (!limit && slot && slot->limit)
			limit_reserve(&of->reserved, slot->limit, limit_turn(of));
		note_waiting(cpu);
		dsq_move_vtime(p, queue, cpu, vtime_at(vtime_clock(of), vtime));
		if (idle < 0)
			preempt_for(cpu, vtime, goes_anywhere(p));
		else
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	}
}

/*
 * A limit's timer. It goes on while tasks wait, and for a while after: one may just be on its way
 * into the queue.
 */
static void limit_expires(u32 at)
{
	u64 now = scx_bpf_now();
	struct limit *limit = limit_at(at);

	if (!limit)
		return;
	limit->timer_ns = 0;
	limit_renew(limit, now);
	limit_release(limit_queue(at), now);
	if (scx_bpf_dsq_nr_queued(limit_queue(at)) ||
	    elapsed_ns(limit->held_ns, now) < LIMIT_STAYS_NS)
		limit_await(at, limit, now);
}

/* In init. */
static __always_inline s32 limits_create(void)
{
	s32 error;
	u32 i;

	bpf_for(i, 0, LIMIT_QUEUES) {
		error = scx_bpf_create_dsq(LIMIT_QUEUES_AT + i, -1);
		if (error)
			return error;
	}
	return limit_timers_create();
}
