/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Overdue tasks, in policies by virtual time. First, tasks that wait for an unavailable CPU and
 * have had less than all tasks that wait here. Second, tasks that have waited for too long,
 * whatever CPU time they have had.
 */
#pragma once
#include "cpu_queue.h"
#include "vtime.h"

/* Not inlined, like the search below: the verifier walks each once. */
__noinline bool take_overdue_elsewhere(s32 cpu, s64 least, u64 slice_ns)
{
	u32 i;

	bpf_for(i, 1, nr_cpus) {
		s32 other = cpu_neighbour(cpu, i);

		if (cpu_queue_helps(cpu, other) && vtime_head(other) < least &&
		    vtime_take(other, slice_ns))
			return true;
	}
	return false;
}

/*
 * Takes a task of an unavailable CPU whose distance from vtime_now is below `least`. A task that
 * waits for an offline CPU can only run elsewhere. A CPU whose own queue is never empty would
 * otherwise never look there.
 */
static __always_inline bool take_overdue(s32 cpu, s64 least, u64 slice_ns)
{
	return nr_away && take_overdue_elsewhere(cpu, least, slice_ns);
}

/*
 * Virtual time alone does not bound a wait. A task a few slices ahead of 40 others gets its turn
 * when each of them has had those slices. If real-time tasks leave a twentieth of the CPU, that
 * exceeds the 21 s after which RCU complains of the task, and the watchdog's 30 s. So a CPU looks
 * this often for tasks that have waited for too long. While there are any, every other turn goes to
 * such a task, the longest wait first. A task that the kernel waits for (vtime_is_waited_for) comes
 * before all of these once it has waited for VTIME_LEADS_IN slices.
 */
#define FORGOTTEN_LOOKS_NS (250 * 1000 * 1000ULL)

static u64 forgotten_looked_ns[MAX_CPUS];

/* A task that has waited since before these times has waited for too long. */
struct forgotten {
	u64 too_long_ns;
	u64 leads_ns; /* for tasks that the kernel waits for */
	u64 idle_ns; /* for SCHED_IDLE tasks */
};

/*
 * Since when a due SCHED_IDLE task counts as waiting: other tasks that wait for too long go first.
 */
static __always_inline u64 forgotten_idle_ns(const struct forgotten *of)
{
	return of->too_long_ns - 1;
}

/*
 * Since when the waiting task p counts as waiting; 0 if it may not run here. If the kernel waits
 * for p, and has since before `leads_ns`, the time lies far in the past. A SCHED_IDLE task is due
 * sooner than others.
 */
static __always_inline u64 forgotten_since(struct task_struct *p, s32 cpu,
					   const struct forgotten *than)
{
	struct task_slot_of *of = task_slots_of(p);

	if (!of || !cpu_allowed(p, cpu) || (migration_is_disabled(p) && scx_bpf_task_cpu(p) != cpu))
		return 0;
	if (of->waits_ns && (s64)(of->waits_ns - than->leads_ns) < 0 && vtime_is_waited_for(p))
		return of->waits_ns - VTIME_LEAD;
	if (task_is_idle(p) && of->waits_ns && (s64)(of->waits_ns - than->idle_ns) < 0 &&
	    (s64)(of->waits_ns - than->too_long_ns) >= 0)
		return forgotten_idle_ns(than);
	return of->waits_ns;
}

/* The longest wait in a queue, as the time since when, if that is earlier than `since_ns`. */
static __always_inline u64 forgotten_first(u64 queue, s32 cpu, u64 since_ns,
					   const struct forgotten *than)
{
	struct task_struct *p;

	dsq_for_each(p, queue)
	{
		u64 waits_ns = forgotten_since(p, cpu, than);

		if (waits_ns && (s64)(waits_ns - since_ns) < 0)
			since_ns = waits_ns;
	}
	return since_ns;
}

static __always_inline bool forgotten_take(u64 queue, s32 cpu, u64 since_ns,
					   const struct forgotten *than)
{
	struct task_struct *p;

	dsq_for_each(p, queue) if (forgotten_since(p, cpu, than) == since_ns &&
				   dsq_take(p, queue)) return true;
	return false;
}

__noinline bool look_for_forgotten(s32 cpu, u64 shared, u32 nr, u64 slice_ns, u64 now)
{
	struct forgotten than = { now - VTIME_WAITS_NS, now - VTIME_LEADS_IN * slice_ns,
				  now - IDLE_WAITS_NS };
	u64 first, queue = cpu;
	u32 at = cpu_index(cpu), i;

	if (at >= MAX_CPUS)
		return false;
	barrier_var(at); /* else the verifier sees the address computed before the bound */
	first = forgotten_first(queue, cpu, than.too_long_ns, &than);
	bpf_for(i, 0, nr) {
		u64 since_ns = forgotten_first(shared + i, cpu, first, &than);

		if (since_ns != first) {
			first = since_ns;
			queue = shared + i;
		}
	}
	forgotten_looked_ns[at] = now;
	if (first == than.too_long_ns)
		return false;
	/*
	 * One SCHED_IDLE task for each look, so that many of them get only a few percent of the
	 * CPU.
	 */
	if (first == forgotten_idle_ns(&than))
		return forgotten_take(queue, cpu, first, &than);
	/*
	 * Look again in the turn after the next. Turns last a tick where real-time tasks leave
	 * little time [fair_tick].
	 */
	forgotten_looked_ns[at] -=
		FORGOTTEN_LOOKS_NS - 3 * (cpu_is_taken(at) ? tick_ns : slice_ns) / 2;
	return forgotten_take(queue, cpu, first, &than);
}

/* Takes one from this CPU's own queue, or `nr` queues from `shared` on. Whether there was one. */
static __always_inline bool take_forgotten(s32 cpu, u64 shared, u32 nr, u64 slice_ns, u64 now)
{
	u32 at = cpu_index(cpu);

	if (at >= MAX_CPUS)
		return false;
	return elapsed_ns(forgotten_looked_ns[at], now) >= FORGOTTEN_LOOKS_NS &&
	       look_for_forgotten(cpu, shared, nr, slice_ns, now);
}
