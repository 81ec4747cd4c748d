/* SPDX-License-Identifier: GPL-2.0 */
/* Detect: which license level a task needs, so that who caused a drop is not refunded for it. */
#pragma once
#include "state.h"

/* p starts here: what was used before is another's. */
static __always_inline void detect_starts(void)
{
	if (knob_detect == DETECT_TRAP)
		vector_used();
}

/* At the end of a stretch of p's time here. */
static __always_inline void detect(struct avx_task *task)
{
	if (knob_detect == DETECT_TRAP)
		task->level = vector_used();
	else
		task->level = LICENSE_LEVELS - 1;	/* unsure: nothing is refunded */
}
