/* SPDX-License-Identifier: GPL-2.0 */
/* Detect: which license level a task needs, so that who caused a drop is not refunded for it. */
#pragma once
#include "state.h"

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

/* At the end of a stretch of p's time here. */
static __always_inline void detect(struct avx_task *task, const struct task_slot *slot)
{
	u64 told = told_of(slot);

	if (knob_detect == DETECT_TRAP)
		task->level = vector_used();
	else
		task->level = told ? told - 1 : LICENSE_LEVELS - 1;	/* unsure: nothing is refunded */
}
