/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Virtual time: CPU time by weight. The task with the lowest vtime runs next. vtime wraps, so only
 * differences mean something.
 */
#pragma once
#include "kernel.h"
#include "cpus.h"
#include "sched_idle.h"
#include "task_table.h"
#include "waiting_cpus.h"

#define VTIME_BEGINS (1ULL << 40) /* so that no task has 0 */
#define VTIME_LEAD   (1ULL << 36) /* how far before now urgent tasks queue */
#define VTIME_LAG    (1ULL << 36) /* a SCHED_IDLE task is queued so far behind all others */

/* The highest vtime among the tasks that have started: new tasks start near it. */
static u64 vtime_now = VTIME_BEGINS;

/*
 * While new tasks keep arriving, each starting near vtime_now, no older task is started, and
 * vtime_now stands still. Then it advances by itself, by this part of real time. It does not while
 * the started tasks are far behind it: a woken task, queued near vtime_now, would else run after
 * them.
 */
#define VTIME_CREEPS 16
#define VTIME_STOOD_NS                                                            \
	(1000 * 1000 * 1000ULL) /* after a longer standstill no task was arriving \
				 */

static u64 vtime_moved_ns; /* when vtime_now last advanced */

/*
 * How fast a task's vtime advances depends on its weight: 8668 at nice -20, 1 at nice 19. One turn
 * at nice 19 is so long in the vtime of nice -20 that overdue.h bounds the wait by real time.
 */
/* [CGROUP_WEIGHT_MAX], [CGROUP_WEIGHT_MIN] */
#define WEIGHT_MAX 10000
#define WEIGHT_MIN 1

static __always_inline u32 vtime_weight(u32 weight)
{
	if (weight > WEIGHT_MAX)
		weight = WEIGHT_MAX;
	return weight < WEIGHT_MIN ? WEIGHT_MIN : weight;
}

static __always_inline u64 vtime_of(u64 ran_ns, u32 weight)
{
	return ran_ns * 100 / vtime_weight(weight);
}

/*
 * The weight that a task's CPU time counts by: its own, or the one that the control plane has set.
 * SCHED_IDLE tasks all weigh the same, and lag behind all others.
 */
static __always_inline u32 vtime_weight_of(const struct task_struct *p,
					   const struct task_slot *slot)
{
	if (slot && slot->pace)
		return slot->pace;
	return task_is_idle(p) ? 100 : p->scx.weight;
}

/* How much is added to a task's vtime to compare it with that of others. */
static __always_inline u64 vtime_lag(const struct task_struct *p)
{
	return task_is_idle(p) ? VTIME_LAG : 0;
}

/* The later of two vtimes. */
static __always_inline u64 vtime_after(u64 vtime, u64 other)
{
	return (s64)(vtime - other) < 0 ? other : vtime;
}

/* The earlier of two vtimes. */
static __always_inline u64 vtime_before(u64 vtime, u64 other)
{
	return (s64)(vtime - other) < 0 ? vtime : other;
}

/* A vtime's distance from vtime_now, which can be compared. */
static __always_inline s64 vtime_ahead(u64 vtime)
{
	return vtime - vtime_now;
}

/*
 * Tasks pinned to a crowded CPU advance slower than all others. If each were moved near vtime_now
 * as it starts, none would be ahead of another, whatever their weights. So their queue falls behind
 * as a whole. This holds by how much: the vtime of a task on a queue's clock is smaller by that
 * amount.
 */
#ifndef VTIME_CLOCKS
#define VTIME_CLOCKS MAX_CPUS /* queues of higher numbers use the common clock */
#endif

static u64 vtime_behind[VTIME_CLOCKS];

static __always_inline u64 *vtime_behind_of(u64 queue)
{
	u32 at = queue;

	/* The compiler drops the check of a bound that it knows, so it must not know this one. */
	barrier_var(at);
	if (at >= VTIME_CLOCKS)
		return NULL;
	/* The verifier wants the check before the address is computed. */
	barrier_var(at);
	return &vtime_behind[at];
}

/*
 * By how much a task is queued before its own vtime. Resets it: the task is charged for it again.
 */
