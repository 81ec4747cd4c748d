/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Observe: which license level a task needs, from its core's license while it ran, without traps.
 * If the license was below a level for a ms of the task's run, the task does not need the level. If
 * a level appears, or stays longer than earlier requests could keep it, a running task needs it.
 * That is this task if no sibling thread may be the cause. Until each was seen often enough,
 * nothing is refunded. Nor is a stretch in which a level stays that no sibling is known to need,
 * whatever was seen of the task before.
 */
#pragma once
#include "active_cores.h"

#define SEEN_ONE   1024 /* unit of the part of the stretches that needed a level */
#define SEEN_MIN   3  /* stretches before anything is believed */
#define SEEN_MAX   8
#define CLEARED_NS 1000000U /* a run this long without a level means it is not needed */
/* Now and then a license is kept for twice its usual time (Khalil's thesis). */
#define KEPT 2

/* The observed level of a task: 1 + its level, or 0. */
static __always_inline u32 observed_level(const struct clock_task *task)
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

/* A task has run for `ran_ns` without level 1 or 2. */
static __always_inline void observe_clear(struct clock_task *task, u32 level, u64 ran_ns)
{
	u32 at = level - 1;

	task->clear_ns[at] += ran_ns < CLEARED_NS ? ran_ns : CLEARED_NS;
	if (task->clear_ns[at] < CLEARED_NS)
		return;
	task->clear_ns[at] = 0;
	observe_one(&task->seen[at], &task->wide[at], false);
}

static __always_inline void watch_level(struct watched *level, u64 now)
{
	level->since_ns = now;
	level->high_ns = 0;
}

/* From now on another task runs on a CPU: watching its license starts anew. */
static __always_inline void watch_again(struct clock_cpu *cpu, u64 now)
{
	watch_level(&cpu->watched[0], now);
	watch_level(&cpu->watched[1], now);
	cpu->watched[0].unexplained = cpu->watched[1].unexplained = false;
	cpu->fresh = true;
}

enum beside {
	NEEDED_BY_NONE, /* no sibling needs the level, or has since watching began */
	NEEDED_BY_ONE,
	NEEDED_BY_ANY,  /* a sibling may need it, and its level is unknown */
};

/* Whether a sibling of a CPU needs a level. */
static __always_inline enum beside needed_beside(s32 cpu, u32 level, u64 since_ns)
{
	enum beside found = NEEDED_BY_NONE;
	u32 at = cpu, i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		struct clock_cpu *state;

		barrier_var(at);
		if (at >= MAX_CPUS)
			return NEEDED_BY_ANY;
		at = cpu_sibling[at];
		if ((s32)at == cpu)
			return found;
		state = clock_cpu_of(at);
		if (!state)
			return NEEDED_BY_ANY;
		if (state->needed_ns[level - 1] > since_ns || (state->busy && state->known > level))
			return NEEDED_BY_ONE;
		if (state->unknown_ns > since_ns || (state->busy && !state->known))
			found = NEEDED_BY_ANY;
	}
	return NEEDED_BY_ANY;
}

/* A level was there for `high_ns` of a stretch of a task's time, up to now. */
static __always_inline void observe_high(struct clock_task *task, struct clock_cpu *cpu, s32 at,
					 u64 now, u64 ran_ns, u64 high_ns, u32 level)
{
	struct watched *watched = &cpu->watched[level - 1];
	enum beside beside;

	watched->high_ns += high_ns;
	if (!watched->was_low && watched->high_ns <= KEPT * license_release_ns) {
		/* Left over from the task before: the level went away, and did not return. */
		if (cpu->fresh && high_ns <= license_release_ns && high_ns < ran_ns)
			observe_clear(task, level, ran_ns - high_ns);
		return;
	}
	watched->was_low = false;
	beside = needed_beside(at, level, watched->since_ns);
	watched->unexplained = beside != NEEDED_BY_ONE;
	watch_level(watched, now);
	if (beside != NEEDED_BY_NONE)
		return;
	task->clear_ns[level - 1] = 0;
	observe_one(&task->seen[level - 1], &task->wide[level - 1], true);
}

/* A level was not there in a stretch of a task's time. */
static __always_inline void observe_low(struct clock_task *task, struct clock_cpu *cpu, u64 now,
					u64 ran_ns, u32 level)
{
	watch_level(&cpu->watched[level - 1], now);
	cpu->watched[level - 1].was_low = true;
	cpu->watched[level - 1].unexplained = false;
	observe_clear(task, level, ran_ns);
}

/* Unwatched tasks have run on a CPU: a level that they may have requested is not news. */
static __always_inline void observe_others(struct clock_cpu *cpu)
{
	cpu->watched[0].was_low = cpu->watched[1].was_low = false;
}

/*
 * A stretch of a task's time, up to now, with a license above the lowest. `told` is 1 + the level
 * that the task is said to need, or 0. A task with a told level is not watched. Returns the level
 * that it may have needed.
 */
static __always_inline u32 observe(struct clock_task *task, struct clock_cpu *cpu, s32 at, u32 told,
				   u64 now, const struct charge_of *of)
{
	u64 ran_ns = of->ran_ns, wide_ns = of->took_ns[1], widest_ns = of->took_ns[2];
	u32 known = told ? told : observed_level(task);

	if (!known)
		cpu->unknown_ns = now;
	if (known > 1)
		cpu->needed_ns[0] = now;
	if (known > 2)
		cpu->needed_ns[1] = now;
	if (told) {
		observe_others(cpu);
		return 0;
	}
	observe_high(task, cpu, at, now, ran_ns, wide_ns + widest_ns, 1);
	if (widest_ns)
		observe_high(task, cpu, at, now, ran_ns, widest_ns, 2);
	else
		observe_low(task, cpu, now, ran_ns, 2);
	cpu->fresh = false;
	return cpu->watched[1].unexplained ? 2 : cpu->watched[0].unexplained;
}

/* A stretch of a task's time with the license at the lowest level. */
static __always_inline void observe_plain(struct clock_task *task, struct clock_cpu *cpu, u64 now,
					  u64 ran_ns)
{
	observe_low(task, cpu, now, ran_ns, 1);
	observe_low(task, cpu, now, ran_ns, 2);
	cpu->fresh = false;
}
