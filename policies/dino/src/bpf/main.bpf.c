/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory domains: each task runs in the domain that the control plane has chosen for it.
 *
 * A task belongs to a domain, not to a CPU. It takes any idle CPU of its domain. If none is idle,
 * it waits in the domain's queue, which is ordered by CPU time. A CPU with nothing to run takes a
 * task of another domain for a turn, so no CPU idles while a task that it may run waits.
 *
 * A task that runs away from home goes back at a tick, once a CPU of its domain is idle or runs a
 * task of another domain. So tasks that were given each other's domains change places although none
 * waits. A task without a domain runs where the kernel would put it. It waits in the nearest
 * domain, unless fewer wait for each CPU of another. No task runs outside its own affinity mask.
 *
 * It does not work well in the first second or so after a change of the load: only the control
 * plane moves tasks to another domain for good.
 *
 * Blagodurov, Zhuravlev, Dashti, Fedorova: A Case for NUMA-aware Contention Management on Multicore
 * Systems.
 */
#include "kernel.h"
#include "topology.h"
#include "exit.h"
#include "state.h"
#include "queue.h"

LICENSE;

s32 OP(dino_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 home = task_home(p), cpu = -1;

	if (home != NO_DOMAIN)
		cpu = domain_idle(p, prev_cpu, home);
	else if (wake_flags & SCX_WAKE_FORK) /* its pages will be where it first touches them */
		cpu = domain_idle(p, prev_cpu, domain_emptiest(prev_cpu));
	if (cpu < 0 && (home == NO_DOMAIN || !domain_takes(p, home)))
		cpu = place_idle_near(p, prev_cpu, wake_flags);
	if (cpu < 0)
		return prev_cpu;
	dsq_insert(p, SCX_DSQ_LOCAL, knob_slice_ns, 0);
	return cpu;
}

void OP(dino_enqueue, struct task_struct *p, u64 enq_flags)
{
	queue_up(p, enq_flags);
}

void OP(dino_dispatch, s32 cpu, struct task_struct *prev)
{
	struct dn_cpu *state = cpus_of(cpu);
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	bool goes_home =
		state && goes_on && state->leaves == prev->pid && !migration_is_disabled(prev);

	if (!state)
		return;
	cpu_is_back(cpu, false);
	cpu_queue_clear_unasked();
	if (goes_home)
		state->left_ns = now_ns();
	if (queue_take(cpu, goes_on && !goes_home ? prev : NULL,
		       !goes_home && elapsed_ns(state->left_ns, now_ns()) > ARRIVES_NS) ||
	    goes_home)
		return;
	if (goes_on) {
		cpu_note_idle_task(cpu, task_is_idle(prev));
		vtime_goes_on(prev, queue_waits(cpu), knob_slice_ns);
		return;
	}
	cpu_is_back(cpu, true);
	state->pid = 0;
}

/*
 * A change of a task's priority or affinity stops and restarts the task, possibly from another CPU.
 * So this uses the task's CPU, not the current one.
 */
void OP(dino_running, struct task_struct *p)
{
	s32 at = scx_bpf_task_cpu(p);
	struct dn_cpu *cpu = cpus_of(at);

	if (!cpu)
		return;
	cpu->pid = p->pid;
	cpu->leaves = 0;
	cpu->home = task_home(p);
	cpu->since_ns = now_ns();
	cpu_note_idle_task(at, task_is_idle(p));
	vtime_starts(p, knob_slice_ns);
}

void OP(dino_stopping, struct task_struct *p, bool runnable)
{
	s32 at = scx_bpf_task_cpu(p);
	struct dn_cpu *cpu = cpus_of(at);

	if (cpu)
		charge(p, cpu, at);
}

