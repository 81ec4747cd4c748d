/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Order: the O(1) scheduler of Linux 2.6.21 (kernel/sched.c), as functions of a task's own state.
 *
 * A task's static priority comes from its nice value. Its dynamic priority comes from that and a
 * bonus of -5 to +5 for having slept. Its time slice comes from the static priority. A task that
 * has used up its slice waits for the next epoch, in which every task gets a new one. A task that
 * sleeps much ("interactive") continues in this epoch, unless the tasks that wait for the next
 * would starve. Names in brackets are those of the source.
 *
 * Priorities are 0 (best) to 39; 20 is nice 0 [USER_PRIO]. Durations are in ns, and scale with
 * `slice`, the time slice at nice 0 [DEF_TIMESLICE, 100 ms].
 */
#pragma once
#include "kernel.h"

#define O1_PRIOS	      40 /* MAX_USER_PRIO */
#define O1_NICE_0	      20
#define O1_IDLE		      O1_PRIOS /* nice value of SCHED_IDLE: 2.6.21 had none */
#define O1_PRIO_IDLE	      200 /* its dynamic priority: any task preempts it */
#define O1_MAX_BONUS	      10 /* MAX_USER_PRIO * PRIO_BONUS_RATIO / 100 */
#define O1_INTERACTIVE_DELTA  2
#define O1_ON_RUNQUEUE_WEIGHT 30 /* percent */
#define O1_CHILD_PENALTY      95 /* percent */

/* How a task last became runnable [enum sleep_type]. */
enum o1_sleep {
	O1_SLEEP_NORMAL,
	O1_SLEEP_NONINTERACTIVE,
	O1_SLEEP_INTERACTIVE,
};

struct o1_task {
	u64 sleep_avg_ns; /* 0 to 10 slices */
	s64 slice_ns;  /* the rest of its slice; below 0 by less than a tick */
	u8 nice;	 /* static priority */
	u8 prio;	 /* dynamic priority */
	u8 sleep;  /* enum o1_sleep */
	u8 phase;  /* the caller's own; here because there is room */
	u32 cpu;	 /* likewise */
};

/* [static_prio_timeslice] 8 slices at nice -20, one at nice 0, 1/20 at nice 19. */
static __always_inline u64 o1_slice(u32 nice, u64 slice)
{
	u64 scaled = (nice < O1_NICE_0 ? 4 * slice : slice) * (O1_PRIOS - nice) / (O1_PRIOS / 2);

	return scaled > slice / 20 ? scaled : slice / 20;
}

/* [CURRENT_BONUS] 0 to 10. */
static __always_inline u32 o1_bonus(u64 sleep_avg, u64 slice)
{
	u64 bonus = sleep_avg / slice;

	return bonus < O1_MAX_BONUS ? bonus : O1_MAX_BONUS;
}

/* [__normal_prio] */
static __always_inline u32 o1_prio(u32 nice, u64 sleep_avg, u64 slice)
{
	s32 prio = (s32)nice + O1_MAX_BONUS / 2 - (s32)o1_bonus(sleep_avg, slice);

	if (prio < 0)
		return 0;
	return prio < O1_PRIOS ? prio : O1_PRIOS - 1;
}

/* [DELTA] How far above its static priority a task has to be to count as interactive: -3 to 6. */
static __always_inline s32 o1_delta(u32 nice)
{
	return (s32)(nice * O1_MAX_BONUS / O1_PRIOS) - O1_MAX_BONUS / 2 + O1_INTERACTIVE_DELTA;
}

/* [TASK_INTERACTIVE] */
static __always_inline bool o1_interactive(u32 prio, u32 nice)
{
	return (s32)prio <= (s32)nice - o1_delta(nice);
}

/* [INTERACTIVE_SLEEP] A single sleep raises a task no further than just interactive. */
static __always_inline u64 o1_ceiling(u32 nice, u64 slice)
{
	return slice * (O1_MAX_BONUS / 2 + o1_delta(nice) + 1) - slice / 100;
}

/* [recalc_task_prio] Credits a sleep, or a wait that counts as sleep. */
static __always_inline void o1_credit_sleep(struct o1_task *t, u64 slept, bool user, u64 slice)
{
	u64 ceiling = o1_ceiling(t->nice, slice);

	if (user && slept > ceiling && t->sleep_avg_ns < ceiling) {
		t->sleep_avg_ns = ceiling;
		t->sleep = O1_SLEEP_NONINTERACTIVE;
	} else {
		t->sleep_avg_ns += slept;
	}
	if (t->sleep_avg_ns > O1_MAX_BONUS * slice)
		t->sleep_avg_ns = O1_MAX_BONUS * slice;
	t->prio = o1_prio(t->nice, t->sleep_avg_ns, slice);
}

