/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue: one for each CPU, ordered by virtual time, and which of them a CPU takes from. No queue is
 * shared while every CPU has something to run. A CPU compares its own queue with one other each
 * time. So queues drift apart by little, and a look costs the same on any number of CPUs.
 */
#pragma once
#include "state.h"
#include "exchange.h"
#include "overdue.h"
#include "preempt.h"

/* A task that takes the place of one that went home arrives within this time, or not at all. */
#define COMES_NS 1000000

/* Whether any task waits. */
static __always_inline bool any_waits(void)
{
	return first_waiting(0, nr_cpus) >= 0;
}

/* A task that belongs to a domain is exchanged within it alone. */
static __always_inline bool may_leave_for(s32 cpu, s32 at)
{
	struct pl_cpu *state = has_homes() ? cpus_of(cpu) : NULL;

	return !state || state->home == NO_DOMAIN || state->home == (s32)cpu_domain(at);
}

/* Whether a task that belongs to this domain and gets this kind next may wait for a CPU. */
static __always_inline bool cpu_suits(s32 cpu, s32 home, u32 kind)
{
	return (home == NO_DOMAIN || cpu_domain(cpu) == (u32)home) &&
	       (!shares_kinds() || kind >= nr_types || cpu_kind(cpu) == kind);
}

/* An idle CPU near `prev` that suits p, now claimed; -1: none. */
__noinline s32 claim_suiting(struct task_struct *p __arg_trusted, s32 prev, s32 home, u32 kind)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(prev, i);

		if (cpu_suits(cpu, home, kind) && cpu_takes(p, cpu) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* Place: an idle CPU of p's domain and kind, else one of its domain, else any. */
static __always_inline s32 claim(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 home = home_of(p), cpu = -1;
	bool chooses = shares_kinds() && !is_brief(p);

	if (chooses || home != NO_DOMAIN)
		cpu = claim_suiting(p, prev_cpu, home, chooses ? kind_next(p) : TYPES_MAX);
	if (cpu < 0 && chooses && home != NO_DOMAIN)
		cpu = claim_suiting(p, prev_cpu, home, TYPES_MAX);
	if (cpu < 0 && (home == NO_DOMAIN || !domain_takes(p, home)))
		cpu = place_idle_near(p, prev_cpu, wake_flags);
	return cpu;
}

/* Whether a task waits for this CPU. */
static __always_inline bool queue_waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) > 0;
}

/* How many tasks run on a CPU or wait for it. */
static __always_inline s32 load_of(s32 cpu)
{
	struct share_cpu *state = share_cpu_of(cpu);

	return scx_bpf_dsq_nr_queued(cpu) + (state && state->pid);
}

/*
 * The CPU with the fewest tasks of those that suit p, nearest first; else the one with the shortest
 * queue of all that take it. Not inlined: the verifier walks it once.
 */
__noinline s32 shortest_suiting(struct task_struct *p __arg_trusted, s32 home, u32 kind)
{
	s32 own = scx_bpf_task_cpu(p), best = -1, least = S32_MAX;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(own, i), load = load_of(cpu);

		if (load < least && cpu_suits(cpu, home, kind) && cpu_takes(p, cpu)) {
			least = load;
			best = cpu;
		}
	}
	return best < 0 ? cpu_queue_shortest(p) : best;
}

/* Whether a woken task is about to preempt the CPU's task [preempt_victim]. */
static __always_inline bool is_preempted(const struct pl_cpu *state)
{
	return state->share.pid && state->vtime != state->present;
}

/* Whether a CPU's task has short turns, or makes way for a woken task. */
static __always_inline bool runs_brief(s32 cpu)
{
	struct pl_cpu *state = cpus_of(cpu);

	return state && state->share.pid && (state->share.brief || is_preempted(state));
}

#define LOOKS 7 /* CPUs that a woken task looks at */

/*
 * The CPU that a woken task p waits for in place of `own`: the next of a few that is better. With
 * `waiting` tasks that wait for `own`, it has less than half as many. With 0 it runs a task that
 * can be preempted, as p would wait for one short turn after another. Not inlined: the verifier
 * walks it once.
 */
