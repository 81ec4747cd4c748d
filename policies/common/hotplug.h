/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hotplug: which CPUs are there, and which a task of a higher class has taken. A policy without these callbacks is
 * thrown out when a CPU comes or goes.
 * Of a CPU that goes the kernel asks for none any more [scx_rq_online]: who waits for it in a queue of the policy's own is
 * handed back (dsq_hand_back), and it is not chosen, as its empty queue would look the shortest.
 */
#pragma once
#include "kernel.h"
#include "topology.h"

/*
 * Why a CPU is not ours: it has gone, or was not there in the beginning, which the callbacks say; or a real-time or
 * deadline task has taken it from a task of ours, which the CPU itself says, its runqueue locked; or, for some us, the
 * kernel's stopper, which sends a running task to where it may be [SCX_CPU_PREEMPT_STOP]. It counts as taken until it has
 * been back for as long as it was away, all in all, or has had nothing to do for a while: where a real-time task does not
 * let go, the kernel gives ours a twentieth of each second, from 7.0 on [ext_server], and all that is sent away by others
 * would gather on the CPU that has just had its turn.
 */
#define CPU_GONE	1U
#define CPU_TAKEN	2U

static u32 cpu_lacks[MAX_CPUS];

struct cpu_visit {
	u64 taken_ns;	/* since when it counts as taken */
	u64 left_ns;
	u64 back_ns;	/* 0: not yet */
	u64 away_ns;	/* for how long it has to be back, all in all */
	u64 idle_ns;	/* since when it has had nothing to do; 0: it has been lost since */
};

/*
 * A CPU that has run out of our tasks may be about to switch back to a real-time task: the kernel calls cpu_release in
 * the same switch, after dispatch, and a virtual CPU can be held up just there. What others send there in between
 * would stay.
 */
#define CPU_IDLES_NS (10 * 1000 * 1000ULL)

static struct cpu_visit cpu_visits[MAX_CPUS];

/* How many have gone or are taken: seldom any, and then others have to look for what waits there. */
static u32 nr_away;

/* How many were not there when the policy was loaded: nothing has ever waited for them. */
static u32 nr_missing;

/* `at` is in bounds. */
static __always_inline bool cpu_lacks_at(u32 at, u32 why)
{
	return cpu_lacks[at] & why;
}

/* The same. One that was taken when it went is away once. */
static __always_inline void cpu_leaves_at(u32 at, u32 why)
{
	if (!__sync_fetch_and_or(&cpu_lacks[at], why))
		__sync_fetch_and_add(&nr_away, 1);
}

static __always_inline void cpu_returns_at(u32 at, u32 why)
{
	if (__sync_fetch_and_and(&cpu_lacks[at], ~why) == why)
		__sync_fetch_and_add(&nr_away, -1);
}

static __always_inline bool cpu_is_taken_at(u32 at)
{
	u64 idle_ns, back_ns, now;

	if (!cpu_lacks_at(at, CPU_TAKEN))
		return false;
	now = now_ns();
	back_ns = cpu_visits[at].back_ns;
	idle_ns = cpu_visits[at].idle_ns;
	/* What the CPU itself would say if it were to look now (cpu_is_back). */
	if (back_ns && elapsed_ns(back_ns, now) >= cpu_visits[at].away_ns)
		return false;
	return !idle_ns || elapsed_ns(idle_ns, now) < CPU_IDLES_NS;
}

/* No CPU is ours alone. */
static __always_inline bool all_are_away(void)
{
	return nr_away + nr_missing >= nr_cpus;
}

/* Whether p can be put on a CPU: it may run there, and the CPU is there, and ours, as far as any is. */
static __always_inline bool cpu_takes(const struct task_struct *p, s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && !cpu_lacks_at(at, CPU_GONE) && (!cpu_is_taken_at(at) || all_are_away()) &&
	       cpu_allowed(p, cpu);
}

static __always_inline void cpu_goes(s32 cpu, bool goes)
{
	u32 at = cpu;

	barrier_var(at);
	if (at >= MAX_CPUS)
		return;
	/* The tables were made for the CPUs that were there when the policy was loaded. */
	if (!goes && (at >= nr_cpus || cpu_missing[at]))
		scx_bpf_error("a CPU came that was not there when this was loaded: load it again");
	else if (goes)
		cpu_leaves_at(at, CPU_GONE);
	else
		cpu_returns_at(at, CPU_GONE);
}

