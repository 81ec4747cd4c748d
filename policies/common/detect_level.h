/* SPDX-License-Identifier: GPL-2.0 */
/* Detect: which license level a task needs, so that the task that caused a drop gets no refund. */
#pragma once
#include "observe_level.h"
#include "registers.h"

/*
 * A task's saved state says which registers were not in their initial state: the header's
 * xfeatures. Upper halves of the first 16 ZMM registers mean 512-bit code, those of YMM 256-bit
 * code. ZMM16 to 31 alone mean neither, because glibc's string functions leave them behind in every
 * program. The kernel's own avx512_timestamp takes them for use of AVX-512, so it marks even `cat`.
 */
#define XFEATURE_YMM	   (1ULL << 2)
#define XFEATURE_ZMM_HI256 (1ULL << 6)

static __always_inline u32 saved_level(u64 xfeatures)
{
	if (xfeatures & XFEATURE_ZMM_HI256)
		return 2;
	return xfeatures & XFEATURE_YMM ? 1 : 0;
}

/* p starts here: the state that the kernel saved when p stopped is one more sample of its level. */
static __always_inline void saved_learn(struct task_struct *p, struct clock_task *task)
{
	u64 xfeatures = task_xfeatures(p);
	u32 level = saved_level(xfeatures);

	if (!xfeatures)
		return;
	__sync_fetch_and_add(&saved_looks, 1);
	if (level)
		__sync_fetch_and_add(&saved_wide, 1);
	observe_one(&task->seen[0], &task->wide[0], level >= 1);
	observe_one(&task->seen[1], &task->wide[1], level == 2);
}

/* p starts here: what was used before belongs to another task. */
static __always_inline void start_detecting(void)
{
	if (DETECTS_BY == DETECT_TRAP)
		vector_used();
}

/* 1 + the task's level if known, else 0. What the user has said comes first. */
static __always_inline u32 known_of(const struct clock_task *task, const struct task_slot *slot)
{
	u64 told = level_told(slot);

	if (told || DETECTS_BY == DETECT_TOLD)
		return told;
	return observed_level(task);
}

/*
 * At the end of a stretch of p's time here, in which it may have needed the level `may_need`. If
 * unsure, the highest level counts, which refunds nothing. What the user has said is believed.
 */
static __always_inline void detect(struct clock_task *task, const struct task_slot *slot,
				   u32 may_need)
{
	u32 known;

	if (DETECTS_BY == DETECT_TRAP) {
		task->level = vector_used();
		return;
	}
	known = known_of(task, slot);
	task->level = known ? known - 1 : LICENSE_LEVELS - 1;
	if (task->level < may_need && !level_told(slot))
		task->level = may_need;
}