__noinline s32 another_cpu(struct task_struct *p __arg_trusted, s32 own, s32 home, u32 kind,
			   s32 waiting)
{
	u32 i;

	bpf_for(i, 1, nr_cpus <= LOOKS ? nr_cpus : LOOKS + 1) {
		s32 cpu = cpu_neighbour(own, i);
		bool no_better =
			waiting ? 2 * scx_bpf_dsq_nr_queued(cpu) >= waiting : runs_brief(cpu);

		if (!no_better && cpu_suits(cpu, home, kind) && cpu_takes(p, cpu))
			return cpu;
	}
	return own;
}

/*
 * How many of the tasks that wait for p's last CPU count when p looks for a better one. To stay
 * costs a task with very short turns less. Siblings gather where they are, unless many wake at
 * once.
 */
static __always_inline s32 crowd_at(struct task_struct *p, const struct task_slot_of *of, s32 own)
{
	s32 waiting = is_light(of) ? 0 : scx_bpf_dsq_nr_queued(own);

	return waiting && orders_contexts() && has_siblings(p) ? waiting - 2 : waiting;
}

/*
 * Whether a task has slept for much less than its turns last, or not at all. It uses a CPU almost
 * all the time, and moves no more than one that does not sleep.
 */
static __always_inline bool has_napped(const struct task_slot_of *of)
{
	return has_run(of) && elapsed_ns(of->ran_ns, scx_bpf_now()) < of->turn_ns / 4;
}

/*
 * Whether p stays on its CPU although another kind of core is its next: else more tasks would wait
 * for `other` than here. It changes places with a task there, at a tick [exchange.h].
 */
static __always_inline bool stays_on(struct task_struct *p, const struct task_slot_of *of, s32 own,
				     s32 home, s32 other, u64 enq_flags)
{
	return !(enq_flags & SCX_ENQ_WAKEUP) && has_run(of) && cpu_takes(p, own) &&
	       cpu_suits(own, home, TYPES_MAX) && load_of(other) > (s32)scx_bpf_dsq_nr_queued(own);
}

/*
 * The CPU that p waits for: its last one, `own`, if that suits. For a new task that is its
 * parent's, where all of its siblings may wait: it goes where the fewest tasks are.
 */
static __always_inline s32 cpu_for(struct task_struct *p, const struct task_slot_of *of, s32 own,
				   s32 home, u64 enq_flags)
{
	u32 kind = kind_of(p);
	s32 cpu = own, waiting;

	if (p->nr_cpus_allowed == 1)
		return own;
	if (!cpu_suits(own, home, kind) || !cpu_takes(p, own) ||
	    (of && !has_run(of) && queue_waits(own))) {
		cpu = shortest_suiting(p, home, kind);
		return stays_on(p, of, own, home, cpu, enq_flags) ? own : cpu;
	}
	if (!(enq_flags & SCX_ENQ_WAKEUP))
		return own;
	if (runs_brief(own) && (queue_waits(own) || !has_napped(of)))
		cpu = another_cpu(p, own, home, kind, 0);
	if (cpu != own)
		return cpu;
	waiting = crowd_at(p, of, own);
	return waiting > 0 ? another_cpu(p, own, home, kind, waiting) : own;
}

/* Only the CPU that a woken task waits for is preempted: others may not look at its queue next. */
static __always_inline s32 taker(u64 queue, u32 i)
{
	return i ? -1 : (s32)queue;
}

/* A task is put in a CPU's queue. */
static __always_inline void note_filled(s32 cpu)
{
	struct pl_cpu *state = cpus_of(cpu);

	if (state)
		state->filled = true;
}

/*
 * A task with short turns is not preempted for a slice: it ends its turn by itself. Tasks that
 * pass messages are such, and one that is preempted while it holds a lock makes others wait.
 */
static __always_inline s64 preempt_margin(s32 cpu, u64 queue)
{
	struct pl_cpu *state = cpus_of(cpu);

	if (!state ||
	    (state->share.brief && elapsed_ns(state->began_ns, scx_bpf_now()) < knob_slice_ns))
		return S64_MAX;
	return WAKEUP_NS;
}

/* In tick: whether a task waits that would preempt p, as its turn is protected no more. */
static __always_inline bool is_overtaken(s32 cpu, struct task_struct *p)
{
	s64 head = queue_waits(cpu) ? vtime_head(cpu) : S64_MAX, margin = preempt_margin(cpu, cpu);

	return head != S64_MAX && margin != S64_MAX && head + margin < vtime_ahead(vtime_common(p));
}

