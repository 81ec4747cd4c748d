/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Exchange: tasks swap CPUs so that each gets its part of every kind of core. A policy embeds
 * `struct share_cpu` as `share` in its table of CPUs, and has the knobs slice and round. Read
 * without locks: a CPU's state is a tick old at most.
 */
#pragma once
#include "cpus.h"
#include "swap.h"
#include "task_table.h"
#include "topology.h"

static __always_inline struct share_cpu *share_cpu_of(s32 cpu)
{
	__auto_type state = cpus_of(cpu);

	return state ? &state->share : NULL;
}

/* The policy's: whether any task waits that every CPU may take. */
static __always_inline bool any_waits(void);

/* The policy's: whether the task that runs on a CPU may go to another, beside its affinity. */
static __always_inline bool may_leave_for(s32 cpu, s32 at);

/* Notes where the running task may run. */
static __always_inline void may_note(struct share_cpu *cpu, const struct task_struct *p)
{
	u32 word;

	if (!goes_anywhere(p))
		return cpus_allowed(p, cpu->may, nr_cpus);
	for (word = 0; word < CPU_WORDS; word++)
		cpu->may[word] = ~0ULL;
}

/*
 * Whether a CPU's task may run on another. Branchless, as the verifier follows both ways of a
 * branch.
 */
static __always_inline bool may_run(const struct share_cpu *cpu, s32 at)
{
	u32 word = (u32)at / 64 & (CPU_WORDS - 1);

	barrier_var(word);
	return cpu->may[word] >> ((u32)at % 64) & 1;
}

/* A swap has to gain this much to be worth its two migrations: half a round. */
static __always_inline s64 swap_worth(void)
{
	return knob_round_ns / 2;
}

/* A task that was sent to a CPU arrives within this time, or not at all. */
#define ARRIVES_NS 1000000

/* The CPU that p was to go to by a deal, which this closes; -1: none. */
static __always_inline s32 deal_close(struct task_struct *p, s32 cpu)
{
	struct share_cpu *here = share_cpu_of(cpu);
	u64 deal = here ? here->deal : 0;
	s32 to = deal_cpu(deal);

	if (!deal || deal_pid(deal) != p->pid)
		return -1;
	here->deal = 0;
	return cpu_takes(p, to) && cpu_is_active(to) ? to : -1;
}

/*
 * In enqueue: sends a task with a deal to the CPU of the deal, and returns that. -1: it does not,
 * as there is none, or a task with short turns has woken there first. It does go where its partner
 * has left and another task runs: beside six tasks of nice -20 those of nice 0 would else have 0.76
 * of their fair performance. From 6.14 on the kernel does not call enqueue for a task that cannot
 * migrate now.
 */
static __always_inline s32 deal_follow(struct task_struct *p, s32 here)
{
	s32 to = deal_close(p, here);
	struct share_cpu *there = share_cpu_of(to);

	if (to < 0 || !there || migration_is_disabled(p) ||
	    (there->pid && there->brief && deal_cpu(there->deal) != here))
		return -1;
	/* It does not count as idle any more while it wakes: a woken task would come before p. */
	scx_bpf_test_and_clear_cpu_idle(to);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | to, knob_slice_ns, 0);
	return to;
}

static __always_inline bool deal_open(struct share_cpu *from, s32 pid, s32 to)
{
	return __sync_bool_compare_and_swap(&from->deal, 0, deal_of(pid, to));
}

/* Whether a task is on its way to a CPU by a deal. */
static __always_inline bool expects(const struct share_cpu *cpu, u64 now)
{
	return elapsed_ns(cpu->expects_ns, now) <= ARRIVES_NS;
}

/* Whether a CPU has nothing to run and no task is on its way there. */
static __always_inline bool awaits(const struct share_cpu *cpu, u64 now)
{
	return !cpu->pid && !expects(cpu, now);
}

/*
 * Whether waiting tasks should get this CPU; `any` says that a task waits that every CPU may take.
 * The kernel does not call dispatch while a task has been sent to the CPU's local DSQ
 * [balance_one]. If one task after another arrived for a part of a turn, the waiting tasks would
 * wait for ever. So a turn is shared by all tasks that have it, and after it no task is sent until
 * the CPU has chosen. Only ticks end turns, and this one may have begun just after a tick.
 */
