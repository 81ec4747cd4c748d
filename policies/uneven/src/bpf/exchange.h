/* SPDX-License-Identifier: GPL-2.0 */
/* Exchange: who changes places with whom. Read without locks: a CPU's state is a tick old at most. */
#pragma once
#include "state.h"
#include "queue.h"

#define ARRIVES_NS 1000000	/* who was sent to a CPU has come by then, or does not come */

/* Where p was agreed to go, which is forgotten with this; -1: nowhere. */
static __always_inline s32 deal_close(struct task_struct *p, s32 cpu)
{
	struct un_cpu *here = cpus_of(cpu);
	u64 deal = here ? here->deal : 0;
	s32 to = deal_cpu(deal);

	if (!deal || deal_pid(deal) != p->pid)
		return -1;
	here->deal = 0;
	return cpu_takes(p, to) && cpu_is_active(to) ? to : -1;
}

static __always_inline bool deal_open(struct un_cpu *from, s32 pid, s32 to)
{
	return __sync_bool_compare_and_swap(&from->deal, 0, deal_of(pid, to));
}

/* A CPU with nothing to do, to which nobody is on the way. */
static __always_inline bool awaits(const struct un_cpu *cpu, u64 now)
{
	return !cpu->pid && elapsed_ns(cpu->expects_ns, now) > ARRIVES_NS;
}

/* Whether somebody waits whom any CPU may take. */
static __always_inline bool any_waits(void)
{
	bool waits = false;
	u32 i;

	bpf_for(i, 0, nr_types)
		waits |= scx_bpf_dsq_nr_queued(queue_of_kind(i)) > 0;
	return waits;
}

/*
 * Whether those who wait are to have a CPU, `any` if there are such as any CPU may take. The kernel does not have a CPU
 * choose while somebody has been sent there [balance_one]: where one after another comes for a part of a turn, who waits
 * would do so for ever. So a turn is one whoever has it, and after it nobody comes until the CPU has chosen. Ticks are
 * all that ends turns: this one may have begun just after one.
 */
static __always_inline bool turn_is_over(const struct un_cpu *cpu, s32 at, bool any, u64 now)
{
	return elapsed_ns(cpu->chose_ns, now) > knob_slice_ns + tick_ns && (any || scx_bpf_dsq_nr_queued(at) > 0);
}

/* What p gains by going from `cpu` to another, ns: in place of who runs there, or where nobody does. 0: nothing. */
static __always_inline s64 gain_at(const struct un_cpu *mine, s32 cpu, const struct un_cpu *other, s32 at, u64 now)
{
	u32 kind = cpu_kind(cpu), there = cpu_kind(at);

	if (other->deal)
		return 0;
	if (other->pid)
		return may_run(other, cpu) ? swap_gain(&mine->wants, kind, &other->wants, there) : 0;
	/*
	 * A faster one that idles is taken whatever the shares are: nobody else wants it. Of a real-time task that takes it
	 * from there nobody hears, and whoever is sent waits behind that [switch_class].
	 */
	if (there < kind && awaits(other, now) && cpu_idles(at))
		return swap_worth() + 1 + knob_round_ns;
	return 0;
}

/* Agrees on p's place with another CPU where both gain enough, and has both schedule. */
static __always_inline void exchange(struct task_struct *p, s32 cpu)
{
	struct un_cpu *mine = cpus_of(cpu), *other;
	u32 kind = cpu_kind(cpu), i;
	s64 most = swap_worth();
	u64 now = now_ns(), expected;
	s32 to = -1, there;
	bool any;

	if (!mine || mine->deal)
		return;
	/* One of the two has had its share where it is: that one looks. A slower one looks for idle faster ones. */
	if (!kind && mine->wants.ns[0] > -swap_worth() / 4)
		return;
	any = any_waits();
	if (turn_is_over(mine, cpu, any, now))
		return;
	bpf_for(i, 1, nr_cpus) {
		s32 at = cpu_neighbour(cpu, i);
		s64 gain;

		other = cpus_of(at);
		if (!other || cpu_kind(at) == kind || !cpu_takes(p, at))
			continue;
		gain = gain_at(mine, cpu, other, at, now);
		if (gain > most && !(other->pid && turn_is_over(other, at, any, now))) {
			most = gain;
			to = at;
		}
	}
	other = cpus_of(to);
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
	task_set_slice(p, 0);
}

/* A CPU with nothing to do takes over the task of a slower one that gains most. */
static __always_inline void take_over(s32 cpu)
{
	struct un_cpu *mine = cpus_of(cpu), *other;
	u32 kind = cpu_kind(cpu), i;
	u64 now = now_ns();
	s32 from = -1;
	s64 most = 0;

	if (!mine || !awaits(mine, now) || kind + 1 >= nr_types)
		return;
	bpf_for(i, 1, nr_cpus) {
		s32 at = cpu_neighbour(cpu, i);
		s64 gain;

		other = cpus_of(at);
		if (!other || cpu_kind(at) <= kind || !other->pid || other->deal ||
		    !may_run(other, cpu))
			continue;
		gain = move_gain(&other->wants, cpu_kind(at), kind);
		if (from < 0 || gain > most) {
			most = gain;
			from = at;
		}
	}
	other = cpus_of(from);
	if (from < 0 || !other || !other->pid || !deal_open(other, other->pid, cpu))
		return;
	mine->expects_ns = now;
	scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
}
