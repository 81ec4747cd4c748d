/* SPDX-License-Identifier: GPL-2.0 */
/*
 * License: a model of how a core's frequency license follows what its threads need, for CPUs
 * without counters of it. It is the state machine of crates/machine/src/license.rs, which names its
 * source. A test compares the two.
 */
#pragma once
#include "clocks.h"

#define LICENSE_NEVER (~0ULL)
#define LICENSE_STEPS 16 /* of one pass: a request for the top and its release take 7 */

enum license_phase {
	LICENSE_STEADY,
	LICENSE_THROTTLED, /* waits for the voltage of the next level */
	LICENSE_HALTED, /* the core stands still while its clock changes */
};

struct license {
	u64 held_until_ns[LICENSE_LEVELS];
	u64 until_ns; /* end of the present phase */
	u32 level;
	u32 phase;
	u32 to; /* the level after a halt */
	u32 demand;
};

static __always_inline u32 license_wanted(const struct license *l, u64 at_ns)
{
	if (l->held_until_ns[2] > at_ns)
		return 2;
	return l->held_until_ns[1] > at_ns ? 1 : 0;
}

static __always_inline u64 license_held(const struct license *l)
{
	if (l->level == 2)
		return l->held_until_ns[2];
	return l->level ? l->held_until_ns[1] : LICENSE_NEVER;
}

/* Starts the next phase, when none is under way. */
static __always_inline void license_settle(struct license *l, u64 at_ns)
{
	u32 wanted = license_wanted(l, at_ns);

	l->phase = LICENSE_STEADY;
	if (wanted > l->level) {
		l->phase = LICENSE_THROTTLED;
		l->until_ns = at_ns + license_throttle_ns;
	} else if (license_held(l) <= at_ns) {
		l->phase = LICENSE_HALTED;
		l->to = wanted;
		l->until_ns = at_ns + license_halt_ns;
	}
}

/* When the license changes next. */
static __always_inline u64 license_next(const struct license *l)
{
	return l->phase == LICENSE_STEADY ? license_held(l) : l->until_ns;
}

/* Changes the license, at the time of license_next. */
static __always_inline void license_step(struct license *l, u64 at_ns)
{
	if (l->phase == LICENSE_THROTTLED) {
		l->phase = LICENSE_HALTED;
		l->to = l->level + 1;
		l->until_ns = at_ns + license_halt_ns;
		return;
	}
	if (l->phase == LICENSE_HALTED)
		l->level = l->to < LICENSE_LEVELS ? l->to : LICENSE_LEVELS - 1;
	license_settle(l, at_ns);
}

/* From now on the core's threads need this level. The caller has let all time before pass. */
static __always_inline void license_demand(struct license *l, u64 now_ns, u32 demand)
{
	u32 level;

	for (level = 1; level < LICENSE_LEVELS; level++) {
		if (demand >= level)
			l->held_until_ns[level] = LICENSE_NEVER;
		else if (l->demand >= level)
			l->held_until_ns[level] = now_ns + license_release_ns;
	}
	l->demand = demand;
	if (l->phase == LICENSE_STEADY)
		license_settle(l, now_ns);
}
