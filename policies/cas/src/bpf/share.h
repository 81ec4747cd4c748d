/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Share: which task a CPU with nothing to run takes from another CPU. First a task of its own
 * context. Then one of a context that the other does not run now, so that neither changes more than
 * it must. Then any. Of several such contexts, the one with most waiting tasks: the next task taken
 * is then of the same context.
 */
#pragma once
#include "order_key.h"

enum share {
	SHARE_OWN,
	SHARE_OTHER,
	SHARE_THEIRS,
	SHARE_CLASSES,
};

/* The slots of this class, if one CPU is in the contexts `own` and the other in `theirs`. */
static __always_inline u32 share_slots(enum share class, u32 own, u32 theirs)
{
	if (class == SHARE_OWN)
		return own;
	return class == SHARE_OTHER ? ~own & ~theirs : ~own & theirs;
}
