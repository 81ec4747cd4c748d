/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Visits: while real-time tasks come and go, who waits does so where others can take it from, as with `pull`. On a local
 * DSQ it is sent away at each visit, to the end of another queue: nobody would get to run on a CPU that is visited often
 * but who does already. And kernels after 7.2 throw a policy out of which a task is queued again more than 256 times
 * before it runs [SCX_REENQ_MAX_REPEAT].
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "hotplug.h"
#include "knobs.h"

/* So many in such a time are often: not the visits of who looks at the machine now and then. */
#define VISITS_OFTEN 8
#define VISITS_WITHIN_NS (160 * 1000 * 1000ULL)

/* They are over when there have been none for so long. */
#define VISITS_END_NS (1000 * 1000 * 1000ULL)

/* Of one CPU, which alone touches it. Of those within a tick one counts. */
struct visits {
	u64 first_ns;
	u64 last_ns;
	u32 count;
};

/* Of any CPU: read by all, and written seldom. Of one struct the compiler would make variables of names that BTF refuses. */
static u64 visits_often_ns;	/* when a CPU was last visited often; 0: none has been since this was loaded */
static bool visits_lately;
static u64 visits_over_ns;	/* when that ended last; 0: never */

/* Whether anything may wait in the DSQs. */
static __always_inline bool visits_ever(void)
{
	return knob_pull || visits_often_ns;
}

/* Whether those that come to wait now do so there. */
static __always_inline bool visits_go_on(void)
{
	return knob_pull || visits_lately;
}

/* CPUs for which some wait in a DSQ, or have lately: any CPU may say so, and the CPU itself that it is over. */
static bool apart[MAX_CPUS];

static __always_inline void set_apart(s32 cpu, bool are)
{
	u32 at = cpu;

	barrier_var(at);
	if (at < MAX_CPUS && apart[at] != are)
		apart[at] = are;
}

/*
 * Whether who comes to wait on a CPU is to do so in its DSQ. Also after the last visit, until those that wait there have
 * come to the local one: while that has any, dispatch is not asked.
 */
static __always_inline bool wait_apart(s32 cpu)
{
	u32 at = cpu;

	barrier_var(at);
	return visits_go_on() || (at < MAX_CPUS && apart[at]);
}

/* In cpu_release. The stopper stays for some us only, and comes wherever the kernel moves a running task. */
static __always_inline void visits_note(struct visits *visits, struct scx_cpu_release_args *args)
{
	u64 now = now_ns();

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

/* In tick: they end once no CPU is taken, and none has been visited often for a while. */
static __always_inline void visits_look(void)
{
	u64 now;

	if (!visits_lately || nr_away)
		return;
	now = now_ns();
	if (elapsed_ns(visits_often_ns, now) <= VISITS_END_NS)
		return;
	visits_over_ns = now;
	visits_lately = false;
}

/*
 * In dispatch, on a CPU with nothing to do: whether it is to look what waits for others. For a while after the last visit,
 * too: who came to wait in that very moment may be in the DSQ of a CPU that has just looked and idles.
 */
static __always_inline bool visits_make_look(void)
{
	return visits_go_on() || (visits_over_ns && elapsed_ns(visits_over_ns, now_ns()) < VISITS_END_NS);
}
