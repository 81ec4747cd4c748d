/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Share: what a CPU with nothing to do takes from another. Best a task of its own context; then one of
 * a context that the other does not run now, so that neither changes more than it must; then any. Of
 * several contexts of a kind, the one with most waiting: the next to be taken is then of the same.
 */
#pragma once
#include "order_key.h"

#define SHARE_CLASSES 3

/* How good it is for a CPU in the contexts `own` to take from `slot` of one in `theirs`: 0 is best. */
static __always_inline u32 share_class(u32 slot, u32 own, u32 theirs)
{
	if (own >> slot & 1)
		return 0;
	return theirs >> slot & 1 ? 2 : 1;
}
