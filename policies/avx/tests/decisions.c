/* SPDX-License-Identifier: GPL-2.0 */
/* The decisions of clock_charge.h, detect_level.h and clock_account.h. */
#include "state.h"

/* Lets time pass for a license, without cycles. */
static void pass(struct license *l, u64 now_ns)
{
	while (license_next(l) <= now_ns)
		license_step(l, license_next(l));
}

EXPORT void demand(struct license *l, u64 now_ns, u32 level, u64 release_ns, u64 throttle_ns,
		   u64 halt_ns)
{
	license_release_ns = release_ns;
	license_throttle_ns = throttle_ns;
	license_halt_ns = halt_ns;
	pass(l, now_ns);
	license_demand(l, now_ns, level);
	pass(l, now_ns);
}

/* Sets how long a core stands still while its license changes. */
EXPORT void halts(u64 halt_ns)
{
	license_halt_ns = halt_ns;
}

EXPORT u64 refund(struct charge_of *of)
{
	charge_took(of);
	return charge_refund(of);
}

EXPORT u64 extra(struct charge_of *of)
{
	charge_took(of);
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

/* A mean after one more saved state, when `seen` came before. */
EXPORT u32 learned(u32 seen, u32 wide, bool found)
{
	observe_one(&seen, &wide, found);
	return wide;
}

/*
 * The charge of a task that needs `level` for a long stretch at the highest level, on a part of
 * 3.2, 2.8 and 2.4 GHz.
 */
EXPORT u64 charged(u64 ran_ns, u32 level, u64 slice_ns)
{
	struct clock_counts since = { .cycles = { 0, 0, cycles_in(ran_ns, 2400000) } };
	struct clock_task task = { .level = level };
	struct charge_of of = {};

	turbo_cores = 1;
	turbo_khz[0][0] = 3200000;
	turbo_khz[0][1] = 2800000;
	turbo_khz[0][2] = 2400000;
	license_levels = LICENSE_LEVELS;
	knob_slice_ns = slice_ns;
	stretch_of(&of, ran_ns, &since, ACTIVE_ONE);
	return charge_for(&task, &of, &since, 0);
}

/*
 * A core of a package of its own becomes active or idle; and how many were active since the last
 * call.
 */
EXPORT void comes(u32 node, bool comes, u64 now)
{
	active_count(node, comes, now);
}

EXPORT u32 mean(u32 node, u64 *total, u64 since_ns, u64 now)
{
	struct clock_cpu cpu = { .active_total = *total };
	u32 mean;

	cpu_node[node] = node;
	mean = take_active(node, &cpu, since_ns, now);
	*total = cpu.active_total;
	return mean;
}

/*
 * A task alone on its core, in stretches of ran_ns, with its license at level 2 for high_ns of
 * each.
 */
EXPORT u32 observed(const u64 *ran_ns, const u64 *high_ns, const bool *fresh, u32 count,
		    u64 release_ns)
{
	struct clock_task task = {};
	struct clock_cpu cpu = {};
	u64 now = 1000000000;
	u32 i;

	license_release_ns = release_ns;
	cpu_sibling[0] = 0;
	for (i = 0; i < count; i++) {
		if (fresh[i])
			watch_again(&cpu, now);
		now += ran_ns[i];
		if (high_ns[i]) {
			observe_high(&task, &cpu, 0, now, ran_ns[i], high_ns[i], 1);
			observe_high(&task, &cpu, 0, now, ran_ns[i], high_ns[i], 2);
			cpu.fresh = false;
		} else {
			observe_plain(&task, &cpu, now, ran_ns[i]);
		}
	}
	return observed_level(&task);
}
