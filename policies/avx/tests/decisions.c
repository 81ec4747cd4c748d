/* SPDX-License-Identifier: GPL-2.0 */
/* The decisions of charge.h, detect.h and account.h. */
#include "kernel.h"
#include "account.h"

/* What a pass of time does to a license, without cycles. */
static void pass(struct license *l, u64 now_ns)
{
	while (license_next(l) <= now_ns)
		license_step(l, license_next(l));
}

EXPORT void demand(struct license *l, u64 now_ns, u32 level, u64 release_ns, u64 throttle_ns, u64 halt_ns)
{
	license_release_ns = release_ns;
	license_throttle_ns = throttle_ns;
	license_halt_ns = halt_ns;
	pass(l, now_ns);
	license_demand(l, now_ns, level);
	pass(l, now_ns);
}

/* How long a core stands still. */
EXPORT void halts(u64 halt_ns)
{
	license_halt_ns = halt_ns;
}

EXPORT u64 refund(const struct charge_of *of)
{
	return charge_refund(of);
}

EXPORT u64 extra(const struct charge_of *of)
{
	return charge_extra(of);
}

EXPORT u64 limited(u64 ran_ns, u64 limited_ns, u64 cycles, u32 khz, u64 own_mw, u64 mean_mw)
{
	return charge_limited(ran_ns, limited_ns, cycles, khz, own_mw, mean_mw);
}

EXPORT u64 drawn(u64 ran_ns, u64 limited_ns, u64 cycles, u32 khz, u64 own_mw, u64 mean_mw)
{
	return charge_drawn(ran_ns, limited_ns, cycles, khz, own_mw, mean_mw);
}

EXPORT u32 saved(u64 xfeatures)
{
	return saved_level(xfeatures);
}

/* A mean after one more saved state of so many. */
EXPORT u32 learned(u32 seen, u32 wide, bool found)
{
	observe_one(&seen, &wide, found);
	return wide;
}

EXPORT u64 weighted(u64 charge_ns, u32 weight)
{
	return charge_weighted(charge_ns, weight);
}