static __always_inline bool cpu_is_taken(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_is_taken_at(at);
}

static __always_inline bool cpu_is_gone(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_lacks_at(at, CPU_GONE);
}

/* Whether nothing that waits for a CPU will be run by it for now. */
static __always_inline bool cpu_is_away(s32 cpu)
{
	return cpu_is_taken(cpu) || cpu_is_gone(cpu);
}

/* In cpu_release. A function of its own to the verifier, which would else go on from each of its ways. */
__noinline int cpu_is_lost(s32 cpu)
{
	u64 now = now_ns(), here_ns;
	struct cpu_visit *visit;
	bool still_taken;
	u32 at = cpu;

	barrier_var(at);
	if (at >= MAX_CPUS)
		return 0;
	visit = &cpu_visits[at];
	here_ns = visit->back_ns ? elapsed_ns(visit->back_ns, now) : 0;
	/* Or it has been back for long enough, and nobody has looked since. */
	still_taken = cpu_lacks_at(at, CPU_TAKEN) && (!visit->back_ns || here_ns < visit->away_ns);
	visit->away_ns -= here_ns < visit->away_ns ? here_ns : visit->away_ns;
	visit->left_ns = now;
	visit->back_ns = 0;
	visit->idle_ns = 0;
	if (still_taken)
		return 0;
	visit->taken_ns = now;
	visit->away_ns = 0;
	cpu_leaves_at(at, CPU_TAKEN);
	return 0;
}

/* Whether that has happened since. */
static __always_inline bool cpu_was_lost(s32 cpu, u64 since_ns)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && elapsed_ns(since_ns, cpu_visits[at].left_ns) > 0;
}

/*
 * Whether ours lack a CPU: it has counted as taken for longer than it does after a visit of a tick, because the visit was
 * longer, or there was another one each time before it had been back for as long as it was away.
 */
static __always_inline bool cpu_is_scarce(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_is_taken_at(at) && elapsed_ns(cpu_visits[at].taken_ns, now_ns()) > 2 * tick_ns;
}

/* Longer than real-time tasks that wake often run, and shorter than the server leaves a CPU to one. */
#define CPU_KEPT_NS (100 * 1000 * 1000ULL)

/* Whether a real-time task has had the CPU for so long at a stretch that it cannot be waited for. */
static __always_inline bool cpu_is_kept(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_is_taken_at(at) && cpu_visits[at].away_ns >= CPU_KEPT_NS;
}

/*
 * In cpu_acquire, dispatch and tick: ours run there, or in dispatch, there are none. Of none the kernel's server asks
 * once more after the last one has left, in the midst of a real-time task.
 */
static __always_inline void cpu_is_back(s32 cpu, bool idles)
{
	u64 now, away_ns;
	u32 at = cpu;

	if (idles && higher_class_goes_on()) {
		cpu_is_lost(cpu);
		return;
	}
	barrier_var(at);
	if (at >= MAX_CPUS || !cpu_lacks_at(at, CPU_TAKEN))
		return;
	now = now_ns();
	if (!cpu_visits[at].back_ns) {
		away_ns = elapsed_ns(cpu_visits[at].left_ns, now);
		cpu_visits[at].back_ns = now;
		if (away_ns > cpu_visits[at].away_ns)
			cpu_visits[at].away_ns = away_ns;
	}
	if (cpu_is_taken_at(at)) {
		if (idles && !cpu_visits[at].idle_ns)
			cpu_visits[at].idle_ns = now;
		return;
	}
	cpu_returns_at(at, CPU_TAKEN);
}

/*
 * In cpu_release: what waits on this CPU's local DSQ is queued again, who ran until now among it. Later, where the
 * kernel can: this runs as a part of who ran, who counts as one that must not migrate for as long as any program
 * does, and such a task goes back to the local DSQ without `enqueue`, for the kernel's own slice of 20 ms. Who is
 * interrupted more often than that would go on for ever [do_enqueue_task, rcu_read_lock_dont_migrate].
 */