/*
 * A CPU of a domain whose task belongs elsewhere, and goes home once this CPU is kicked; -1: there
 * is none that p may run on.
 */
__noinline s32 clear_domain(struct task_struct *p __arg_trusted, u32 domain)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct pl_cpu *cpu = cpus_of(i);
		s32 pid = cpu ? cpu->share.pid : 0;

		/* it may be about to leave already: then p comes in its place */
		if (!cpu || !pid || cpu_domain(i) != domain || queue_waits(i) ||
		    cpu->home == NO_DOMAIN || cpu->home == (s32)domain || !cpu_takes(p, i))
			continue;
		cpu->leaves = pid;
		return i;
	}
	return -1;
}

/*
 * How much later a woken task comes that meets a task with short turns. It is half a slice behind
 * it then, not ahead [vtime_queued]: among such tasks the one that comes later finds more messages.
 * Farther behind it would find no more, and wait for longer.
 */
static __always_inline u64 after_brief(s32 cpu, const struct task_slot_of *of)
{
	return has_run(of) && runs_brief(cpu) && !has_napped(of)
		       ? VTIME_LAGS * knob_slice_ns + knob_slice_ns / 2
		       : 0;
}

/* Whether a CPU runs a task: else nothing tells where its tasks are by virtual time. */
static __always_inline bool runs_any(const struct pl_cpu *state)
{
	return state && state->present != VTIME_IDLE;
}

/*
 * Where the tasks of a CPU are by virtual time: at the one that has had least, if that is behind
 * the newest. A woken task goes before those that it meets there, whatever others elsewhere have
 * had. It does not go before others that have just woken: of many that wake at once the last would
 * be first, and each a little farther ahead than the one before.
 */
static __always_inline u64 present_at(s32 cpu)
{
	struct pl_cpu *state = cpus_of(cpu);
	u64 least;
	s64 head;

	if (!runs_any(state))
		return vtime_now;
	head = vtime_head(cpu);
	least = state->present;
	if (head < vtime_ahead(least) && vtime_is_own(head))
		least = vtime_now + head;
	return vtime_before(vtime_after(least, state->floor), vtime_now);
}

/* How much more the tasks of a CPU have had than those of another; 0 if nothing tells. */
static __always_inline u64 lead_over(s32 cpu, s32 other)
{
	return runs_any(cpus_of(cpu)) && runs_any(cpus_of(other))
		       ? present_at(cpu) - present_at(other)
		       : 0;
}

/* A task starts on a CPU: what its tasks have had at least. It may have slept, and lack some. */
static __always_inline u64 floor_after(const struct pl_cpu *cpu)
{
	u64 vtime = vtime_before(cpu->vtime, vtime_now);

	return cpu->floor == VTIME_IDLE ? vtime : vtime_after(cpu->floor, vtime);
}

/* Whether a task comes from another CPU, and has not slept: queues are not at the same vtime. */
static __always_inline bool has_moved(const struct task_slot_of *of, s32 at)
{
	return has_run(of) && of->ran_on != at && !has_slept(of);
}

/* Whether p runs in this address space as in its own. Kernel threads do in any (lazy TLB). */
static __always_inline bool is_sibling(const struct task_struct *p, u64 mm)
{
	return !p->mm || (u64)p->mm == mm;
}

/* Order: how much farther ahead p has to be to preempt a task of another address space. */
static __always_inline u64 context_margin(struct task_struct *p, s32 cpu)
{
	struct pl_cpu *state = orders_contexts() ? cpus_of(cpu) : NULL;

	return state && state->mm && !is_sibling(p, state->mm) ? knob_slice_ns : 0;
}

/*
 * Light path: a woken task that finds on its CPU only a running one, both with very short turns, is
 * next there, and needs no queue. No other CPU can take it, and it runs before the CPU looks at any
 * queue: so only one task does at a time. Whether p did.
 */
static __always_inline bool pass_queue(struct task_struct *p, struct task_slot_of *of, s32 cpu,
				       s32 home, u64 enq_flags)
{
	struct pl_cpu *state = cpus_of(cpu);
	u64 now;

	if (!knob_light || !state || !state->light || state->passed || !is_light(of) ||
	    is_preempted(state) || !(enq_flags & SCX_ENQ_WAKEUP) || task_is_idle(p) ||
	    task_table.limited || nr_away)
		return false;
	now = scx_bpf_now();
	if (elapsed_ns(state->began_ns, now) >= LIGHT_NS || !cpu_suits(cpu, home, kind_of(p)) ||
	    (state->filled && queue_waits(cpu)))
		return false;
	state->filled = false;
	state->passed = true;
	vtime_pass(p, of, state->present, now, knob_slice_ns);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
	return true;
}

