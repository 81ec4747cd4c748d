/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Visits: short stays of real-time tasks on a CPU. While they are frequent, waiting tasks go to
 * DSQs that other CPUs can take from, as with `pull`. A task on a local DSQ is re-enqueued at each
 * visit, at the end of another queue. Then only the task already running would make progress on a
 * CPU with frequent visits. Kernels after 7.2 also unload a policy that re-enqueues a task more
 * than 256 times before it runs [SCX_REENQ_MAX_REPEAT].
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "cpus.h"
#include "knobs.h"

/* This many visits in this time are frequent: more than occasional housekeeping. */
#define VISITS_OFTEN	 8
#define VISITS_WITHIN_NS (160 * 1000 * 1000ULL)

/* After this long without any, frequent visits have ended. */
#define VISITS_END_NS (1000 * 1000 * 1000ULL)

/* The visits of one CPU, accessed by it alone. Several visits within a tick count as one. */
struct visits {
	u64 first_ns;
	u64 last_ns;
	u32 count;
};

/*
 * For all CPUs: read often, written seldom. Not a struct, which the compiler would split into
 * variables with names that BTF refuses.
 */
static u64 visits_often_ns; /* when visits of a CPU were last frequent; 0: never */
static bool visits_lately;
static u64 visits_over_ns; /* when frequent visits last ended; 0: never */

/* Whether any task may wait in the DSQs. */
static __always_inline bool visits_ever(void)
{
	return knob_pull || visits_often_ns;
}

/* Whether tasks that start to wait now do so in the DSQs. */
static __always_inline bool visits_go_on(void)
{
	return knob_pull || visits_lately;
}

/* CPUs with tasks in their DSQ, now or lately. Any CPU sets this; only the CPU itself clears it. */
static bool apart[MAX_CPUS];

static __always_inline void set_apart(s32 cpu, bool are)
{
	u32 at = cpu_index(cpu);

	if (at < MAX_CPUS && apart[at] != are)
		apart[at] = are;
}

/*
 * Whether a task that starts to wait on a CPU goes to its DSQ. True also after the last visit,
 * until the tasks in the DSQ have moved to the local DSQ: dispatch is not called while that one has
 * tasks.
 */
static __always_inline bool wait_apart(s32 cpu)
{
	u32 at = cpu_index(cpu);

	return visits_go_on() || (at < MAX_CPUS && apart[at]);
}

/*
 * In cpu_release. The stopper does not count: it stays for some us only, and comes wherever the
 * kernel migrates a running task.
 */
static __always_inline void note_visit(struct visits *visits, struct scx_cpu_release_args *args)
{
	u64 now = scx_bpf_now();

	if (args->reason == SCX_CPU_PREEMPT_STOP || elapsed_ns(visits->last_ns, now) <= tick_ns)
		return;
	visits->last_ns = now;
	if (elapsed_ns(visits->first_ns, now) > VISITS_WITHIN_NS) {
		visits->first_ns = now;
		visits->count = 0;
	}
	if (++visits->count < VISITS_OFTEN)
		return;
	visits_often_ns = now;
	visits_lately = true;
}

/* In tick: frequent visits end when no CPU is taken and none has had them for a while. */
static __always_inline void end_visits(void)
{
	u64 now;

	if (!visits_lately || nr_away)
		return;
	now = scx_bpf_now();
	if (elapsed_ns(visits_often_ns, now) <= VISITS_END_NS)
		return;
	visits_over_ns = now;
	visits_lately = false;
}

/*
 * In dispatch, on a CPU with nothing to run: whether it should look at other CPUs' DSQs. True also
 * for a while after the last visit. A task enqueued at that very moment may be in the DSQ of a CPU
 * that has just looked and idles.
 */
static __always_inline bool visits_make_look(void)
{
	return visits_go_on() ||
	       (visits_over_ns && elapsed_ns(visits_over_ns, scx_bpf_now()) < VISITS_END_NS);
}
