/* SPDX-License-Identifier: GPL-2.0 */
/* Queue: where tasks wait, and which of them a CPU takes. In each queue the order is that of CPU time. */
#pragma once
#include "state.h"
#include "place_idle.h"

#define ARRIVES_NS 1000000	/* who takes the place of one that went home has come by then, or does not come */

/* A queue for each domain; those below are for each CPU, for tasks that may not run on all. */
static __always_inline u64 queue_of_domain(u32 domain)
{
	return MAX_CPUS + domain;
}

/* An idle CPU of a domain that p may use, now claimed; its last one first. -1: none. */
static __always_inline s32 domain_idle(struct task_struct *p, s32 prev, u32 domain)
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

/* Has a CPU of a domain whose task belongs elsewhere send it home. Whether there was one. */
static __always_inline bool domain_clear(u32 domain)
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

/* Whether somebody who comes to a domain finds a CPU there: an idle one, or one whose task belongs elsewhere. */
static __always_inline bool domain_has_room(u32 domain)
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

/* For a task that may run on some CPUs: of those of its domain, or else of all, the one for which fewest wait. */
static __always_inline u64 queue_of_bound(struct task_struct *p, s32 home)
{
	s32 best = scx_bpf_task_cpu(p), least = S32_MAX;
	u32 i;

	if (p->nr_cpus_allowed == 1)
		return best;
	if (home != NO_DOMAIN && !domain_takes(p, home))
		home = NO_DOMAIN;
	bpf_for(i, 0, nr_cpus) {
		s32 cpu = cpu_neighbour(scx_bpf_task_cpu(p), i), waiting;

		if (!cpu_takes(p, cpu) || (home != NO_DOMAIN && cpu_domain(cpu) != (u32)home))
			continue;
		waiting = scx_bpf_dsq_nr_queued(cpu);
		if (waiting < least) {
			least = waiting;
			best = cpu;
		}
	}
	return best;
}

static __always_inline void queue_up(struct task_struct *p, u64 enq_flags)
{
	s32 home = task_home(p), cpu = scx_bpf_task_cpu(p), idle;
	u32 domain = home == NO_DOMAIN ? cpu_domain(cpu) : (u32)home;
	u64 vtime = p->scx.dsq_vtime, queue;

	/* Who slept has no claim on the time of those who did not. */
	if (enq_flags & SCX_ENQ_WAKEUP)
		vtime = vtime_after(vtime, vtime_now - knob_slice_ns);
	if (p->nr_cpus_allowed >= (s32)nr_cpus)
		queue = queue_of_domain(domain);
	else
		queue = queue_of_bound(p, home);
	dsq_insert_vtime(p, queue, knob_slice_ns, vtime, enq_flags);
	if (p->nr_cpus_allowed == 1)
		return;
	idle = domain_idle(p, cpu, domain);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	else if (home == NO_DOMAIN || !domain_clear(domain))
		place_kick_idle(p);
}

/* A CPU that went idle between an insertion and the search for idle CPUs was not kicked: at a tick it is. */
static __always_inline void queue_kick(s32 cpu)
{
	u64 queue = queue_of_domain(cpu_domain(cpu));

	if (scx_bpf_dsq_nr_queued(queue) > 0)
		place_kick_for(queue);
	if (scx_bpf_dsq_nr_queued(cpu) > 0)
		place_kick_for(cpu);
}

/* The vtime of who waits first in a queue, as a distance that can be compared; S64_MAX: nobody. */
static __always_inline s64 queue_head(u64 queue)
{
	if (!scx_bpf_dsq_nr_queued(queue))
		return S64_MAX;
	return dsq_can_peek() ? (s64)(dsq_peek_vtime(queue) - vtime_now) : 0;
}

/*
 * Takes who has had the least CPU time of those that wait for this CPU or in its domain; `prev` goes on unless
 * somebody has had less. With nothing to do it takes one of another domain, for one turn: the next time that one
 * waits it does so at home again. Whether one was taken.
 */
static __always_inline bool queue_take(s32 cpu, struct task_struct *prev, bool steal)
{
	s64 least = prev ? (s64)(prev->scx.dsq_vtime - vtime_now) : S64_MAX;
	u64 domain = queue_of_domain(cpu_domain(cpu));
	s64 own = queue_head(cpu), here = queue_head(domain);
	u32 i;

	if (own < least && own <= here && dsq_move_to_local(cpu))
		return true;
	if (here < least && dsq_move_to_local(domain))
		return true;
	if (dsq_take_from_away(cpu))
		return true;
	if (prev)
		return false;
	if (dsq_move_to_local(cpu) || dsq_move_to_local(domain))
		return true;
	if (!steal)
		return false;
	bpf_for(i, 0, nr_domains) {
		u64 queue = queue_of_domain(i);

		if (scx_bpf_dsq_nr_queued(queue) && dsq_move_to_local(queue))
			return true;
	}
	bpf_for(i, 0, nr_cpus) {
		s32 other = cpu_neighbour(cpu, i);

		if (scx_bpf_dsq_nr_queued(other) && dsq_move_to_local(other))
			return true;
	}
	return false;
}