static __always_inline u64 vtime_take_lead(struct task_slot_of *of)
{
	u64 lead_ns = of ? of->lead_ns : 0;

	if (lead_ns)
		of->lead_ns = 0;
	return lead_ns;
}

/* The offset of the task's queue clock; NULL: the task uses the common clock. */
static __always_inline u64 *vtime_clock(const struct task_slot_of *of)
{
	return of && of->clock ? vtime_behind_of(of->clock - 1) : NULL;
}

/* Converts a vtime from a queue's clock to the common clock, and back. */
static __always_inline u64 vtime_by(const u64 *behind, u64 vtime)
{
	return behind ? vtime + *behind : vtime;
}

static __always_inline u64 vtime_at(const u64 *behind, u64 vtime)
{
	return behind ? vtime - *behind : vtime;
}

/* A running task's vtime by the common clock, for comparison with that of other tasks. */
static __always_inline u64 vtime_common(struct task_struct *p)
{
	return vtime_by(vtime_clock(task_slots_of(p)), p->scx.dsq_vtime) + vtime_lag(p);
}

/* The vtime of a queue's first task by the queue's clock, read without a lock; 0: it is empty. */
static __always_inline u64 vtime_first(u64 queue)
{
	struct task_struct *p;

	if (dsq_can_peek())
		return dsq_peek_vtime(queue);
	if (scx_bpf_dsq_nr_queued(queue))
		dsq_for_each(p, queue) return p->scx.dsq_vtime;
	return 0;
}

/* How many slices a woken task comes before the others at most. */
#ifndef VTIME_LAGS
#define VTIME_LAGS 1
#endif

#define WEIGHT_USUAL 13 /* the weight of nice 9: most tasks weigh at least as much */

/*
 * The vtime that a task is queued by. A task that slept has no claim on the CPU time of those that
 * did not: it comes at most a slice before `present`, where they are. A task that ran while no
 * other waited owes at most a few slices of the lowest usual weight, or of its own weight if lower.
 * Else it would wait until all others together had had as much.
 */
static __always_inline u64 vtime_queued(u64 vtime, u64 present, u32 weight, u64 enq_flags,
					u64 slice_ns)
{
	u64 most = present + vtime_of(4 * slice_ns, weight < WEIGHT_USUAL ? weight : WEIGHT_USUAL);

	if ((s64)(vtime - most) > 0)
		vtime = most;
	return enq_flags & SCX_ENQ_WAKEUP ? vtime_after(vtime, present - VTIME_LAGS * slice_ns)
					  : vtime;
}

/* Whether a task whose turns are noted has run before: else it is new [vtime_note_turn]. */
static __always_inline bool has_run(const struct task_slot_of *of)
{
	return of && of->ran_ns;
}

/* In start: whether a task whose turns are noted has slept, and was not preempted or moved. */
static __always_inline bool has_slept(const struct task_slot_of *of)
{
	return !of->waits_ns || of->woke;
}

/*
 * The vtime that a task whose turns are noted comes with. A new one comes half a slice after the
 * task that has had least, as with Linux's own class: each one a little later than the last, so
 * that no stream of new tasks keeps that task waiting. `before` is where the tasks of a task's last
 * CPU are, by virtual time. Queues are not at the same vtime: a task that goes to another one stays
 * as far ahead or behind as it was.
 */
static __always_inline u64 vtime_come(const struct task_slot_of *of, u64 vtime, u64 present,
				      u64 before, u64 slice_ns)
{
	if (!has_run(of))
		return of->waits_ns ? vtime : present + slice_ns / 2;
	return vtime + present - before;
}

/* How many slices the first task of a queue may be behind before the queue's clock moves. */
#ifndef VTIME_BEHIND
#define VTIME_BEHIND 4
#endif

/*
 * Moves a queue's clock so that no task on it is behind by more than a few slices. All tasks on the
 * clock move alike.
 */
static __always_inline void vtime_set_behind(u64 *behind, u64 vtime, u64 slice_ns)
{
	u64 least = vtime_now - VTIME_BEHIND * slice_ns, was = *behind;

	if ((s64)(least - was - vtime) > 0)
		__sync_bool_compare_and_swap(behind, was, least - vtime);
}

