/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CPUs: which are online, and which a task of a higher class has taken.
 *
 * The kernel unloads a policy without cpu_online and cpu_offline when a CPU goes offline or comes
 * online. It stops calling dispatch for a CPU that goes offline [scx_rq_online]. So the tasks that
 * wait for the CPU are handed back (dsq_hand_back). The CPU is not chosen any more, else its empty
 * queue would look the shortest.
 */
#pragma once
#include "kernel.h"
#include "topology.h"

/*
 * Why a CPU is unavailable. CPU_GONE: it is offline, or was when the policy was loaded; the
 * callbacks say so. CPU_TAKEN: a real-time or deadline task preempted a task of ours there; the CPU
 * itself notes this, with its runqueue locked. The kernel's stopper, which migrates a running task,
 * also sets it for some us [SCX_CPU_PREEMPT_STOP].
 *
 * A CPU counts as taken until it has been back, in total, for as long as it was taken, or until it
 * has had nothing to run for a while. If a real-time task never blocks, the kernel gives our tasks
 * a twentieth of each second, from 7.0 on [ext_server]. Without this rule, all tasks sent away by
 * other CPUs would gather on the CPU that has just had its turn.
 */
#define CPU_GONE  1U
#define CPU_TAKEN 2U

static u32 cpu_lack[MAX_CPUS];

struct cpu_visit { /* one stay of a higher class on a CPU */
	u64 taken_ns; /* since when the CPU counts as taken */
	u64 left_ns; /* when the CPU was last taken from us */
	u64 back_ns; /* when we got it back; 0: not yet */
	u64 away_ns; /* how long it has to be back, in total */
	u64 idle_ns; /* since when it has had nothing to run; 0: it was taken since */
};

static struct cpu_visit cpu_visits[MAX_CPUS];

/*
 * A CPU that has run out of our tasks may be about to switch back to a real-time task. The kernel
 * calls cpu_release in the same switch, after dispatch, and a virtual CPU can be delayed between
 * the two. Tasks that other CPUs send there meanwhile would be stuck.
 */
#define CPU_IDLES_NS (10 * 1000 * 1000ULL)

/* Longer than a run of a real-time task that wakes often; shorter than the server lets one run. */
#define CPU_KEPT_NS (100 * 1000 * 1000ULL)

/* How many CPUs are gone or taken. Usually 0; else other CPUs look for the tasks waiting there. */
static u32 nr_away;

/* How many CPUs were offline when the policy was loaded: no task has ever waited for them. */
static u32 nr_missing;

/* Whether a CPU is unavailable for one of these reasons. CPU_TAKEN may be out of date. */
static __always_inline bool cpu_lacks(s32 cpu, u32 why)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS && cpu_lack[at] & why;
}

static __always_inline bool cpu_is_gone(s32 cpu)
{
	return cpu_lacks(cpu, CPU_GONE);
}

/*
 * Whether a CPU with CPU_TAKEN still counts as taken, as regain_cpu would find if the CPU called it
 * now. Not inlined: CPUs are seldom taken, and the verifier walks this once.
 */
__noinline bool cpu_stays_taken(s32 cpu)
{
	u32 at = cpu_index(cpu);
	u64 idle_ns, back_ns, now;

	if (at >= MAX_CPUS)
		return false;
	now = scx_bpf_now();
	back_ns = cpu_visits[at].back_ns;
	idle_ns = cpu_visits[at].idle_ns;
	if (back_ns && elapsed_ns(back_ns, now) >= cpu_visits[at].away_ns)
		return false;
	return !idle_ns || elapsed_ns(idle_ns, now) < CPU_IDLES_NS;
}

static __always_inline bool cpu_is_taken(s32 cpu)
{
	return cpu_lacks(cpu, CPU_TAKEN) && cpu_stays_taken(cpu);
}

/* Whether a CPU will not run the tasks that wait for it for now. */
static __always_inline bool cpu_is_away(s32 cpu)
{
	return cpu_is_taken(cpu) || cpu_is_gone(cpu);
}

/* Whether every CPU is gone or taken. */
static __always_inline bool all_are_away(void)
{
	return nr_away + nr_missing >= nr_cpus;
}

/* Whether p can be put on a CPU: allowed, online, and not taken (or no CPU is available at all). */
static __always_inline bool cpu_takes(const struct task_struct *p, s32 cpu)
{
	u32 at = cpu_index(cpu), lack = at < MAX_CPUS ? cpu_lack[at] : CPU_GONE;

	if (lack & CPU_GONE || (lack && cpu_stays_taken(cpu) && !all_are_away()))
		return false;
	return cpu_allowed(p, cpu);
}

