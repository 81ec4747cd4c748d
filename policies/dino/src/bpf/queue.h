/* SPDX-License-Identifier: GPL-2.0 */
/* Queue: where tasks wait, and which of them a CPU takes. Each queue is ordered by virtual time. */
#pragma once
#include "state.h"
#include "overdue.h"
#include "preempt.h"

/* A task that takes the place of one that went home arrives within this time, or not at all. */
#define ARRIVES_NS 1000000

/*
 * A queue for each domain. Lower numbers are CPUs' queues, for tasks that may not run on all CPUs.
 */
static __always_inline u64 queue_of_domain(u32 domain)
{
	return shared_queue(domain);
}

/* An idle CPU of a domain that p may use, now claimed; the last CPU first. -1: none. */
__noinline s32 domain_idle(struct task_struct *p __arg_trusted, s32 prev, u32 domain)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(prev, i);

		if (cpu_domain(cpu) == domain && cpu_takes(p, cpu) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* The domain with most idle CPUs; that of `cpu` unless another has more. */
__noinline u32 domain_emptiest(s32 cpu)
{
	u32 idle[DOMAINS_MAX] = {}, best = cpu_domain(cpu), i;

	bpf_for(i, 0, nr_cpus) {
		struct dn_cpu *other = cpus_of(i);

		if (other && !other->pid && !cpu_is_away(i))
			idle[cpu_domain(i)]++;
	}
	bpf_for(i, 0, nr_domains) {
		u32 domain = i & (DOMAINS_MAX - 1);

		barrier_var(domain);
		if (idle[domain] > idle[best])
			best = domain;
	}
	return best;
}

/*
 * Preempts a SCHED_IDLE task on a CPU of a domain, so that p gets it. Returns whether there was
 * one.
 */
__noinline bool domain_preempt_idle(struct task_struct *p __arg_trusted, s32 near, u32 domain)
{
	u32 i;

	if (!nr_run_idle || task_is_idle(p))
		return false;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(near, i);

		if (cpu_domain(cpu) == domain && claim_idle_task(p, cpu)) {
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
			return true;
		}
	}
	return false;
}

/*
 * Makes a CPU of a domain send its task home if the task belongs elsewhere. Whether there was one.
 */
__noinline bool domain_clear(u32 domain)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct dn_cpu *cpu = cpus_of(i);

		if (!cpu || cpu_domain(i) != domain || !cpu->pid || cpu->home == NO_DOMAIN ||
		    cpu->home == (s32)domain || cpu->leaves == cpu->pid)
			continue;
		cpu->leaves = cpu->pid;
		scx_bpf_kick_cpu(i, SCX_KICK_PREEMPT);
		return true;
	}
	return false;
}

/*
 * Whether a domain has a CPU for a task that comes: an idle one, or one whose task belongs
 * elsewhere.
 */
__noinline bool domain_has_room(u32 domain)
{
	bool room = false;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct dn_cpu *cpu = cpus_of(i);

		if (!cpu || cpu_domain(i) != domain || cpu_is_away(i))
			continue;
		if (!cpu->pid || (cpu->home != NO_DOMAIN && cpu->home != (s32)domain))
			room = true;
	}
	return room;
}

/*
 * The queue for a task that may not run on all CPUs: the shortest of its domain's CPUs, or else of
 * all CPUs.
 */
__noinline u64 queue_of_bound(struct task_struct *p __arg_trusted, s32 home)
{
	struct shortest best = { scx_bpf_task_cpu(p), S32_MAX };
	u32 i;

	if (p->nr_cpus_allowed == 1)
		return best.cpu;
	if (home != NO_DOMAIN && !domain_takes(p, home))
		home = NO_DOMAIN;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(scx_bpf_task_cpu(p), i);

		if (cpu_takes(p, cpu) && (home == NO_DOMAIN || cpu_domain(cpu) == (u32)home))
			shortest_look(&best, cpu);
	}
	return best.cpu;
}

/* The domain of the nearest CPU that takes p. */
__noinline u32 domain_near(struct task_struct *p __arg_trusted)
{
	s32 own = scx_bpf_task_cpu(p);
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(own, i);

		if (cpu_takes(p, cpu))
			return cpu_domain(cpu);
	}
	return cpu_domain(own);
}

/* How many tasks wait in a domain, and its number of CPUs. */
struct domain_load {
	u64 waiting;
	u64 cpus;
};

static __always_inline struct domain_load domain_load(u32 domain)
{
	u32 at = domain & (DOMAINS_MAX - 1);

	barrier_var(at);
	return (struct domain_load){ scx_bpf_dsq_nr_queued(queue_of_domain(domain)),
				     task_table.cpus[at] };
}

/*
 * Whether a task has fewer others ahead of it there, by `by` for as many CPUs. At the end of a turn
 * 1 is enough, because the next task here has left the queue by then. A woken task stays near
 * unless the difference is 2.
 */
static __always_inline bool load_is_less(const struct domain_load *there,
					 const struct domain_load *here, u64 by)
{
	return there->cpus && (there->waiting + by) * here->cpus <= here->waiting * there->cpus;
}

/*
 * Where p waits if it may run on all CPUs: at home, or without a home in the domain of the nearest
 * CPU that takes it, unless fewer wait for each CPU elsewhere. A CPU takes from other domains only
 * with nothing to run. So threads that were forked one by one, blocked, and then all got work would
 * stay piled up in one domain.
 */