static __always_inline bool turn_is_over(const struct share_cpu *cpu, s32 at, bool any, u64 now)
{
	return elapsed_ns(cpu->chose_ns, now) > knob_slice_ns + tick_ns &&
	       (any || scx_bpf_dsq_nr_queued(at) > 0);
}

/*
 * The gain of p by going from `cpu` to `at`, ns: in place of the task there, or if that CPU is
 * idle. 0: nothing.
 */
static __always_inline s64 gain_at(const struct share_cpu *mine, s32 cpu,
				   const struct share_cpu *other, s32 at, u64 now)
{
	u32 kind = cpu_kind(cpu), there = cpu_kind(at);

	if (other->deal || !may_leave_for(cpu, at))
		return 0;
	if (other->pid)
		return !other->brief && may_run(other, cpu) && may_leave_for(at, cpu)
			       ? swap_gain(&mine->wants, kind, &other->wants, there)
			       : 0;
	/*
	 * An idle faster CPU is taken whatever the shares are: no other task wants it. The kernel
	 * does not report a real-time task that takes the CPU from idle, and a task sent there
	 * would wait behind it [switch_class].
	 */
	if (there < kind && awaits(other, now) && cpu_idles(at))
		return swap_worth() + 1 + knob_round_ns;
	return 0;
}

/*
 * Makes a deal on p's CPU and another one if the tasks gain enough, and makes both CPUs schedule.
 */
static __always_inline void exchange(struct task_struct *p, s32 cpu)
{
	struct share_cpu *mine = share_cpu_of(cpu), *other;
	u32 kind = cpu_kind(cpu), i;
	s64 most = swap_worth();
	u64 now = scx_bpf_now(), expected;
	s32 to = -1, there;
	bool any;

	if (!mine || mine->deal)
		return;
	/*
	 * One of the two tasks has had its share where it runs: its CPU looks. A slower CPU also
	 * looks for idle faster ones.
	 */
	if (!kind && mine->wants.ns[0] > -swap_worth() / 4)
		return;
	any = any_waits();
	if (turn_is_over(mine, cpu, any, now))
		return;
	bpf_for(i, 1, nr_cpus) {
		s32 at = cpu_neighbour(cpu, i);
		s64 gain;

		other = share_cpu_of(at);
		if (!other || cpu_kind(at) == kind || !cpu_takes(p, at))
			continue;
		gain = gain_at(mine, cpu, other, at, now);
		if (gain > most && !(other->pid && turn_is_over(other, at, any, now))) {
			most = gain;
			to = at;
		}
	}
	other = share_cpu_of(to);
	if (to < 0 || !other)
		return;
	expected = other->expects_ns;
	if (!deal_open(mine, p->pid, to))
		return;
	there = other->pid;
	if (there && !deal_open(other, there, cpu)) {
		mine->deal = 0;
		return;
	}
	if (!__sync_bool_compare_and_swap(&other->expects_ns, expected, now)) {
		mine->deal = 0;
		if (there)
			__sync_bool_compare_and_swap(&other->deal, deal_of(there, cpu), 0);
		return;
	}
	mine->expects_ns = now;
	if (there)
		scx_bpf_kick_cpu(to, SCX_KICK_PREEMPT);
	scx_bpf_task_set_slice(p, 0);
}

/* A CPU with nothing to run takes over the task of a slower CPU that gains most. */
static __always_inline void take_over(s32 cpu)
{
	struct share_cpu *mine = share_cpu_of(cpu), *other;
	u32 kind = cpu_kind(cpu), i;
	u64 now = scx_bpf_now();
	s32 from = -1;
	s64 most = 0;

	if (!mine || !awaits(mine, now) || kind + 1 >= nr_types)
		return;
	bpf_for(i, 1, nr_cpus) {
		s32 at = cpu_neighbour(cpu, i);
		s64 gain;

		other = share_cpu_of(at);
		if (!other || cpu_kind(at) <= kind || !other->pid || other->deal ||
		    !may_run(other, cpu) || !may_leave_for(at, cpu))
			continue;
		gain = move_gain(&other->wants, cpu_kind(at), kind);
		/* it may have ended before it comes */
		if (other->brief)
			gain -= S32_MAX;
		if (from < 0 || gain > most) {
			most = gain;
			from = at;
		}
	}
	other = share_cpu_of(from);
	if (from < 0 || !other || !other->pid || !deal_open(other, other->pid, cpu))
		return;
	mine->expects_ns = now;
	scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
}