/* Whether a higher class has taken the CPU since then. */
static __always_inline bool cpu_was_lost(s32 cpu, u64 since_ns)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS && elapsed_ns(since_ns, cpu_visits[at].left_ns) > 0;
}

/* How long a taken CPU has counted as taken. */
static __always_inline u64 cpu_taken_ns(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS ? elapsed_ns(cpu_visits[at].taken_ns, scx_bpf_now()) : 0;
}

/*
 * Whether a CPU is too scarce for its waiting tasks: it has counted as taken for longer than after
 * a stay of one tick. Either the stay was longer, or another one came each time before the CPU had
 * been back for as long as it was taken.
 */
static __always_inline bool cpu_is_scarce(s32 cpu)
{
	return cpu_is_taken(cpu) && cpu_taken_ns(cpu) > 2 * tick_ns;
}

/* Whether a real-time task has had the CPU for so long at a stretch that waiting is futile. */
static __always_inline bool cpu_is_kept(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return at < MAX_CPUS && cpu_is_taken(at) && cpu_visits[at].away_ns >= CPU_KEPT_NS;
}

/*
 * Whether a CPU, with `mine` tasks in its queue, should take one of the `theirs` tasks that wait
 * for another CPU. If the other CPU is offline, always. If it is scarce, also, unless this CPU is
 * taken itself and has as many waiting. Short stays do not count: no task is sent back afterwards,
 * so a CPU with frequent short stays would lose one task after another. Not inlined, else the
 * verifier walks all its paths at each step of a loop over CPUs.
 */
__noinline bool cpu_helps(s32 cpu, s32 mine, s32 other, s32 theirs)
{
	if (cpu_is_gone(other))
		return theirs > 0;
	return cpu_is_scarce(other) && theirs > (cpu_is_taken(cpu) ? mine + 1 : 0);
}

/* Makes a CPU unavailable. One that is taken and then goes offline counts once. */
static __always_inline void set_lack(u32 at, u32 why)
{
	if (!__sync_fetch_and_or(&cpu_lack[at], why))
		__sync_fetch_and_add(&nr_away, 1);
}

static __always_inline void clear_lack(u32 at, u32 why)
{
	if (__sync_fetch_and_and(&cpu_lack[at], ~why) == why)
		__sync_fetch_and_add(&nr_away, -1);
}

/* A CPU came that was not there when the policy was loaded: to load it again is all that is needed.
 */
u64 cpu_came;

static __always_inline void set_cpu_gone(s32 cpu, bool gone)
{
	u32 at = cpu_index(cpu);

	if (at >= MAX_CPUS)
		return;
	/* The tables were made for the CPUs that were there when the policy was loaded. */
	if (!gone && (at >= nr_cpus || cpu_missing[at])) {
		cpu_came = 1;
		scx_bpf_error("a CPU came that was not there when this was loaded: load it again");
	} else if (gone)
		set_lack(at, CPU_GONE);
	else
		clear_lack(at, CPU_GONE);
}

/* In init: notes which CPUs are offline, or have come online since the tables were made. */
static __always_inline void note_offline_cpus(void)
{
	u32 cpu;

	bpf_for(cpu, 0, MAX_CPUS) {
		if (cpu < nr_cpus && cpu_missing[cpu] && !cpu_is_online(cpu)) {
			cpu_lack[cpu] = CPU_GONE;
			nr_missing++;
		} else if (cpu < nr_cpus || cpu_is_online(cpu)) {
			set_cpu_gone(cpu, !cpu_is_online(cpu));
		}
	}
}

/*
 * In cpu_release: a higher class takes the CPU. Not inlined, else the verifier continues from each
 * path through it.
 */
__noinline int lose_cpu(s32 cpu)
{
	u64 now = scx_bpf_now(), here_ns;
	struct cpu_visit *visit;
	u32 at = cpu_index(cpu);
	bool still_taken;

	if (at >= MAX_CPUS)
		return 0;
	visit = &cpu_visits[at];
	here_ns = visit->back_ns ? elapsed_ns(visit->back_ns, now) : 0;
	/* It may also have been back for long enough, with no call to regain_cpu since. */
	still_taken = cpu_lack[at] & CPU_TAKEN && (!visit->back_ns || here_ns < visit->away_ns);
	visit->away_ns -= here_ns < visit->away_ns ? here_ns : visit->away_ns;
	visit->left_ns = now;
	visit->back_ns = 0;
	visit->idle_ns = 0;
	if (still_taken)
		return 0;
	visit->taken_ns = now;
	visit->away_ns = 0;
	set_lack(at, CPU_TAKEN);
	return 0;
}

