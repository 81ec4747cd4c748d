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
#include "state.h"
#include "fair.h"
#include "queue.h"

LICENSE;

/*
 * Place: an idle CPU at home. A task without a home takes one near its last CPU. When it is new,
 * its pages will be where it first touches them, so it goes where most CPUs idle.
 */
static __always_inline s32 claim_at_home(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 home = task_home(p), cpu = -1;

	if (home != NO_DOMAIN)
		cpu = domain_idle(p, prev_cpu, home);
	else if (wake_flags & SCX_WAKE_FORK)
		cpu = domain_idle(p, prev_cpu, domain_emptiest(prev_cpu));
	if (cpu < 0 && (home == NO_DOMAIN || !domain_takes(p, home)))
		cpu = place_idle_near(p, prev_cpu, wake_flags);
	return cpu;
}

void OP(dino_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (!limit_holds(p))
		queue_up(p, enq_flags);
}

/* Share: a task that is to go home leaves, although no other waits. */
static __always_inline bool depart(s32 cpu, struct task_struct *prev)
{
	struct dn_cpu *state = cpus_of(cpu);

	if (!state || state->leaves != prev->pid || migration_is_disabled(prev))
		return false;
	state->left_ns = scx_bpf_now();
	return true;
}

static __always_inline void follow(struct task_struct *p, s32 at)
{
	struct dn_cpu *cpu = cpus_of(at);

	if (cpu)
		cpu->home = task_home(p);
}

static __always_inline void start(struct task_struct *p, struct task_slot_of *of, s32 at, u64 now)
{
	struct dn_cpu *cpu = cpus_of(at);

	if (!cpu)
		return;
	cpu->pid = p->pid;
	cpu->leaves = 0;
	cpu->home = task_home(p);
	cpu->since_ns = now;
}

/* Share: a task away from home goes there once there is room, or once another one waits here. */
static __always_inline void send_home(struct task_struct *p, s32 at)
{
	struct dn_cpu *cpu = cpus_of(at);
	u32 domain = cpu_domain(at);

	if (!cpu || cpu->home == NO_DOMAIN || cpu->home == (s32)domain ||
	    !domain_takes(p, cpu->home))
		return;
	if (scx_bpf_dsq_nr_queued(queue_of_domain(domain)) > 0 || domain_has_room(cpu->home)) {
		cpu->leaves = p->pid;
		scx_bpf_task_set_slice(p, 0);
	}
}

static __always_inline void vacate(s32 cpu)
{
	struct dn_cpu *state = cpus_of(cpu);

	if (state)
		state->pid = 0;
}

void OP(dino_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	note_kinds(p);
}

static __always_inline int count_cpus(void)
{
	return count_domains(false);
}

static __always_inline u32 shared_queues(void)
{
	return nr_domains;
}

static const struct roles roles = {
	.take = queue_take,
	.waits = queue_waits,
	.start = start,
	.charge = charge,
	.claim = claim_at_home,
	.shared_queues = shared_queues,
	.vacate = vacate,
	.depart = depart,
	.follow = follow,
	.running_vtime = running_vtime,
	.tick = send_home,
	.kinds = domains_allowed,
	.count_cpus = count_cpus,
	.init = find_domains,
};

OPS(dino) = {
	FAIR_OPS,
	.enqueue = (void *)dino_enqueue,
	.update_idle = KERNEL_ONLY(chassis_update_idle),
	.set_cpumask = (void *)dino_set_cpumask,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALLOW_QUEUED_WAKEUP |
		 SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "dino",
};
