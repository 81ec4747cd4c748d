/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rr: Linux's round-robin class with the locks that FLSCHED counts.
 *
 * Placement and queues are FLSCHED's: a nearby idle CPU, a local queue for each CPU, a fixed slice.
 * It differs by what FLSCHED removed (rt_locks.h). Run time is added up under a lock at each switch
 * and tick. A period timer visits all CPUs. A CPU that used up its allowance borrows from the
 * others. The allowance is counted but not enforced: throttling would take 5 % of a busy CPU, which
 * has nothing to do with locks.
 */
#include "kernel.h"
#include "topology.h"
#include "exit.h"
#include "place_idle.h"
#include "rt_locks.h"
#include "task_table.h"

LICENSE;

TUNABLE u64 knob_slice_ns = 100000000; /* DEF_TIMESLICE */

s32 OP(rr_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place_idle_near(p, prev_cpu, wake_flags);

	rt_start_bandwidth(scx_bpf_now());
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu >= 0 ? cpu : prev_cpu;
}

void OP(rr_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, enq_flags);
}

/* Charges a task's run time to its slot of the task table, and to its CPU's allowance. */
static __always_inline void charge(struct task_struct *p, u64 now)
{
	u64 ran_ns = rt_update_curr(scx_bpf_task_cpu(p), now);
	struct task_slot *slot = task_slot(p);

	if (slot)
		slot->runtime_ns += ran_ns;
}

void OP(rr_tick, struct task_struct *p)
{
	u64 now = scx_bpf_now();

	charge(p, now);
	rt_period(now);
}

void OP(rr_running, struct task_struct *p)
{
	struct rt_rq *rt = rt_rqs_of(scx_bpf_task_cpu(p));

	if (rt)
		rt->start_ns = scx_bpf_now();
}

void OP(rr_stopping, struct task_struct *p, bool runnable)
{
	charge(p, scx_bpf_now());
}

void OP(rr_cpu_online, s32 cpu)
{
	rt_enable_runtime(cpu);
}

void OP(rr_cpu_offline, s32 cpu)
{
	rt_disable_runtime(cpu);
}

s32 OP_SLEEPABLE(rr_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return task_table_enter(p, args);
}

void OP(rr_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	task_table_leave(p);
}

OPS(rr) = {
	.select_cpu = (void *)rr_select_cpu,
	.enqueue = (void *)rr_enqueue,
	.tick = (void *)rr_tick,
	.running = (void *)rr_running,
	.stopping = (void *)rr_stopping,
	.cpu_online = (void *)rr_cpu_online,
	.cpu_offline = (void *)rr_cpu_offline,
	.init_task = (void *)rr_init_task,
	.exit_task = (void *)rr_exit_task,
	.exit = (void *)record_exit,
	.flags = SCX_OPS_ALLOW_QUEUED_WAKEUP,
	.name = "rr",
};