/*
 * In cpu_acquire, dispatch and tick: a task of ours runs on this CPU, or, in dispatch, there is
 * none to run. The kernel's server calls dispatch once more after our last task has left, while a
 * real-time task still runs: then the CPU is not back.
 */
static __always_inline void regain_cpu(s32 cpu, bool idles)
{
	struct cpu_visit *visit;
	u32 at = cpu_index(cpu);
	u64 now, away_ns;

	if (idles && higher_class_goes_on()) {
		lose_cpu(cpu);
		return;
	}
	if (at >= MAX_CPUS || !(cpu_lack[at] & CPU_TAKEN))
		return;
	visit = &cpu_visits[at];
	now = scx_bpf_now();
	if (!visit->back_ns) {
		away_ns = elapsed_ns(visit->left_ns, now);
		visit->back_ns = now;
		if (away_ns > visit->away_ns)
			visit->away_ns = away_ns;
	}
	if (!cpu_is_taken(at))
		clear_lack(at, CPU_TAKEN);
	else if (idles && !visit->idle_ns)
		visit->idle_ns = now;
}

/*
 * In cpu_release: re-enqueues the tasks on this CPU's local DSQ, the preempted one among them.
 * Where the kernel can, it does so later. This callback runs in the context of the preempted task,
 * and a task counts as migration-disabled while any BPF program runs in it. Such a task goes back
 * to the local DSQ without `enqueue`, with the kernel's own slice of 20 ms. A task preempted more
 * often than that would keep the CPU for ever [do_enqueue_task, rcu_read_lock_dont_migrate].
 */
static __always_inline void reenqueue_waiting(void)
{
	if (can_reenqueue())
		reenqueue_here();
	else
		scx_bpf_reenqueue_local();
}

/*
 * In disable, for a task that leaves the class. If it runs now, it keeps its CPU, most likely as a
 * real-time task, and the kernel calls no cpu_release. From 6.19 on the tasks waiting there can be
 * sent away nevertheless.
 */
static __always_inline void lose_cpu_to(struct task_struct *p)
{
	if (bpf_get_current_task_btf() != p || !can_reenqueue())
		return;
	lose_cpu(scx_bpf_task_cpu(p));
	reenqueue_here();
}

/* 1 + a CPU that goes offline and may have tasks waiting; 0: none. */
static u32 cpu_unasked;

/*
 * In tick and update_idle: notices that this CPU goes offline. The kernel stops calling dispatch
 * for the CPU as soon as it takes no more tasks, but calls cpu_offline only after an RCU grace
 * period [sched_cpu_deactivate]. If a reader or RCU's own thread waits for the CPU, that period
 * never ends. So this CPU records it, and another CPU hands the tasks back in its dispatch
 * (claim_cpu_to_clear).
 */
static __always_inline void note_leaving(s32 cpu)
{
	u32 i;

	if (cpu_is_gone(cpu) || cpu_is_active(cpu))
		return;
	set_cpu_gone(cpu, true);
	cpu_unasked = cpu + 1;
	bpf_for(i, 0, nr_cpus)
		if (!cpu_is_gone(i))
			scx_bpf_kick_cpu(i, SCX_KICK_IDLE);
}

/* In dispatch: claims the CPU whose queues are to be handed back, for this CPU; -1: none. */
static __always_inline s32 claim_cpu_to_clear(void)
{
	u32 unasked = cpu_unasked;

	return unasked && __sync_bool_compare_and_swap(&cpu_unasked, unasked, 0) ? (s32)unasked - 1
										 : -1;
}

#define CPU_LEFT_NS (1000 * 1000 * 1000ULL)

/*
 * In tick, with SCX_OPS_ENQ_LAST: whether this CPU goes offline or comes online. The kernel then
 * calls neither dispatch nor enqueue for it. A task that is alone there and out of slice would be
 * left on the local DSQ while the CPU idles. The thread that takes the CPU down would be left for
 * good [balance_one, do_enqueue_task, local_dsq_post_enq]. So this gives p a new slice.
 */
static __always_inline bool keep_on_leaving_cpu(struct task_struct *p, s32 cpu)
{
	note_leaving(cpu);
	if (!cpu_is_gone(cpu))
		return false;
	scx_bpf_task_set_slice(p, CPU_LEFT_NS);
	return true;
}
