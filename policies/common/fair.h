/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fair: the callbacks of policies by virtual time. The task that has had the least CPU time, over
 * its weight, is next. A policy says in its roles what counts as CPU time, which queues there are,
 * and which of them a CPU takes from.
 */
#pragma once
#include "chassis.h"
#include "limits.h"
#include "overdue.h"
#include "sched_idle.h"
#include "task_table.h"
#include "vtime.h"

/* How a woken task is inserted on the idle CPU that it has claimed. */
#ifndef CLAIM_FLAGS
#define CLAIM_FLAGS 0
#endif

s32 OP(fair_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = limit_over(p, 0) ? -1 : roles.claim(p, prev_cpu, wake_flags);

	if (cpu < 0)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, CLAIM_FLAGS);
	return cpu;
}

void OP(fair_dispatch, s32 cpu, struct task_struct *prev)
{
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED), departs = false;

	regain_cpu(cpu, false);
	clear_leaving_cpu();
	if (goes_on)
		departs = limit_ends(prev, cpu) || (roles.depart && roles.depart(cpu, prev));
	if (roles.take(cpu, goes_on && !departs ? prev : NULL) || departs)
		return;
	if (goes_on) {
		note_idle_task(cpu, task_is_idle(prev));
		vtime_go_on(prev, roles.waits(cpu), knob_slice_ns);
		return;
	}
	regain_cpu(cpu, true);
	vacate_cpu(cpu);
	CALL(idle, cpu);
}

/*
 * A change of a task's priority or affinity stops and restarts the task, possibly from another CPU.
 * So this uses the task's CPU, not the current one.
 */
void OP(fair_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	u64 *running = roles.running_vtime ? roles.running_vtime(cpu) : NULL, vtime;
	struct task_slot_of *of = task_slots_of(p);
	u64 now = scx_bpf_now();

	CALL(start, p, of, cpu, now);
	note_idle_task(cpu, task_is_idle(p));
	vtime = vtime_start(p, of, false, now, knob_slice_ns);
	if (running)
		*running = vtime;
	CALL(started, p, cpu, now);
	limit_start(p, of, cpu);
}

void OP(fair_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);

	roles.charge(p, cpu);
	limit_stop(cpu);
}

void OP(fair_tick, struct task_struct *p)
{
	s32 cpu = this_cpu();
	u32 i;

	roles.charge(p, cpu);
	if (keep_on_leaving_cpu(p, cpu))
		return;
	CALL(follow, p, cpu);
	/* All shared queues: if all CPUs of one are idle, none of them has ticks. */
	bpf_for(i, 0, nr_shared_queues())
		queue_kick(shared_queue(i));
	queue_kick(cpu);
	regain_cpu(cpu, false);
	/*
	 * Turns are short where real-time tasks leave only part of the CPU's time. A task on the
	 * local DSQ also ends the turn, as no other CPU can take it, and so does a limit.
	 */
	if (cpu_is_taken(cpu) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0 || limit_ends(p, cpu))
		scx_bpf_task_set_slice(p, 0);
	else
		CALL(tick, p, cpu);
}

/* In enable and set_cpumask: p already has its new mask. */
static __always_inline void note_kinds(struct task_struct *p)
{
	struct task_slot *slot = roles.kinds ? task_slot(p) : NULL;

	if (!slot)
		return;
	slot->kinds = roles.kinds(p);
	if (roles.domains)
		slot->domains = roles.domains(p);
}

void OP(fair_enable, struct task_struct *p)
{
	vtime_enter(p);
	note_kinds(p);
}

void OP(fair_set_weight, struct task_struct *p, u32 weight)
{
	struct task_slot *slot = task_slot(p);

	if (slot)
		slot->weight = weight;
}

void OP(fair_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_slot *slot = task_slot(p);

	if (!slot)
		return;
	slot->cgroup = cgroup_id(to);
	slot->limit = limit_around(to);
}

s32 OP_SLEEPABLE(fair_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	s32 error = roles.enter ? roles.enter(p) : 0;

	return error ?: task_table_enter(p, args);
}

void OP(fair_disable, struct task_struct *p)
{
	limit_leave(p);
}

void OP(fair_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	limit_leave(p);
	task_table_leave(p);
}

s32 OP_SLEEPABLE(fair_init)
{
	s32 error = chassis_create();

	return error ?: limits_create();
}

/* In the kernel's dump: how far a task is from its turn. */
void OP(fair_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	struct task_slot_of *of = task_slots_of(p);

	if (!of)
		return;
	scx_bpf_dump("ahead_ns: %lld weight: %u", vtime_ahead(vtime_common(p)), p->scx.weight);
	if (of->waits_ns)
		scx_bpf_dump(" waits_ms: %llu", elapsed_ns(of->waits_ns, scx_bpf_now()) / 1000000);
	if (of->held_ns)
		scx_bpf_dump(" held_ms: %llu", elapsed_ns(of->held_ns, scx_bpf_now()) / 1000000);
}

#define FAIR_OPS                                                                                \
	CHASSIS_OPS, .select_cpu = (void *)fair_select_cpu, .dispatch = (void *)fair_dispatch,  \
		.running = (void *)fair_running, .stopping = (void *)fair_stopping,             \
		.tick = (void *)fair_tick, .dump_task = KERNEL_ONLY(fair_dump_task),            \
		.enable = (void *)fair_enable, .disable = KERNEL_ONLY(fair_disable),            \
		.set_weight = (void *)fair_set_weight, .cgroup_move = (void *)fair_cgroup_move, \
		.init_task = (void *)fair_init_task, .exit_task = (void *)fair_exit_task,       \
		.init = (void *)fair_init