static void look_again(u32 cpu);

TIMERS(turn_timers, MAX_CPUS, look_again)

/* A turn is not cut short before this time: a task that wakes another often sleeps soon after. */
#define PROTECTED_NS 50000

/* A CPU is looked at again in this time, or before. */
static __always_inline void look_in(s32 cpu, struct pl_cpu *state, u64 in_ns, u64 now)
{
	/* a look that comes earlier has this one follow */
	if (elapsed_ns(now, state->looks_ns) && elapsed_ns(now, state->looks_ns) <= in_ns)
		return;
	state->looks_ns = now + in_ns;
	turn_timers_start(cpu, in_ns);
}

/*
 * Tasks wait for a CPU: it is looked at again once the turn there need not go on, if the running
 * task does not sleep long before that. A tick comes later, by up to its period.
 */
static __always_inline void await_look(s32 cpu, struct pl_cpu *state, u64 now)
{
	u64 ran_ns = elapsed_ns(state->began_ns, now);
	bool whole = state->share.brief || ran_ns >= PROTECTED_NS;

	if (!state->light && ran_ns < knob_slice_ns)
		look_in(cpu, state, (whole ? knob_slice_ns : PROTECTED_NS) - ran_ns, now);
}

/* A turn has lasted for as long as it is protected, or for a slice: another task may be next. */
static void look_again(u32 cpu)
{
	struct pl_cpu *state = cpus_of(cpu);
	s64 head = vtime_head(cpu);
	u64 now = scx_bpf_now();

	if (!state)
		return;
	state->looks_ns = 0;
	/* No other CPU can take a task that has come here by a deal. */
	if (shares_kinds() && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	if (head == S64_MAX || !state->share.pid)
		return;
	if (elapsed_ns(state->began_ns, now) >= knob_slice_ns) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	preempt_for(cpu, vtime_now + head, true);
	await_look(cpu, state, now);
}

/*
 * A task p waits for a CPU, with this vtime. If it has just woken, it preempts the task there if
 * that has had more, and its turn is long enough.
 */
static __always_inline void compete(struct task_struct *p, s32 cpu, u64 vtime, u64 enq_flags)
{
	struct pl_cpu *state = cpus_of(cpu);
	u64 now = scx_bpf_now();

	if (!state || !state->share.pid || state->share.pid == p->pid)
		return;
	if (may_preempt(p, enq_flags) && elapsed_ns(state->began_ns, now) >= PROTECTED_NS)
		preempt_for(cpu, vtime + context_margin(p, cpu), goes_anywhere(p));
	await_look(cpu, state, now);
}

/*
 * Sends a task with a deal to its CPU, where another may run meanwhile. It is as far ahead or
 * behind there as it was here. Whether p had a deal.
 */
static __always_inline bool leave_by_deal(struct task_struct *p, s32 here)
{
	s32 to = deal_follow(p, here);
	struct pl_cpu *state = to < 0 ? NULL : cpus_of(to);

	if (!state)
		return false;
	scx_bpf_task_set_dsq_vtime(p, p->scx.dsq_vtime + lead_over(to, here));
	if (state->share.pid)
		await_look(to, state, scx_bpf_now());
	return true;
}

static __always_inline void queue_up(struct task_struct *p, s32 own, u64 enq_flags)
{
	struct task_slot_of *of = task_slots_of(p);
	s32 home = home_of(p), cpu, room = -1;
	u64 vtime, present, before;

	if (pass_queue(p, of, own, home, enq_flags))
		return;
	cpu = cpu_for(p, of, own, home, enq_flags);
	if (home != NO_DOMAIN && cpu_domain(own) != (u32)home)
		room = claim(p, own, 0);
	if (room < 0 && home != NO_DOMAIN && cpu_domain(cpu) == (u32)home)
		room = clear_domain(p, home);
	if (room >= 0)
		cpu = room;
	note_filled(cpu);
	present = before = present_at(cpu) + after_brief(cpu, of);
	if (has_run(of) && of->ran_on != cpu)
		before -= lead_over(cpu, of->ran_on);
	vtime = vtime_insert_at(p, of, cpu, present, before, enq_flags, knob_slice_ns);
	if (room >= 0) {
		scx_bpf_kick_cpu(room, SCX_KICK_PREEMPT);
		return;
	}
	/* This CPU looks first, if it is idle: others may be about to get another task. */
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return;
	}
	if (place_kick_idle(p) || preempt_idle_task(p, cpu))
		return;
	compete(p, cpu, vtime, enq_flags);
	cpu_queue_kick(p, cpu);
}

