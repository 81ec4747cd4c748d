/* SPDX-License-Identifier: GPL-2.0 */
/*
 * paceline: the mechanisms of five papers in one scheduler, each where it pays.
 *
 * Place: a task belongs to a memory domain (DINO) where there are several and counters tell which
 * threads miss most. Share: within it a task gets its part of each kind of core (min-fair) where
 * kinds differ. Charge: a task does not pay for what others take from its clock (avx-fair) where
 * clocks depend on neighbours. Order: the task with the least CPU time by weight is next on its
 * CPU. A woken task takes an idle CPU at once, without any queue, or that of a running task that
 * has had more.
 *
 * Where mechanisms disagree, affinity goes over everything, the bound on waits over fairness,
 * fairness over the domain, and the domain over the kind.
 */
#include "state.h"
/* A task that another CPU sends there at the same time comes second. */
#define CLAIM_FLAGS SCX_ENQ_PREEMPT
#include "fair.h"
#include "queue.h"

LICENSE;

/*
 * A task whose cgroup has had its CPU time waits for the next period. One with a deal goes to the
 * CPU of the deal. Any other waits for a CPU.
 */
void OP(paceline_enqueue, struct task_struct *p, u64 enq_flags)
{
	s32 here = scx_bpf_task_cpu(p);

	if (limit_holds(p) || (shares_kinds() && leave_by_deal(p, here)))
		return;
	queue_up(p, here, enq_flags);
	/* Its CPU has no other task, and does not look again before it idles. */
	if (enq_flags & SCX_ENQ_LAST)
		scx_bpf_kick_cpu(here, SCX_KICK_IDLE);
}

/* Share: a task with a deal leaves, and one that is to go home, although no other waits. */
static __always_inline bool depart(s32 cpu, struct task_struct *prev)
{
	struct pl_cpu *state = cpus_of(cpu);

	if (!state || migration_is_disabled(prev))
		return false;
	if (state->leaves == prev->pid) {
		state->left_ns = scx_bpf_now();
		return true;
	}
	return shares_kinds() && deal_pid(state->share.deal) == prev->pid;
}

/*
 * Called before prev's own `stopping`: what it has had up to now decides which task is next, if
 * others wait here. It does not if a woken task preempts it.
 */
static __always_inline bool take(s32 cpu, struct task_struct *prev)
{
	struct pl_cpu *state = cpus_of(cpu);

	if (prev && state && !is_preempted(state) && queue_waits(cpu))
		charge_time(prev, cpu);
	return queue_take(cpu, prev);
}

static __always_inline void start(struct task_struct *p, struct task_slot_of *of, s32 at, u64 now)
{
	struct pl_cpu *cpu = cpus_of(at);
	struct pl_task *task = shares_kinds() ? tasks_of(p) : NULL;
	bool by_deal;

	if (!cpu)
		return;
	by_deal = task && expects(&cpu->share, now);
	if (of)
		vtime_note_sleep(of, short_turn());
	note_turns(cpu, of);
	if (has_moved(of, at))
		cpu->floor = VTIME_IDLE;
	/* One that takes the place of another goes on with its turn. */
	if (!by_deal || elapsed_ns(cpu->began_ns, now) >= knob_slice_ns)
		cpu->began_ns = now;
	cpu->since_ns = now;
	cpu->leaves = 0;
	cpu->passed = false;
	if (orders_contexts() && p->mm)
		cpu->mm = has_siblings(p) ? (u64)p->mm : 0;
	cpu->home = has_homes() ? home_in(p, slot_in(of)) : NO_DOMAIN;
	cpu->share.deal = 0;
	cpu->share.pid = p->pid;
	if (counts_work() && at == this_cpu())
		cpu->counted = cpu_count();
	if (!task)
		return;
	/*
	 * A woken task has come to this CPU beside the one with the deal: one of them looks for
	 * another CPU.
	 */
	if (by_deal && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | at))
		scx_bpf_kick_cpu(at, SCX_KICK_PREEMPT);
	cpu->share.expects_ns = 0; /* it is here */
	may_note(&cpu->share, p);
	cpu->share.wants = task->wants;
}