/* Whether a task so far ahead has no lead. The vtime of an urgent one says nothing about others. */
static __always_inline bool vtime_is_own(s64 ahead)
{
	return ahead > -(s64)(VTIME_LEAD / 2);
}

/*
 * Brings a queue's clock up to date. Called before a task is inserted, so that a newcomer does not
 * inherit the queue's lag, and before the first task leaves.
 */
static __always_inline void vtime_settle(u64 queue, u64 slice_ns)
{
	u64 *behind = dsq_can_peek() ? vtime_behind_of(queue) : NULL;
	u64 first = behind ? dsq_peek_vtime(queue) : 0;

	if (first && vtime_is_own(vtime_ahead(vtime_by(behind, first))))
		vtime_set_behind(behind, first, slice_ns);
}

/*
 * If real-time tasks leave a twentieth of the CPU, a task in a queue with more than this many waits
 * for seconds.
 */
#define VTIME_CROWD 16

/* Whether the kernel itself may be waiting for p. */
static __always_inline bool vtime_is_waited_for(struct task_struct *p)
{
	return p->flags & PF_KTHREAD || holds_up_rcu(p);
}

/*
 * Whether the kernel itself waits for p. A task preempted in an RCU read-side critical section
 * holds up every grace period. So does RCU's own kthread until it has run, several times for each
 * grace period. The sched_ext watchdog is a work item, and needs a kthread too. If a thousand tasks
 * wait, or real-time tasks keep CPUs, one turn for each takes longer than the 21 s after which RCU
 * complains. It also takes so long that the kernel unloads the policy.
 */
static __always_inline bool vtime_is_urgent(struct task_struct *p, u64 queue, u64 enq_flags)
{
	if (holds_up_rcu(p))
		return true;
	return p->flags & PF_KTHREAD && enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ) &&
	       (nr_away || scx_bpf_dsq_nr_queued(queue) > VTIME_CROWD);
}

/*
 * An urgent task goes first in one of this many turns. A task that is urgent all the time, like a
 * kthread that encrypts, waits its turn in the rest.
 */
#define VTIME_LEADS_IN 8

/*
 * Queues an urgent task before all tasks that are not urgent, and behind earlier urgent ones. The
 * lead is recorded, and the task continues from its own vtime afterwards. `lent` is the lead that
 * it already had for the same turn.
 */
static __always_inline u64 vtime_lead(struct task_slot_of *of, u64 vtime, u64 lent, u64 slice_ns)
{
	u64 now = scx_bpf_now();

	if (!of || ((s64)lent <= 0 && elapsed_ns(of->led_ns, now) < VTIME_LEADS_IN * slice_ns))
		return vtime;
	of->led_ns = now;
	of->lead_ns = VTIME_LEAD + vtime_ahead(vtime);
	return vtime_now - VTIME_LEAD;
}

/* A task enters a queue: from now on it uses the queue's clock, which is brought up to date. */
static __always_inline void vtime_join(struct task_slot_of *of, u64 queue, u64 slice_ns)
{
	vtime_settle(queue, slice_ns);
	if (of)
		of->clock = queue < VTIME_CLOCKS ? queue + 1 : 0;
}

/*
 * In enqueue: inserts p into a queue. `present` is the vtime of those that have not slept, of the
 * whole machine or, if the policy notes turns, of the queue's CPU. Returns p's vtime there, by the
 * common clock.
 */
static __always_inline u64 vtime_insert_at(struct task_struct *p, struct task_slot_of *of,
					   u64 queue, u64 present, u64 before, u64 enq_flags,
					   u64 slice_ns)
{
	u64 lent = vtime_take_lead(of), vtime = vtime_by(vtime_clock(of), p->scx.dsq_vtime + lent);
	u32 weight = vtime_weight_of(p, slot_in(of));

	if (of && before)
		vtime = vtime_come(of, vtime, present, before, slice_ns);
	vtime = vtime_queued(vtime, present, weight, enq_flags, slice_ns);
	if (vtime_is_urgent(p, queue, enq_flags))
		vtime = vtime_lead(of, vtime, lent, slice_ns);
	if (of && !of->lead_ns && task_is_idle(p)) {
		of->lead_ns = -VTIME_LAG;
		vtime += VTIME_LAG;
		slice_ns = idle_slice(slice_ns);
	}

	vtime_join(of, queue, slice_ns);
	if (of) {
		of->woke = enq_flags & SCX_ENQ_WAKEUP;
		if (!of->waits_ns)
			of->waits_ns = scx_bpf_now();
	}
	note_waiting(queue);
	scx_bpf_dsq_insert_vtime(p, queue, slice_ns, vtime_at(vtime_clock(of), vtime), enq_flags);
	return vtime;
}

