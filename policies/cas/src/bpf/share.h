/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Share: what a CPU with nothing to do takes from another. Best a task of its own context; then one of
 * a context that the other does not run now, so that neither changes more than it must; then any. Of
 * several contexts of a kind, the one with most waiting: the next to be taken is then of the same.
 */
#pragma once
#include "order_key.h"

enum share {
	SHARE_OWN,
	SHARE_OTHER,
	SHARE_THEIRS,
	SHARE_CLASSES,
};

/* Which slots are of this class, where one CPU is in the contexts `own` and the other in `theirs`. */
static __always_inline u32 share_slots(enum share class, u32 own, u32 theirs)
{
	if (class == SHARE_OWN)
		return own;
	return class == SHARE_OTHER ? ~own & ~theirs : ~own & theirs;
}