static __always_inline void follow(struct task_struct *p, s32 at)
{
	struct pl_cpu *cpu = cpus_of(at);

	if (!cpu)
		return;
	cpu->home = home_of(p);
	/* a task may have been queued just when this CPU found its queue empty */
	cpu->filled = queue_waits(at);
}

/* Whether a domain has a CPU for a task that comes: idle, or with a task that belongs elsewhere. */
__noinline bool has_room(u32 domain)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct pl_cpu *cpu = cpu_domain(i) == domain && !cpu_is_away(i) ? cpus_of(i) : NULL;

		if (cpu &&
		    (!cpu->share.pid || (cpu->home != NO_DOMAIN && cpu->home != (s32)domain)))
			return true;
	}
	return false;
}

/*
 * A task away from home goes there once there is room, or once another one waits here. At home it
 * swaps with a task on another kind of core if both come nearer to their shares.
 */
static __always_inline void move_on(struct task_struct *p, s32 at)
{
	struct pl_cpu *cpu = cpus_of(at);
	s32 home = cpu ? cpu->home : NO_DOMAIN;

	if (!cpu)
		return;
	if (is_overtaken(at, p)) {
		scx_bpf_task_set_slice(p, 0);
		return;
	}
	if (home == NO_DOMAIN || home == (s32)cpu_domain(at)) {
		if (shares_kinds() && !cpu->share.brief)
			exchange(p, at);
		return;
	}
	if (!domain_takes(p, home) || (!has_room(home) && !queue_waits(at)))
		return;
	cpu->leaves = p->pid;
	scx_bpf_task_set_slice(p, 0);
}

static __always_inline void idle(s32 cpu)
{
	if (shares_kinds())
		take_over(cpu);
}

static __always_inline void started(struct task_struct *p, s32 at, u64 now)
{
	struct pl_cpu *cpu = cpus_of(at);

	if (!cpu)
		return;
	cpu->present = cpu->vtime;
	cpu->floor = floor_after(cpu);
	if (cpu->filled)
		await_look(at, cpu, now);
	if (knows_clocks())
		active_set(at, true);
	if (charges_clocks())
		clock_start(p, at, now);
}

static __always_inline void update_idle(s32 cpu, bool idle)
{
	if (knows_clocks())
		active_set(cpu, !idle);
}

static __always_inline void lose(s32 cpu, struct scx_cpu_release_args *args)
{
	struct clock_cpu *clock = charges_clocks() ? clock_cpu_of(cpu) : NULL;

	if (clock)
		observe_others(clock);
}

static __always_inline void init(void)
{
	find_domains();
	if (knows_clocks())
		active_look();
}

static __always_inline void vacate(s32 cpu)
{
	struct pl_cpu *state = cpus_of(cpu);

	if (!state)
		return;
	state->share.pid = 0;
	state->light = false;
	state->present = state->floor = VTIME_IDLE;
}

static __always_inline s32 create(void)
{
	s32 error = create_queues(0);

	return error ?: turn_timers_create();
}

static __always_inline s32 enter(struct task_struct *p)
{
	return tasks_add(p) ? 0 : -ENOMEM;
}

void OP(paceline_set_cpumask, struct task_struct *p, const struct cpumask *mask)
{
	note_kinds(p);
}

static const struct roles roles = {
	.take = take,
	.waits = queue_waits,
	.start = start,
	.started = started,
	.charge = charge_time,
	.claim = claim,
	.taker = taker,
	.running_vtime = running_vtime,
	.lose = lose,
	.vacate = vacate,
	.update_idle = update_idle,
	.depart = depart,
	.idle = idle,
	.follow = follow,
	.tick = move_on,
	.kinds = kinds_of,
	.domains = domains_allowed,
	.count_cpus = count_places,
	.enter = enter,
	.create = create,
	.init = init,
};

OPS(paceline) = {
	FAIR_OPS,
	.enqueue = (void *)paceline_enqueue,
	.update_idle = (void *)chassis_update_idle,
	.set_cpumask = (void *)paceline_set_cpumask,
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ALLOW_QUEUED_WAKEUP |
		 SCX_OPS_KEEP_BUILTIN_IDLE,
	.name = "paceline",
};
