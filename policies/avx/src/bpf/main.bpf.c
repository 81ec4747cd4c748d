/* SPDX-License-Identifier: GPL-2.0 */
/*
 * avx-fair: fair scheduling where some tasks' vector code lowers the clock of others.
 *
 * A virtual-time scheduler: the task that has had the least CPU time, over its weight, runs next.
 * It differs from other fair schedulers only in what it counts as CPU time (clock_charge.h). A task
 * whose core ran below its ideal clock because of another task's license is not charged for the
 * loss. Counters are folded at ticks and when a task stops. So the number of active cores and a
 * task's level are right to a tick.
 *
 * It suits machines where vector code and other code share cores, or a power limit. If all code is
 * alike it is an ordinary fair scheduler. A wakeup costs more than Linux's own: it looks at the
 * queues of all CPUs.
 *
 * Gottschlag, Machauer, Khalil, Bellosa: Fair Scheduling for AVX2 and AVX-512 Workloads (USENIX ATC
 * 2021).
 */
#include "state.h"
#include "fair.h"
#include "queue.h"

LICENSE;

void OP(avx_enqueue, struct task_struct *p, u64 enq_flags)
{
	if (!limit_holds(p))
		queue_up(p, enq_flags);
}

/* Called before prev's own `stopping`: prev's charge up to now decides which task is next. */
static __always_inline bool take(s32 cpu, struct task_struct *prev)
{
	if (prev)
		account(prev, cpu);
	return queue_take(cpu, prev);
}

static __always_inline bool waits(s32 cpu)
{
	return scx_bpf_dsq_nr_queued(cpu) > 0;
}

static __always_inline void started(struct task_struct *p, s32 cpu, u64 now)
{
	active_set(cpu, true);
	account_start(p, cpu, now);
}

static __always_inline void update_idle(s32 cpu, bool idle)
{
	active_set(cpu, !idle);
	if (idle && knob_source == COUNTED_MODEL)
		model_run(cpu, 0, active_cores(cpu));
}

static __always_inline void lose(s32 cpu, struct scx_cpu_release_args *args)
{
	struct clock_cpu *clock = clock_cpu_of(cpu);

	if (clock)
		observe_others(clock);
}

static __always_inline s32 enter(struct task_struct *p)
{
	return tasks_add(p) ? 0 : -ENOMEM;
}

static __always_inline void init(void)
{
#ifdef __bpf__
	if (knob_detect == DETECT_TRAP)
		scx_bpf_error("detect=trap is for --on sim: no kernel disables the registers; "
			      "have detect=observed");
#endif
	active_look();
}

static const struct roles roles = {
	.take = take,
	.waits = waits,
	.started = started,
	.charge = account,
	.claim = place_idle_near,
	.lose = lose,
	.running_vtime = running_vtime,
	.update_idle = update_idle,
	.enter = enter,
	.init = init,
};

OPS(avx) = {
	FAIR_OPS,
	.enqueue = (void *)avx_enqueue,
	.update_idle = (void *)chassis_update_idle,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ALLOW_QUEUED_WAKEUP | SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "avx",
};
