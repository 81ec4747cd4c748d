/* SPDX-License-Identifier: GPL-2.0 */
/* Virtual time: CPU time by weight. Who has had the least is next. It wraps: only differences mean something. */
#pragma once
#include "kernel.h"
#include "hotplug.h"
#include "sched_idle.h"
#include "task_table.h"

#define VTIME_BEGINS (1ULL << 40)	/* so that no task has 0 */
#define VTIME_LEAD (1ULL << 36)	/* of who is urgent, before now: nobody waits for so long */
#define VTIME_LAG (1ULL << 36)	/* of SCHED_IDLE tasks, behind all others */

/* Of who started last that had the most: those who come start from near it. */
static u64 vtime_now = VTIME_BEGINS;

/*
 * While fresh tasks keep coming, each from near now, nobody is started who has had a turn, and now stands. So it goes on by
 * itself then, by this part of real time; but not away from those who are started, or who slept would be behind them.
 */
#define VTIME_CREEPS 16
#define VTIME_STOOD_NS (1000 * 1000 * 1000ULL)	/* for longer than this, nobody came */

static u64 vtime_moved_ns;	/* when it went on last */

/*
 * How fast a task's vtime goes: by its weight, which is 8668 at nice -20 and 1 at nice 19. A turn of the one takes so long in
 * the other's vtime that overdue.h bounds its wait by real time.
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
 * The weight that a task's CPU time counts by: its own, or what the control plane has set in its place. SCHED_IDLE tasks weigh
 * the same among themselves, and lag behind all others.
 */
static __always_inline u32 vtime_weight_of(const struct task_struct *p, const struct task_slot *slot)
{
	if (slot && slot->pace)
		return slot->pace;
	return task_is_idle(p) ? 100 : p->scx.weight;
}

/* How far behind its own vtime a task counts where it is compared with others. */
static __always_inline u64 vtime_lag(const struct task_struct *p)
{
	return task_is_idle(p) ? VTIME_LAG : 0;
}

/* The later of two. */
static __always_inline u64 vtime_after(u64 vtime, u64 other)
{
	return (s64)(vtime - other) < 0 ? other : vtime;
}

/* How far it is from now: what can be compared. */
static __always_inline s64 vtime_ahead(u64 vtime)
{
	return vtime - vtime_now;
}

/*
 * Where more are bound to some CPUs than to others, they get on slower than all the rest. If each of them were brought
 * near to now as it starts, none would be ahead of another, whatever their weights: so their queue falls behind as a
 * whole. This is by how much: the vtime of who goes by a queue's clock is that much less.
 */
#ifndef VTIME_CLOCKS
#define VTIME_CLOCKS MAX_CPUS	/* each CPU's queue has one; those of higher numbers go by the clock of all */
#endif

static u64 vtime_behind[VTIME_CLOCKS];

static __always_inline u64 *vtime_behind_of(u64 queue)
{
	u32 at = queue;

	barrier_var(at);	/* a bound that the compiler knows is not checked, */
	if (at >= VTIME_CLOCKS)
		return NULL;
	barrier_var(at);	/* and one that it does not, once the address is computed: the verifier wants it before */
	return &vtime_behind[at];
}

static __always_inline struct task_slot_of *vtime_clock_of(struct task_struct *p)
{
	return bpf_task_storage_get(&task_slots, p, 0, 0);
}

/* By how much its vtime is less than what it has had. It is given back. */
static __always_inline u64 vtime_lent(struct task_slot_of *of)
{
	u64 lead_ns = of ? of->lead_ns : 0;

	if (lead_ns)
		of->lead_ns = 0;
	return lead_ns;
}

/* By how much a task's clock is behind; NULL: it goes by that of all. */
static __always_inline u64 *vtime_clock(const struct task_slot_of *of)
{
	return of && of->clock ? vtime_behind_of(of->clock - 1) : NULL;
}

/* By the clock of all. */
static __always_inline u64 vtime_by(const u64 *behind, u64 vtime)
{
	return behind ? vtime + *behind : vtime;
}

/* A running task's vtime by the clock of all, as it is compared with that of others. */
static __always_inline u64 vtime_common(struct task_struct *p)
{
	return vtime_by(vtime_clock(vtime_clock_of(p)), p->scx.dsq_vtime) + vtime_lag(p);
}

#define WEIGHT_USUAL 13	/* most tasks weigh as much: nice 9 */

/*
 * The vtime that a task is queued by. A task that slept has no claim on the time of those that did not. A task that ran
 * while none waited owes the others no more than a few slices of the lowest usual weight, or of its own if that is lower:
 * else it would wait until all of them together had had as much.
 */