static __always_inline void cpu_sends_away(void)
{
	if (can_reenqueue())
		reenqueue_here();
	else
		scx_bpf_reenqueue_local();
}

/* Whether others are to look for what waits for a CPU: to count that for each of them would be dear where one lacks something. */
static __always_inline bool cpu_lacks_any(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return at < MAX_CPUS && cpu_lacks_at(at, CPU_GONE | CPU_TAKEN);
}

/*
 * Whether a CPU, for which `mine` wait, is to take one of the `theirs` that wait for another: of one that has gone all,
 * and of one that is scarce, too, unless it is taken itself and as many wait here. Not for each visit: nobody sends back
 * what others take meanwhile, and of a CPU that is visited often they would take one after another.
 * A function of its own to the verifier, which would else go all its ways at each step of a loop over CPUs.
 */
__noinline bool cpu_helps(s32 cpu, s32 mine, s32 other, s32 theirs)
{
	if (cpu_is_gone(other))
		return theirs > 0;
	return cpu_is_scarce(other) && theirs > (cpu_is_taken(cpu) ? mine + 1 : 0);
}

/*
 * In disable, for a task that leaves the class: where it runs, it keeps its CPU from now on, as a real-time task most
 * likely, and the kernel calls no cpu_release. From 6.19 on what waits there can be sent away all the same.
 */
static __always_inline void cpu_is_taken_by(struct task_struct *p)
{
	if (current_task() != p || !can_reenqueue())
		return;
	cpu_is_lost(scx_bpf_task_cpu(p));
	reenqueue_here();
}

/* In tick: whether real-time tasks leave us a part of the CPU's time only, so that nobody's turn there is to be long. */
static __always_inline bool cpu_is_shared(s32 cpu)
{
	cpu_is_back(cpu, false);
	return cpu_is_taken(cpu);
}

/* 1 more than a CPU that goes, and for which some may wait; 0: none. */
static u32 cpu_unasked;

/*
 * In tick and update_idle. The kernel does not ask a CPU that goes from the moment it takes no more tasks, and calls
 * cpu_offline after a grace period of RCU's [sched_cpu_deactivate]: if a reader waits for the CPU, or RCU's own thread, never.
 * So it says so itself, and another one, which is asked, hands them back (cpu_to_clear).
 */
static __always_inline void cpu_sees_itself_go(s32 cpu)
{
	u32 i;

	if (cpu_is_gone(cpu) || cpu_is_active(cpu))
		return;
	cpu_goes(cpu, true);
	cpu_unasked = cpu + 1;
	bpf_for(i, 0, nr_cpus)
		if (!cpu_is_gone(i))
			scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
}

/* In dispatch: the CPU whose queue is to be handed back by this one; -1: none. */
static __always_inline s32 cpu_to_clear(void)
{
	u32 unasked = cpu_unasked;

	return unasked && __sync_bool_compare_and_swap(&cpu_unasked, unasked, 0) ? (s32)unasked - 1 : -1;
}

#define CPU_LEFT_NS (1000 * 1000 * 1000ULL)

/*
 * In tick, with SCX_OPS_ENQ_LAST: whether this CPU goes, or comes. The kernel calls neither dispatch nor enqueue for it,
 * and leaves whom it finds there alone and without a slice on the local DSQ of a CPU that idles: the thread that takes
 * the CPU down, for good [balance_one, do_enqueue_task, local_dsq_post_enq]. It keeps its slice.
 */
static __always_inline bool cpu_is_left(struct task_struct *p)
{
	s32 cpu = this_cpu();

	cpu_sees_itself_go(cpu);
	if (!cpu_is_gone(cpu))
		return false;
	task_set_slice(p, CPU_LEFT_NS);
	return true;
}

/* In init: which are not there, or have come since the tables were made. */
static __always_inline void cpus_look(void)
{
	u32 cpu;

	bpf_for(cpu, 0, MAX_CPUS) {
		if (cpu < nr_cpus && cpu_missing[cpu] && !cpu_is_online(cpu)) {
			cpu_lacks[cpu] = CPU_GONE;
			nr_missing++;
		} else if (cpu < nr_cpus || cpu_is_online(cpu)) {
			cpu_goes(cpu, !cpu_is_online(cpu));
		}
	}
}
