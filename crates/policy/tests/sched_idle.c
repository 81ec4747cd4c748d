/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of sched_idle.h, for sched_idle.rs to call. */
#include "topology.h"
#include "sched_idle.h"

EXPORT bool is_idle(u32 policy)
{
	struct task_struct p = { .policy = policy };

	return task_is_idle(&p);
}

EXPORT bool preempts(u32 policy)
{
	struct task_struct p = { .policy = policy };

	return task_preempts(&p);
}

EXPORT u64 slice(u64 slice_ns)
{
	return idle_slice(slice_ns);
}

EXPORT u64 gap(u32 waiting, u64 tick)
{
	return idle_gap(waiting, tick);
}

static bool allowed(struct kernel *k, const struct task_struct *p, s32 cpu)
{
	return cpu < p->nr_cpus_allowed;
}

static struct kernel test_kernel = { .cpu_allowed = allowed };

EXPORT void start(void)
{
	kernel = &test_kernel;
	nr_cpus = 4;
}

EXPORT void runs(s32 cpu, bool idle)
{
	note_idle_task(cpu, idle);
}

EXPORT u32 how_many_run(void)
{
	return nr_run_idle;
}

/* For a task that may run on the first `cpus` CPUs. */
EXPORT s32 claim(u32 policy, s32 cpus, s32 from)
{
	struct task_struct p = { .policy = policy, .nr_cpus_allowed = cpus };

	return claim_cpu_of_idle_task(&p, from);
}