#define SIBLINGS_TRIED 8 /* tasks that are looked at */

/*
 * Order: takes a task of the address space that this CPU is in, if it is a slice behind the first
 * one of the queue at most. Whether there was one. Not inlined: the verifier walks it once.
 */
__noinline bool take_sibling(s32 cpu, u64 queue)
{
	struct pl_cpu *state = cpus_of(cpu);
	struct task_struct *p;
	u64 first = 0;

	if (!state || !state->mm)
		return false;
	vtime_settle(queue, knob_slice_ns);
	/* Counted in memory: the verifier would walk the loop for each number. */
	state->tried = 0;
	dsq_for_each(p, queue)
	{
		if (!state->tried)
			first = p->scx.dsq_vtime;
		if (state->tried++ == SIBLINGS_TRIED || p->scx.dsq_vtime - first > knob_slice_ns)
			break;
		if (is_sibling(p, state->mm) && cpu_allowed(p, cpu) && !migration_is_disabled(p) &&
		    dsq_take(p, queue))
			return true;
	}
	return false;
}

/*
 * Takes the first task of a queue, or a sibling of the last one that ran here. Whether there was
 * one. Not inlined: the verifier walks it once.
 */
__noinline bool take_first(s32 cpu, u64 queue)
{
	struct pl_cpu *state = cpus_of(cpu);

	limit_clear(queue);
	/* A task that preempts is not overtaken. */
	if (orders_contexts() && state && !is_preempted(state) && take_sibling(cpu, queue))
		return true;
	return vtime_take(queue, knob_slice_ns);
}

/*
 * Whether the first task that waits for a CPU is of this address space. Not inlined: the verifier
 * walks it once.
 */
__noinline bool sibling_waits(s32 cpu, u64 mm)
{
	struct task_struct *p;

	dsq_for_each(p, cpu) return is_sibling(p, mm);
	return false;
}

/*
 * The address space whose tasks gather on a CPU's core: the one that the first thread of the core
 * is in. All threads of a core need one license level. Not inlined: the verifier walks it once.
 */
__noinline u64 core_mm(s32 cpu)
{
	struct pl_cpu *state = cpus_of(core_of(cpu));

	if (!runs_any(state) || !state->mm)
		state = cpus_of(cpu);
	return state ? state->mm : 0;
}

/* Whether two CPUs are in one domain, and of one kind. */
static __always_inline bool are_alike(s32 cpu, s32 other)
{
	return cpu_domain(cpu) == cpu_domain(other) && cpu_kind(cpu) == cpu_kind(other);
}

/*
 * Order: whether a CPU whose next task is of another address space gets a sibling from another CPU,
 * which is on a core with another address space. Not inlined: the verifier walks it once.
 */
__noinline bool gathers(s32 cpu, s32 mine, s32 other)
{
	u64 mm = orders_contexts() ? core_mm(cpu) : 0;

	return mm && !sibling_waits(cpu, mm) && load_of(other) >= mine + !queue_waits(cpu) &&
	       are_alike(cpu, other) && sibling_waits(other, mm) && core_mm(other) != mm;
}

/*
 * How far another CPU's queue may lag behind that of a CPU with `mine` tasks. Farther in another
 * domain, where tasks are at home. Farther if it is no longer: then they exchange tasks, or the one
 * that gives a task away has fewer than the other, and its tasks run ahead.
 */
static __always_inline s64 lag_allowed(s32 cpu, s32 mine, s32 other)
{
	u64 slices = has_homes() && cpu_domain(other) != cpu_domain(cpu) ? 3 : 1;

	if (load_of(other) <= mine)
		slices += 3;
	return slices * knob_slice_ns;
}