static __always_inline u64 vtime_queued(u64 vtime, u32 weight, u64 enq_flags, u64 slice_ns)
{
	u64 most = vtime_now + vtime_of(4 * slice_ns, weight < WEIGHT_USUAL ? weight : WEIGHT_USUAL);

	if ((s64)(vtime - most) > 0)
		vtime = most;
	return enq_flags & SCX_ENQ_WAKEUP ? vtime_after(vtime, vtime_now - slice_ns) : vtime;
}

/* Of those that go by a queue's clock nobody is behind by more than a few slices: the clock is, for all of them alike. */
static __always_inline void vtime_falls_behind(u64 *behind, u64 vtime, u64 slice_ns)
{
	u64 least = vtime_now - 4 * slice_ns, was = *behind;

	if ((s64)(least - was - vtime) > 0)
		__sync_bool_compare_and_swap(behind, was, least - vtime);
}

/* Before somebody comes to a queue, whom the others' having waited is not to concern; or the first of them leaves it. */
static __always_inline void vtime_settle(u64 queue, u64 slice_ns)
{
	u64 *behind = vtime_behind_of(queue), first;

	if (!behind || !dsq_can_peek() || !scx_bpf_dsq_nr_queued(queue))
		return;
	first = dsq_peek_vtime(queue);
	/* Who is urgent says nothing of the others. */
	if (first && vtime_ahead(vtime_by(behind, first)) > -(s64)(VTIME_LEAD / 2))
		vtime_falls_behind(behind, first, slice_ns);
}

/* With more than so many in a queue, and a twentieth of the CPU left by real-time tasks, somebody waits for seconds. */
#define VTIME_CROWD 16

/* Whether the kernel itself may wait for p. */
static __always_inline bool vtime_is_waited_for(struct task_struct *p)
{
	return p->flags & PF_KTHREAD || holds_up_rcu(p);
}

/*
 * Whether the kernel itself waits for p. A task that was preempted as a reader of RCU's holds up every grace period, and
 * so does RCU's own thread until it has run, several times for each; the watchdog of sched_ext is a work item. Where a
 * thousand wait, or real-time tasks keep CPUs, one turn for each takes longer than the 21 s after which RCU complains,
 * and the kernel throws the policy out.
 */
static __always_inline bool vtime_is_urgent(struct task_struct *p, u64 queue, u64 enq_flags)
{
	if (holds_up_rcu(p))
		return true;
	return p->flags & PF_KTHREAD && enq_flags & (SCX_ENQ_WAKEUP | SCX_ENQ_REENQ) &&
	       (nr_away || scx_bpf_dsq_nr_queued(queue) > VTIME_CROWD);
}

/* In so many turns one is before the others': who is urgent again and again, as a thread that encrypts, waits for the rest. */
#define VTIME_LEADS_IN 8

/*
 * Who is urgent goes before all that are not, and behind those that were before it. That is lent: it goes on by what it
 * has had. `lent` is what it had of that before, for the same turn.
 */
static __always_inline u64 vtime_lead(struct task_slot_of *of, u64 vtime, u64 lent, u64 slice_ns)
{
	u64 now = now_ns();

	if (!of || ((s64)lent <= 0 && elapsed_ns(of->led_ns, now) < VTIME_LEADS_IN * slice_ns))
		return vtime;
	of->led_ns = now;
	of->lead_ns = VTIME_LEAD + vtime_ahead(vtime);
	return vtime_now - VTIME_LEAD;
}

/* In enqueue: p waits in a queue. Returns its vtime there, by the clock of all. */
static __always_inline u64 vtime_insert(struct task_struct *p, u64 queue, u64 enq_flags, u64 slice_ns)
{
	struct task_slot_of *of = vtime_clock_of(p);
	u64 lent = vtime_lent(of), vtime = vtime_by(vtime_clock(of), p->scx.dsq_vtime + lent);
	u64 *behind;

	vtime = vtime_queued(vtime, vtime_weight_of(p, of ? task_table_at(of->slot) : NULL), enq_flags, slice_ns);
	if (vtime_is_urgent(p, queue, enq_flags))
		vtime = vtime_lead(of, vtime, lent, slice_ns);
	if (of && !of->lead_ns && task_is_idle(p)) {
		of->lead_ns = -VTIME_LAG;
		vtime += VTIME_LAG;
		slice_ns = idle_slice(slice_ns);
	}

	vtime_settle(queue, slice_ns);
	if (of) {
		of->clock = queue < VTIME_CLOCKS ? queue + 1 : 0;
		if (!of->waits_ns)
			of->waits_ns = now_ns();
	}
	behind = vtime_clock(of);
	dsq_insert_vtime(p, queue, slice_ns, vtime - (behind ? *behind : 0), enq_flags);
	return vtime;
}

