/* SPDX-License-Identifier: GPL-2.0 */
/* Detect: which license level a task needs, so that who caused a drop is not refunded for it. */
#pragma once
#include "observe.h"
#include "registers.h"

/*
 * The saved state of a task says which registers were not in their first state when it was saved: the header's
 * xfeatures. Upper halves of the first 16 ZMM are wide code, those of YMM code of 256 bits. ZMM16 to 31 alone are not:
 * glibc's string functions leave them behind in every program, which is why the kernel's own avx512_timestamp, that
 * takes them for use of AVX-512, marks even `cat`.
 */
#define XFEATURE_YMM		(1ULL << 2)
#define XFEATURE_ZMM_HI256	(1ULL << 6)

static __always_inline u32 saved_level(u64 xfeatures)
{
	if (xfeatures & XFEATURE_ZMM_HI256)
		return 2;
	return xfeatures & XFEATURE_YMM ? 1 : 0;
}

/* p starts here: what the kernel saved of it when it stopped is one more word on what it needs. */
static __always_inline void saved_learn(struct task_struct *p, struct avx_task *task)
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

/* What the control plane was told of a task: one more than its level, or 0. */
static __always_inline u64 told_of(const struct task_slot *slot)
{
	u64 told = slot ? task_share(slot) : 0;

	return told <= LICENSE_LEVELS ? told : 0;
}

/* p starts here: what was used before is another's. */
static __always_inline void detect_starts(void)
{
	if (knob_detect == DETECT_TRAP)
		vector_used();
}

/* What is known of a task's level, one more than it; 0: nothing. What somebody said comes first. */
static __always_inline u32 known_of(const struct avx_task *task, const struct task_slot *slot)
{
	u64 told = told_of(slot);

	if (told || knob_detect == DETECT_TOLD)
		return told;
	return observed_level(task);
}

/*
 * At the end of a stretch of p's time here, in which it may have needed a level. Unsure is the highest level: nothing is
 * refunded. What somebody said is believed.
 */
static __always_inline void detect(struct avx_task *task, const struct task_slot *slot, u32 may_need)
{
	u32 known;

	if (knob_detect == DETECT_TRAP) {
		task->level = vector_used();
		return;
	}
	known = known_of(task, slot);
	task->level = known ? known - 1 : LICENSE_LEVELS - 1;
	if (task->level < may_need && !told_of(slot))
		task->level = may_need;
}
