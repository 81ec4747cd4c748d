/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shares of uneven cores: each task gets the part of its CPU time on each kind of core that the
 * control plane has computed for it.
 *
 * A running task earns its share of every kind, and pays for the kind that it runs on. Tasks on
 * different kinds change places if that brings both nearer to their shares by half a round. So a
 * machine with one task for each CPU rotates them although none waits. A waiting task is in the
 * queue of the kind that it is most behind on, in the order of CPU time. A CPU takes from another
 * queue if its own is empty, or if the other one's head is far behind. An idle fast CPU takes over
 * a task that runs on a slow one. So no CPU idles while a task that it may run waits, and shares
 * are kept to within about a round.
 *
 * Kim, Huh: Fairness-oriented Scheduling Support for Multicore Systems (slide 11: rounds and
 * swaps).
 */
#include "state.h"
#include "fair.h"
#include "exchange.h"
#include "queue.h"

LICENSE;

/* Place: an idle CPU for a woken task, of the kind that it gets next if there is one. */
static __always_inline s32 claim_of_kind(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct un_task *task = tasks_of(p);
	u32 kind = task ? share_next(&task->wants, nr_types) : 0, i;
	s32 cpu;

	bpf_for(i, 0, nr_cpus) {
		cpu = cpu_neighbour(prev_cpu, i);
		if (cpu_kind(cpu) == kind && cpu_takes(p, cpu) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return place_idle_near(p, prev_cpu, wake_flags);
}

/* A task with a deal goes to the CPU of the deal; any other waits in the queue of its kind. */
void OP(uneven_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 here = scx_bpf_task_cpu(p);

	if (limit_holds(p) || deal_follow(p, here) >= 0)
		return;
	queue_up(p, enq_flags);
	/*
	 * p was to leave, and cannot. Its CPU has no other task, and does not look again before it
	 * idles [put_prev_task_scx].
	 */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(here, SCX_KICK_IDLE);
}

/* Share: a task with a deal leaves, although no other waits (slide 11: swaps). */
static __always_inline bool depart(s32 cpu, struct task_struct *prev)
{
	struct share_cpu *state = share_cpu_of(cpu);

	return state && deal_pid(state->deal) == prev->pid && !migration_is_disabled(prev);
}

static __always_inline void start(struct task_struct *p, struct task_slot_of *of, s32 at, u64 now)
{
	struct un_cpu *cpu = cpus_of(at);
	struct un_task *task = tasks_of(p);

	if (!cpu)
		return;
	cpu->share.deal = 0;
	cpu->share.pid = p->pid;
	may_note(&cpu->share, p);
	if (task)
		cpu->share.wants = task->wants;
	cpu->since_ns = now;
	cpu->counted = count_now(at);
}

static __always_inline void vacate(s32 cpu)
{
	struct share_cpu *state = share_cpu_of(cpu);

	if (state)
		state->pid = 0;
}

static __always_inline s32 enter(struct task_struct *p)
{
	return tasks_add(p) ? 0 : -ENOMEM;
}

void OP(uneven_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	note_kinds(p);
}

static __always_inline u32 shared_queues(void)
{
	return nr_types;
}

static const struct roles roles = {
	.take = queue_take,
	.waits = queue_waits,
	.start = start,
	.running_vtime = running_vtime,
	.charge = charge,
	.claim = claim_of_kind,
	.shared_queues = shared_queues,
	.vacate = vacate,
	.depart = depart,
	.idle = take_over,
	.tick = exchange,
	.kinds = kinds_allowed,
	.count_cpus = count_kinds,
	.enter = enter,
};

OPS(uneven) = {
	FAIR_OPS,
	.enqueue = (void *)uneven_enqueue,
	.update_idle = KERNEL_ONLY(chassis_update_idle),
	.set_cpumask = (void *)uneven_set_cpumask,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALLOW_QUEUED_WAKEUP |
		 SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "uneven",
};