/* p leaves CPUs' queues. Returns its vtime by the common clock, which is its own from now on. */
static __always_inline u64 vtime_leave(struct task_struct *p, struct task_slot_of *of)
{
	u64 lent = vtime_take_lead(of), vtime = vtime_by(vtime_clock(of), p->scx.dsq_vtime + lent);

	of->clock = 0;
	return vtime;
}

/*
 * p comes back from there to a CPU's queue. Returns its vtime by the common clock: a slice before
 * all others at most, as that of a woken task.
 */
static __always_inline u64 vtime_return(struct task_struct *p, struct task_slot_of *of, u64 queue,
					u64 slice_ns)
{
	u64 vtime = vtime_after(p->scx.dsq_vtime, vtime_now - slice_ns);

	if (task_is_idle(p)) {
		of->lead_ns = -VTIME_LAG;
		vtime += VTIME_LAG;
	}
	vtime_join(of, queue, slice_ns);
	of->waits_ns = scx_bpf_now();
	return vtime;
}

/* A woken task goes to a CPU beside its queue. `present` as in vtime_insert_at. */
static __always_inline void vtime_pass(struct task_struct *p, struct task_slot_of *of, u64 present,
				       u64 now, u64 slice_ns)
{
	u64 vtime = vtime_after(vtime_leave(p, of), present - VTIME_LAGS * slice_ns);

	if (vtime != p->scx.dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, vtime);
	of->woke = true;
	of->waits_ns = now;
}

static __always_inline u64 vtime_insert(struct task_struct *p, u64 queue, u64 enq_flags,
					u64 slice_ns)
{
	return vtime_insert_at(p, task_slots_of(p), queue, vtime_now, 0, enq_flags, slice_ns);
}

/*
 * Whether a running task shares its CPU with the tasks waiting in a queue: the queue is its CPU's,
 * or a shared one, and not empty.
 */
static __always_inline bool vtime_shares(struct task_struct *p, u64 queue)
{
	return (queue >= MAX_CPUS || queue == (u32)scx_bpf_task_cpu(p)) &&
	       scx_bpf_dsq_nr_queued(queue) > 0;
}

/* How many slices a task catches up that waited for long, and one that slept until now. */
#define VTIME_WAITED 4
#ifndef VTIME_SLEPT
#define VTIME_SLEPT VTIME_WAITED
#endif

/*
 * p runs. It catches up for a few slices, no more: `vtime` becomes p's, unless it is farther behind
 * than `slices`. Returns the result by the common clock. If p has its CPU for itself, it uses the
 * common clock from now on. Else two such tasks would each set how far the queue's clock is behind,
 * and the difference would put one of them ahead.
 */
static __always_inline u64 vtime_catch_up(struct task_struct *p, struct task_slot_of *of, u64 vtime,
					  u64 slices, u64 slice_ns)
{
	u64 *behind = vtime_clock(of);

	vtime += vtime_take_lead(of);
	if (of)
		of->waits_ns = 0;
	if (behind && !vtime_shares(p, of->clock - 1)) {
		vtime += *behind;
		of->clock = 0;
		behind = NULL;
	}
	if (behind)
		vtime_set_behind(behind, vtime, slice_ns);
	else
		vtime = vtime_after(vtime, vtime_now - slices * slice_ns);
	if (vtime != p->scx.dsq_vtime)
		scx_bpf_task_set_dsq_vtime(p, vtime);
	return vtime_by(behind, vtime);
}

/* Takes the first task of a queue that this CPU may run. Returns whether there was one. */
static __always_inline bool vtime_take(u64 queue, u64 slice_ns)
{
	vtime_settle(queue, slice_ns);
	return scx_bpf_dsq_move_to_local(queue);
}