static __always_inline u32 domain_for(struct task_struct *p, s32 home, u64 enq_flags)
{
	u64 by = enq_flags & SCX_ENQ_WAKEUP ? 2 : 1;
	struct domain_load least;
	u32 best, i;

	if (home != NO_DOMAIN)
		return home;
	best = domain_near(p);
	least = domain_load(best);
	bpf_for(i, 0, least.waiting < by ? 0 : nr_domains) {
		struct domain_load load = domain_load(i);

		if (load_is_less(&load, &least, by) && (!nr_away || domain_takes(p, i))) {
			best = i;
			least = load;
		}
	}
	return best;
}

/* While it has a task, a CPU takes from its own queue and from its domain's. */
static __always_inline s64 preempt_margin(s32 cpu, u64 queue)
{
	if (queue == (u32)cpu)
		return WAKEUP_NS;
	return queue == queue_of_domain(cpu_domain(cpu)) ? (s64)(knob_slice_ns / 4) : S64_MAX;
}

/*
 * Finds a CPU that comes for the queued task p: an idle one, one that runs a SCHED_IDLE task, or
 * one of the domain whose task belongs elsewhere. Whether there is one.
 */
static __always_inline bool wake_cpu_for(struct task_struct *p, u64 queue, s32 cpu, s32 home,
					 u32 domain)
{
	s32 idle;

	if (p->nr_cpus_allowed == 1)
		return preempt_idle_task(p, cpu);
	idle = domain_idle(p, cpu, domain);
	if (idle >= 0) {
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
		return true;
	}
	if (is_shared(queue) ? domain_preempt_idle(p, cpu, domain) : preempt_idle_task(p, cpu))
		return true;
	return (home != NO_DOMAIN && domain_clear(domain)) || place_kick_idle(p);
}

static __always_inline void queue_up(struct task_struct *p, u64 enq_flags)
{
	s32 home = task_home(p), cpu = scx_bpf_task_cpu(p);
	u64 queue, vtime;
	u32 domain;

	if (goes_anywhere(p)) {
		domain = domain_for(p, home, enq_flags);
		queue = queue_of_domain(domain);
	} else {
		/* This CPU looks first, if it is idle: others may be about to get another task. */
		queue = cpu = queue_of_bound(p, home);
		domain = cpu_domain(cpu);
	}
	vtime = vtime_insert(p, queue, enq_flags, knob_slice_ns);
	/*
	 * p was to go home, and cannot. Its CPU has no other task, and does not look again before
	 * it idles [put_prev_task_scx].
	 */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
	if (wake_cpu_for(p, queue, cpu, home, domain))
		return;
	if (may_preempt(p, enq_flags))
		preempt_for(queue, vtime, true);
	if (p->nr_cpus_allowed != 1)
		cpu_queue_kick(p, cpu);
}

/* Takes the first task of a queue, if there is one. Not inlined: the verifier walks it once. */
__noinline bool take_first(u64 queue)
{
	return limit_take_first(queue);
}

/* The distance of a queue's first task from vtime_now; S64_MAX: the queue is empty. */
__noinline s64 head_of(u64 queue)
{
	return vtime_head(queue);
}

/*
 * Takes a task whose distance from vtime_now is below `least`, and that waits in a domain without
 * an available CPU. Returns whether there was one.
 */
__noinline bool take_from_domain_away(s64 least)
{
	u64 there = 0;
	u32 i;

	if (!nr_away)
		return false;
	bpf_for(i, 0, nr_cpus)
		if (!cpu_is_away(i))
			there |= 1ULL << (cpu_domain(i) & (DOMAINS_MAX - 1));
	bpf_for(i, 0, nr_domains) {
		u64 queue = queue_of_domain(i);

		if (!(there >> (i & (DOMAINS_MAX - 1)) & 1) && head_of(queue) < least &&
		    take_first(queue))
			return true;
	}
	return false;
}

/* Whether a task waits for this CPU or in its domain. */
static __always_inline bool queue_waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) > 0 ||
	       scx_bpf_dsq_nr_queued(queue_of_domain(cpu_domain(cpu))) > 0;
}

/*
 * Takes the task with the least CPU time of those that wait for this CPU or in its domain. `prev`
 * continues unless a task has had less. With nothing to run, the CPU takes a task of another domain
 * for one turn: afterwards that task waits at home again. Returns whether a task was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev)
{
	struct dn_cpu *state = cpus_of(cpu);
	s64 least = prev ? vtime_ahead(vtime_common(prev)) : S64_MAX;
	u64 domain = queue_of_domain(cpu_domain(cpu));
	s64 own = head_of(cpu), here = head_of(domain), first = own < here ? own : here;
	u32 i;

	if (take_forgotten(cpu, domain, 1, knob_slice_ns, scx_bpf_now()))
		return true;
	if (least < first)
		first = least;
	if (take_overdue(cpu, first, knob_slice_ns) || take_from_domain_away(first))
		return true;
	if (own < least && own <= here && take_first(cpu))
		return true;
	if (here < least && take_first(domain))
		return true;
	if (cpu_queue_take_from_away(cpu))
		return true;
	if (prev)
		return false;
	if (take_first(cpu) || take_first(domain))
		return true;
	/* A task that takes the place of one that went home is on its way. */
	if (!state || elapsed_ns(state->left_ns, scx_bpf_now()) <= ARRIVES_NS)
		return false;
	bpf_for(i, 0, nr_domains) {
		u64 queue = queue_of_domain(i);

		if (scx_bpf_dsq_nr_queued(queue) && take_first(queue))
			return true;
	}
	return cpu_queue_take_near(cpu, true);
}
