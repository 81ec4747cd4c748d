/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Observe: which license level a task needs, from what its core's license did while it ran and without any trap. A
 * level that is not there after a ms of a task's run is one that it does not need. One that is there for longer than
 * what was asked for before could be kept is one that somebody needs who runs now: the task, if no thread beside it
 * may be the one. As long as neither was seen enough, nobody is refunded.
 */
#pragma once
#include "state.h"

#define SEEN_ONE 1024		/* parts of 1, of the stretches that said something, in which a level was needed */
#define SEEN_MIN 3		/* so many of them before anything is believed */
#define SEEN_MAX 8
#define CLEARED_NS 1000000ULL	/* a run without a level for so long says that it is not needed */

/* What is known of a task by now: one more than its level, or 0. */
static __always_inline u32 observed_level(const struct avx_task *task)
{
	u32 level;

	if (task->seen[0] < SEEN_MIN || task->seen[1] < SEEN_MIN)
		return 0;
	level = task->wide[1] > SEEN_ONE / 4 ? 2 : task->wide[0] > SEEN_ONE / 4 ? 1 : 0;
	return level + 1;
}

static __always_inline void observe_one(u32 *seen, u32 *wide, bool needed)
{
	u32 part = *seen < SEEN_MAX ? *seen + 1 : SEEN_MAX;

	*seen = part;
	*wide = *wide - *wide / part + (needed ? SEEN_ONE / part : 0);
}

/* Whether all threads beside a CPU's are known to need less than a level, and were before this stretch of time. */
static __always_inline bool none_beside(s32 cpu, u32 level, u64 since_ns)
{
	u32 at = cpu, i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		struct avx_cpu *state;

		barrier_var(at);
		if (at >= MAX_CPUS)
			return false;
		at = cpu_sibling[at];
		if ((s32)at == cpu)
			return true;
		state = cpus_of(at);
		if (!state || state->changed_ns > since_ns)
			return false;
		if (state->busy && (!state->known || state->known > level))
			return false;
	}
	return false;
}

/* A task ran here for so long, up to now, with its core's license at each level for so long. */
static __always_inline void observe(struct avx_task *task, s32 cpu, u64 now, u64 ran_ns, const u64 *at_level_ns)
{
	u64 kept_ns = license_release_ns + license_release_ns / 4, high_ns = at_level_ns[2];

	if (!high_ns && ran_ns >= CLEARED_NS)
		observe_one(&task->seen[1], &task->wide[1], false);
	else if (high_ns > kept_ns && none_beside(cpu, 2, now - ran_ns))
		observe_one(&task->seen[1], &task->wide[1], true);
	high_ns += at_level_ns[1];
	if (!high_ns && ran_ns >= CLEARED_NS)
		observe_one(&task->seen[0], &task->wide[0], false);
	else if (high_ns > kept_ns && none_beside(cpu, 1, now - ran_ns))
		observe_one(&task->seen[0], &task->wide[0], true);
}