/* A task that has waited for longer than this goes first [overdue.h]. */
#define VTIME_WAITS_NS (5 * 1000 * 1000 * 1000ULL)

/* Whether a light task runs only because it has waited for so long: its vtime is far ahead. */
static __always_inline bool vtime_is_early(struct task_struct *p, const struct task_slot_of *of,
					   u64 now)
{
	return of && of->waits_ns && elapsed_ns(of->waits_ns, now) > VTIME_WAITS_NS &&
	       vtime_weight_of(p, task_table_at(of->slot)) < WEIGHT_USUAL;
}

/*
 * In running, or in dispatch if p goes on. CPUs do this concurrently and without a lock: an update
 * of vtime_now may be lost, and the next start makes up for it. Returns p's vtime by the common
 * clock, for comparison with that of other tasks.
 */
static __always_inline u64 vtime_start(struct task_struct *p, struct task_slot_of *of, bool goes_on,
				       u64 now, u64 slice_ns)
{
	bool early = vtime_is_early(p, of, now);
	u64 slices = goes_on || !of || of->waits_ns ? VTIME_WAITED : VTIME_SLEPT;
	u64 started = vtime_catch_up(p, of, p->scx.dsq_vtime, slices, slice_ns);
	u64 stood_ns = elapsed_ns(vtime_moved_ns, now), vtime = started + vtime_lag(p);

	if (early)
		return vtime;
	if (vtime_ahead(started) > 0)
		vtime_now = started;
	else if (stood_ns < slice_ns || vtime_ahead(started) <= -2 * (s64)slice_ns)
		return vtime;
	else if (stood_ns < VTIME_STOOD_NS)
		vtime_now += stood_ns / VTIME_CREEPS;
	vtime_moved_ns = now;
	return vtime;
}

/*
 * In dispatch: p gets another turn. If others wait, all of them have had more, so this counts as a
 * start.
 */
static __always_inline void vtime_go_on(struct task_struct *p, bool others_wait, u64 slice_ns)
{
	scx_bpf_task_set_slice(p, slice_ns);
	if (others_wait)
		vtime_start(p, task_slots_of(p), true, scx_bpf_now(), slice_ns);
}

/*
 * The running task p has advanced by `by`. A task that never stops never starts, and would stay
 * behind for ever. Returns its vtime by the common clock, for comparison with that of other tasks.
 */
static __always_inline u64 vtime_run(struct task_struct *p, struct task_slot_of *of, u64 by,
				     u64 slice_ns)
{
	return vtime_catch_up(p, of, p->scx.dsq_vtime + by, VTIME_WAITED, slice_ns) + vtime_lag(p);
}

/* In enable: discards the state from before p left the class. */
static __always_inline void vtime_enter(struct task_struct *p)
{
	struct task_slot_of *of = task_slots_of(p);

	if (of) {
		of->clock = 0;
		of->waits_ns = 0;
		of->lead_ns = 0;
	}
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/* The distance of a queue's first task from vtime_now; S64_MAX: the queue is empty. */
static __always_inline s64 vtime_head(u64 queue)
{
	u64 first = vtime_first(queue);

	return first ? vtime_ahead(vtime_by(vtime_behind_of(queue), first)) : S64_MAX;
}

/*
 * In start, before vtime_start: notes that a task has slept, if it was not preempted or moved. A
 * new task counts as one with long turns until it has.
 */
static __always_inline void vtime_note_sleep(struct task_slot_of *of, u64 long_ns)
{
	if (!has_run(of))
		of->turn_ns = long_ns;
	else if (!has_slept(of))
		return;
	else if (of->burst_ns < of->turn_ns)
		of->turn_ns -= (of->turn_ns - of->burst_ns) / 2;
	of->burst_ns = 0;
}

/*
 * In charge: notes that a task has run on a CPU for another `ran_ns`. A long turn counts at once,
 * and is forgotten over several short ones [vtime_note_sleep].
 */
static __always_inline void vtime_note_turn(struct task_slot_of *of, s32 cpu, u64 ran_ns, u64 now)
{
	of->burst_ns += ran_ns;
	if (of->burst_ns > of->turn_ns)
		of->turn_ns = of->burst_ns;
	of->ran_ns = now;
	of->ran_on = cpu;
}