/*
 * A CPU whose first waiting task is farther behind `least` than allowed; -1: none. One other CPU is
 * looked at, another one each time. All are while real-time tasks have a CPU: then tasks are sent
 * elsewhere so often that queues would drift apart. Not inlined: the verifier walks it once.
 */
__noinline s32 cpu_behind(s32 cpu, s64 least)
{
	struct pl_cpu *state = cpus_of(cpu);
	u32 others = nr_cpus - 1, i;
	s32 behind = -1, mine = load_of(cpu);

	if (!state)
		return -1;
	state->looks++;
	bpf_for(i, 0, nr_away ? others : 1) {
		s32 other = cpu_neighbour(cpu, 1 + (state->looks + i) % others);
		s64 head = vtime_head(other);
		s64 by = head == S64_MAX ? head : head + lag_allowed(cpu, mine, other);

		if (gathers(cpu, mine, other))
			by = head - (s64)knob_slice_ns;
		if (by < least) {
			least = by;
			behind = other;
		}
	}
	return behind;
}

/* Takes a task that waits for a CPU of this domain, this one's first. Whether there was one. */
__noinline bool take_in_domain(s32 cpu)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 other = cpu_neighbour(cpu, i);

		if (cpu_domain(other) == cpu_domain(cpu) && queue_waits(other) &&
		    take_first(cpu, other))
			return true;
	}
	return false;
}

/*
 * A CPU has taken a task of another one that had no more tasks: it gives the first of its own in
 * return that may run there. Else that CPU's tasks would run ahead, and wait for long later.
 * Whether it had one. Not inlined: the verifier walks it once.
 */
__noinline bool give_in_return(s32 cpu, s32 to)
{
	struct task_struct *p;

	dsq_for_each(p, cpu)
	{
		struct task_slot_of *of = task_slots_of(p);
		u64 vtime;

		if (!of || of->lead_ns || !cpu_takes(p, to) || migration_is_disabled(p))
			continue;
		vtime = vtime_leave(p, of);
		vtime_join(of, to, knob_slice_ns);
		note_waiting(to);
		note_filled(to);
		dsq_move_vtime(p, cpu, to, vtime_at(vtime_clock(of), vtime));
		scx_bpf_kick_cpu(to, SCX_KICK_IDLE);
		return true;
	}
	return false;
}

/*
 * Takes the task with the least CPU time of those that wait for this CPU, or a sibling of the last
 * one that has had a slice more. One that waits for another CPU counts if it is a slice behind.
 * `prev` continues unless a task has had less. Returns whether a task was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev)
{
	struct pl_cpu *state = cpus_of(cpu);
	s64 least = prev ? vtime_ahead(vtime_common(prev)) : S64_MAX, head;
	s32 queue = -1, other;
	bool returns = false;
	u64 now = scx_bpf_now();

	if (!state)
		return false;
	state->share.chose_ns = now;
	if (take_forgotten(cpu, 0, 0, knob_slice_ns, now))
		return true;
	head = vtime_head(cpu);
	if (head < least) {
		least = head;
		queue = cpu;
	}
	/* A task that preempts is not overtaken by one that waits elsewhere. */
	other = nr_cpus < 2 || least == S64_MAX || is_preempted(state) ? -1
								       : cpu_behind(cpu, least);
	if (other >= 0) {
		least = vtime_head(other);
		queue = other;
		returns = are_alike(cpu, other) && load_of(other) <= load_of(cpu);
	}
	if (take_overdue(cpu, least, knob_slice_ns))
		return true;
	if (queue >= 0 && take_first(cpu, queue)) {
		if (returns)
			give_in_return(cpu, other);
		return true;
	}
	if (queue >= 0 && queue != cpu && !prev && take_first(cpu, cpu))
		return true;
	if (cpu_queue_take_from_away(cpu))
		return true;
	if (prev) {
		/* Until then it has had less than the first that waits. */
		if (head != S64_MAX && head >= least)
			look_in(cpu, state, head - least + PROTECTED_NS, now);
		return false;
	}
	/* A task that takes the place of one that went home is on its way, or waits nearby. */
	if (has_homes() && elapsed_ns(state->left_ns, now) <= COMES_NS)
		return take_in_domain(cpu);
	/* Nothing to run: take any task. The head of a queue may be pinned elsewhere. */
	return cpu_queue_take_near(cpu, true);
}