/* [activate_task] The task wakes. */
static __always_inline void o1_wake(struct o1_task *t, u64 slept, bool user, u64 slice)
{
	o1_credit_sleep(t, slept, user, slice);
	if (t->sleep == O1_SLEEP_NORMAL)
		t->sleep = O1_SLEEP_INTERACTIVE;
}

/* [schedule] The task gets the CPU: after a sleep, a part of its wait counts as sleep. */
static __always_inline void o1_start(struct o1_task *t, u64 waited, bool user, u64 slice)
{
	if (t->sleep == O1_SLEEP_INTERACTIVE)
		o1_credit_sleep(t, waited * O1_ON_RUNQUEUE_WEIGHT / 100, user, slice);
	t->sleep = O1_SLEEP_NORMAL;
}

/*
 * [schedule, scheduler_tick] Charges a run to its slice and its bonus; a high bonus shrinks slower.
 */
static __always_inline void o1_charge(struct o1_task *t, u64 ran, u64 slice)
{
	u32 bonus = o1_bonus(t->sleep_avg_ns, slice);
	u64 charged = ran < O1_MAX_BONUS * slice ? ran : O1_MAX_BONUS * slice;

	charged /= bonus ? bonus : 1;
	t->sleep_avg_ns -= t->sleep_avg_ns < charged ? t->sleep_avg_ns : charged;
	t->slice_ns -= ran;
}

/* [task_running_tick] The slice is over: the task gets a new one, and a new priority. */
static __always_inline void o1_refill(struct o1_task *t, u64 slice)
{
	t->slice_ns = o1_slice(t->nice, slice);
	t->prio = o1_prio(t->nice, t->sleep_avg_ns, slice);
}

/*
 * [TIMESLICE_GRANULARITY] How long a task may run before others of its priority get their turn: the
 * rest of its slice, or a part of that if it is interactive.
 */
static __always_inline u64 o1_turn(const struct o1_task *t, u32 cpus, u64 slice)
{
	u32 bonus = o1_bonus(t->sleep_avg_ns, slice);
	u64 part = slice / 10 * cpus << (bonus < O1_MAX_BONUS ? O1_MAX_BONUS - bonus - 1 : 0);
	s64 left = t->slice_ns > 0 ? t->slice_ns : 1;
	s64 used = (s64)o1_slice(t->nice, slice) - left;
	s64 turn;

	if (!o1_interactive(t->prio, t->nice))
		return left;
	turn = part - (used > 0 ? (u64)used % part : 0);
	return left - turn >= (s64)part ? turn : left;
}

/*
 * How long an epoch is open. The source has no such limit: there an epoch lasts until all tasks had
 * their slices. But the kernel's watchdog unloads a scheduler that leaves a task waiting for 30 s.
 * A task that arrives or ends a turn after this time waits for the next epoch. Turns end at the
 * next tick until the remaining tasks have had theirs.
 */
#define O1_EPOCH_MAX_NS 5000000000ULL

static __always_inline bool o1_epoch_closed(u64 began, u64 now)
{
	return elapsed_ns(began, now) > O1_EPOCH_MAX_NS;
}

/* The state of the tasks that wait for the next epoch. */
struct o1_expired {
	u64 since_ns; /* when the first slice of the epoch ended; 0: none has */
	u8 best_nice; /* the best static priority among them; O1_NOBODY: none */
};

#define O1_NOBODY 255

/* [EXPIRED_STARVING] Whether a task of this static priority may not continue in this epoch. */
static __always_inline bool o1_starving(const struct o1_expired *expired, u32 nice, u64 now,
					u32 runnable, u64 slice)
{
	if (!expired->since_ns)
		return false;
	return nice > expired->best_nice ||
	       elapsed_ns(expired->since_ns, now) > O1_MAX_BONUS * slice * runnable;
}

/*
 * [task_running_tick] A slice ended: whether the task continues in this epoch. Tasks that sleep
 * much do, unless others wait too long for the next one. The clock starts with the first slice that
 * ends, of any task.
 */
static __always_inline bool o1_let_go_on(struct o1_expired *expired, const struct o1_task *t,
					 u64 now, u32 runnable, u64 slice)
{
	if (!expired->since_ns) {
		expired->since_ns = now;
		expired->best_nice = O1_NOBODY;
	}
	if (o1_interactive(t->prio, t->nice) &&
	    !o1_starving(expired, t->nice, now, runnable, slice))
		return true;
	if (t->nice < expired->best_nice)
		expired->best_nice = t->nice;
	return false;
}

/* [wake_up_new_task] A child begins with a little less bonus than its parent's. */
static __always_inline u64 o1_child_sleep_avg(u64 parent_sleep_avg, u64 slice)
{
	return o1_bonus(parent_sleep_avg, slice) * O1_CHILD_PENALTY / 100 * slice;
}