/* Whether who runs shares its CPU with those who wait in a queue: it does on the queue's own, while somebody waits. */
static __always_inline bool vtime_shares(struct task_struct *p, u64 queue)
{
	return (queue >= MAX_CPUS || queue == (u32)scx_bpf_task_cpu(p)) && scx_bpf_dsq_nr_queued(queue) > 0;
}

/*
 * p runs. Who waited long catches up for a few slices and no longer: `vtime` is p's from now on, or what is near
 * enough. Returns what that is by the clock of all, which it goes by from now on where it has its CPU for itself: two
 * that get on as they please would each say of the queue's clock how far behind it is, and then by that much be ahead.
 */
static __always_inline u64 vtime_catch_up(struct task_struct *p, u64 vtime, u64 slice_ns)
{
	struct task_slot_of *of = vtime_clock_of(p);
	u64 *behind = vtime_clock(of);

	vtime += vtime_lent(of);
	if (of)
		of->waits_ns = 0;
	if (behind && !vtime_shares(p, of->clock - 1)) {
		vtime += *behind;
		of->clock = 0;
		behind = NULL;
	}
	if (behind)
		vtime_falls_behind(behind, vtime, slice_ns);
	else
		vtime = vtime_after(vtime, vtime_now - 4 * slice_ns);
	if (vtime != p->scx.dsq_vtime)
		task_set_dsq_vtime(p, vtime);
	return vtime_by(behind, vtime);
}

/* Takes the first of a queue that this CPU may run. Whether there was one. */
static __always_inline bool vtime_take(u64 queue, u64 slice_ns)
{
	vtime_settle(queue, slice_ns);
	return dsq_move_to_local(queue);
}

#define VTIME_WAITS_NS (5 * 1000 * 1000 * 1000ULL)	/* a task that has waited for longer goes before others [overdue.h] */

/* Whether a light task has its turn only because it has waited for so long: the others are far behind it. */
static __always_inline bool vtime_is_early(struct task_struct *p, const struct task_slot_of *of, u64 now)
{
	return of && of->waits_ns && elapsed_ns(of->waits_ns, now) > VTIME_WAITS_NS &&
	       vtime_weight_of(p, task_table_at(of->slot)) < WEIGHT_USUAL;
}

/* In running. CPUs do this side by side: what one of them has added may be lost, and comes with the next. */
static __always_inline void vtime_starts(struct task_struct *p, u64 slice_ns)
{
	u64 now = now_ns();
	bool early = vtime_is_early(p, vtime_clock_of(p), now);
	u64 started = vtime_catch_up(p, p->scx.dsq_vtime, slice_ns);
	u64 stood_ns = elapsed_ns(vtime_moved_ns, now);

	if (early)
		return;
	if (vtime_ahead(started) > 0)
		vtime_now = started;
	else if (stood_ns < slice_ns || vtime_ahead(started) <= -2 * (s64)slice_ns)
		return;
	else if (stood_ns < VTIME_STOOD_NS)
		vtime_now += stood_ns / VTIME_CREEPS;
	vtime_moved_ns = now;
}

/* In dispatch: p has another turn. Where others wait, which have all had more, that counts as a start. */
static __always_inline void vtime_goes_on(struct task_struct *p, bool others_wait, u64 slice_ns)
{
	task_set_slice(p, slice_ns);
	if (others_wait)
		vtime_starts(p, slice_ns);
}

/*
 * p, which runs, has got on by so much. Who is never stopped is never started, and would be behind for ever. Returns its
 * vtime by the clock of all, as it is compared with that of others.
 */
static __always_inline u64 vtime_runs(struct task_struct *p, u64 by, u64 slice_ns)
{
	return vtime_catch_up(p, p->scx.dsq_vtime + by, slice_ns) + vtime_lag(p);
}

/* In enable: whatever it went by before it left. */
static __always_inline void vtime_enters(struct task_struct *p)
{
	struct task_slot_of *of = vtime_clock_of(p);

	if (of) {
		of->clock = 0;
		of->waits_ns = 0;
		of->lead_ns = 0;
	}
	task_set_dsq_vtime(p, vtime_now);
}

/* Who waits first in a queue, by how far it is from now; S64_MAX: nobody. */
static __always_inline s64 vtime_head(u64 queue)
{
	u64 *behind = vtime_behind_of(queue), vtime;
	struct task_struct *p;

	if (!scx_bpf_dsq_nr_queued(queue))
		return S64_MAX;
	if (dsq_can_peek()) {
		vtime = dsq_peek_vtime(queue);
		return vtime ? vtime_ahead(vtime_by(behind, vtime)) : S64_MAX;
	}
	dsq_for_each(p, queue)
		return vtime_ahead(vtime_by(behind, p->scx.dsq_vtime));
	return S64_MAX;
}
