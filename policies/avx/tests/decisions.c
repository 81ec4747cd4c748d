/* SPDX-License-Identifier: GPL-2.0 */
/* The decisions of charge.h, detect.h and account.h. */
#include "kernel.h"
#include "account.h"

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

EXPORT u64 weighted(u64 charge_ns, u32 weight)
{
	return charge_weighted(charge_ns, weight);
}