void OP(dino_tick, struct task_struct *p)
{
	struct dn_cpu *cpu = cpus_of(this_cpu());
	u32 domain = cpu_domain(this_cpu()), i;

	if (!cpu)
		return;
	charge(p, cpu, this_cpu());
	if (cpu_is_left(p))
		return;
	cpu->home = task_home(p);
	/* All domains: if all CPUs of one are idle, none of them has ticks. */
	bpf_for(i, 0, nr_domains)
		queue_kick(queue_of_domain(i));
	queue_kick(this_cpu());
	/* A task on the local DSQ also ends the slice: no other CPU can take it. */
	if (cpu_is_shared(this_cpu()) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0) {
		task_set_slice(p, 0);
		return;
	}
	if (cpu->home == NO_DOMAIN || cpu->home == (s32)domain || !domain_takes(p, cpu->home))
		return;
	if (scx_bpf_dsq_nr_queued(queue_of_domain(domain)) > 0 || domain_has_room(cpu->home)) {
		cpu->leaves = p->pid;
		task_set_slice(p, 0);
	}
}

/* A CPU that goes offline may get no other callback any more. */
void OP(dino_update_idle, s32 cpu, bool idle)
{
	if (idle)
		cpu_sees_itself_go(cpu);
}

void OP(dino_set_weight, struct task_struct *p, u32 weight)
{
	task_table_weighs(p, weight);
}

/* p's affinity has changed: p already has the new mask. */
void OP(dino_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	struct task_slot *slot = task_slot(p);

	if (slot)
		slot->kinds = domains_allowed(p);
}

void OP(dino_enable, struct task_struct *p)
{
	struct task_slot *slot = task_slot(p);

	vtime_enters(p);
	if (slot)
		slot->kinds = domains_allowed(p);
}

s32 OP_SLEEPABLE(dino_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	return task_table_enter(p, args);
}

void OP(dino_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	task_table_leave(p);
}

/* A real-time or deadline task takes the CPU: re-enqueues the tasks waiting there, elsewhere. */
void OP(dino_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct dn_cpu *state = cpus_of(cpu);

	cpu_is_lost(cpu);
	if (state)
		state->pid = 0;
	cpu_sends_away();
}

void OP(dino_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	cpu_is_back(cpu, false);
}

void OP_SLEEPABLE(dino_cpu_online, s32 cpu)
{
	cpu_goes(cpu, false);
	cpus_count();
}

void OP(dino_cpu_offline, s32 cpu)
{
	struct dn_cpu *state = cpus_of(cpu);

	cpu_goes(cpu, true);
	dsq_hand_back(cpu, cpu);
	cpus_count();
	if (state)
		state->pid = 0;
}

s32 OP_SLEEPABLE(dino_init)
{
	s32 error;
	u32 i;

	cpus_look();
	domains_look();
	cpus_count();
	error = cpu_queues_create();
	if (error)
		return error;
	bpf_for(i, 0, nr_domains) {
		error = scx_bpf_create_dsq(queue_of_domain(i), -1);
		if (error)
			return error;
	}
	return 0;
}

void OP(dino_exit, struct scx_exit_info *info)
{
	record_exit(info);
}

OPS(dino) = {
	.select_cpu = (void *)dino_select_cpu,
	.enqueue = (void *)dino_enqueue,
	.dispatch = (void *)dino_dispatch,
	.running = (void *)dino_running,
	.stopping = (void *)dino_stopping,
	.tick = (void *)dino_tick,
	.update_idle = KERNEL_ONLY(dino_update_idle),
	.set_weight = (void *)dino_set_weight,
	.set_cpumask = (void *)dino_set_cpumask,
	.enable = (void *)dino_enable,
	.init_task = (void *)dino_init_task,
	.exit_task = (void *)dino_exit_task,
	.cpu_acquire = (void *)dino_cpu_acquire,
	.cpu_release = (void *)dino_cpu_release,
	.cpu_online = (void *)dino_cpu_online,
	.cpu_offline = (void *)dino_cpu_offline,
	.init = (void *)dino_init,
	.exit = (void *)dino_exit,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALLOW_QUEUED_WAKEUP |
		 SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dino",
	.exit_dump_len = EXIT_DUMP_LEN,
};
