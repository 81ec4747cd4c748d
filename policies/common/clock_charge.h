/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Charge: what a stretch of CPU time costs its task. Say a task needs license level k and ran c_l
 * cycles at levels l above k. It is not charged for the extra time of those cycles, compared with
 * its own ideal clock and as many active cores (the talk, Frequency Reduction Compensation and
 * Estimating the Frequency Drop):
 *
 *	charge = dt - sum over l > k of c_l * (1/F[l][n] - 1/F[k][n])
 *
 * n is the same on both sides: turbo that changes with active cores is no task's fault and never
 * refunded. Levels below k are charged in full, so a task is never charged more than its time.
 *
 * A core stands still while its license changes, and counts no cycles. A task at another task's
 * level is not charged for this missing time, up to the cost of one raise and release. If more is
 * missing, a governor or a power limit held the core below the clock of its license. Then the
 * license's part is unknown, and all time is charged.
 */
#pragma once
#include "clocks.h"

struct charge_of {
	u64 ran_ns;   /* dt */
	u64 cycles[LICENSE_LEVELS]; /* c */
	u32 khz[LICENSE_LEVELS]; /* F with the cores that were active; 0: unknown */
	u32 level;   /* k */
	u64 took_ns[LICENSE_LEVELS]; /* c / F */
};

#define NS_PER_KHZ 1000000ULL /* ns for one cycle at 1 kHz */
#define CYCLES_MAX (1ULL << 40) /* more than any stretch can have: the counter is wrong */

/* How long this many cycles take at a clock. */
static __always_inline u64 cycles_ns(u64 cycles, u32 khz)
{
	return khz ? cycles * NS_PER_KHZ / khz : 0;
}

static __always_inline void charge_took(struct charge_of *of)
{
	u32 level;

	for (level = 0; level < LICENSE_LEVELS; level++)
		of->took_ns[level] =
			of->cycles[level] ? cycles_ns(of->cycles[level], of->khz[level]) : 0;
}

/* Whether the cycles fit the time: at most what the maximum clock gives, with some margin. */
static __always_inline bool cycles_plausible(const struct charge_of *of)
{
	u64 most = of->ran_ns * (of->khz[0] / 1000) / 1000, sum = 0;
	u32 level;

	for (level = 0; level < LICENSE_LEVELS; level++) {
		if (of->khz[level] < 1000 || of->cycles[level] > CYCLES_MAX)
			return false;
		sum += of->cycles[level];
	}
	return sum <= most + most / 8 + 10000;
}

/* License changes in a stretch of time: two levels up, two down, and one for another task. */
#define CHANGES 4

static __always_inline u64 least_of(u64 one, u64 other)
{
	return one < other ? one : other;
}

/*
 * The clock of a task's own level, or of the highest if it has none. Not indexed: the verifier
 * rejects a variable index into the stack.
 */
static __always_inline u32 own_khz(const struct charge_of *of)
{
	return of->level == 0 ? of->khz[0] : of->level == 1 ? of->khz[1] : of->khz[2];
}

/* Whether the time is longer than the cycles, license changes and one bin of turbo explain. */
static __always_inline bool held_back(u64 ran_ns, u64 counted_ns)
{
	return ran_ns > counted_ns + counted_ns / 16 + CHANGES * license_halt_ns;
}

/* The time that is not charged, ns: at most what all time at the slowest level would give. */
static __always_inline u64 charge_refund(const struct charge_of *of)
{
	u64 refund = 0, counted = 0, most;
	u32 level, khz = own_khz(of), slowest = of->khz[LICENSE_LEVELS - 1];

	if (!cycles_plausible(of))
		return 0;
	for (level = 0; level < LICENSE_LEVELS; level++) {
		u64 took = of->took_ns[level], ideal;

		counted += took;
		if (level <= of->level || !took)
			continue;
		ideal = cycles_ns(of->cycles[level], khz);
		if (took > ideal)
			refund += took - ideal;
	}
	if (held_back(of->ran_ns, counted))
		return 0;
	if (refund && of->ran_ns > counted)
		refund += least_of(of->ran_ns - counted, CHANGES * license_halt_ns);
	most = of->ran_ns - of->ran_ns * (slowest / 1000) / (khz / 1000);
	return least_of(refund, most);
}

/* The time that a task with this many cycles has lost against its ideal clock, for any reason. */
static __always_inline u64 charge_lost(u64 ran_ns, u64 cycles, u32 khz)
{
	u64 ideal = cycles_ns(cycles, khz);

	return khz && cycles <= CYCLES_MAX && ideal < ran_ns ? ran_ns - ideal : 0;
}

/* The reverse: the charge beyond its time for a task that ran above its own ideal clock. */
static __always_inline u64 charge_extra(const struct charge_of *of)
{
	u64 extra = 0;
	u32 level, khz = own_khz(of);

	if (!cycles_plausible(of))
		return 0;
	for (level = 0; level < LICENSE_LEVELS; level++) {
		u64 took = of->took_ns[level];
		u64 ideal = cycles_ns(of->cycles[level], khz);

		if (level < of->level && ideal > took)
			extra += ideal - took;
	}
	return extra;
}

/*
 * On a part that its power limit slows down: the refund of a task that draws no more than most, for
 * the time in which the limit held its core below its turbo.
 */
static __always_inline u64 charge_limited(u64 ran_ns, u64 limited_ns, u64 cycles, u32 khz,
					  u64 own_mw, u64 mean_mw)
{
	u64 ideal = cycles_ns(cycles, khz), lost;

	if (!khz || cycles > CYCLES_MAX || ideal >= ran_ns || limited_ns > ran_ns)
		return 0;
	/* No victim if all tasks draw alike, whatever the noise, or if the power is unknown. */
	if (!own_mw || own_mw > mean_mw - mean_mw / 16)
		return 0;
	lost = ran_ns - ideal;
	return least_of(lost, limited_ns);
}

#define ROOT_ONE 1024 /* unit of cube roots */

/* The cube root of own / mean, up to 32. */
static __always_inline u64 cube_root(u64 own, u64 mean)
{
	u64 cube = mean ? (own << 30) / mean : 0, root = 0, bit;

	for (bit = 16 * ROOT_ONE; bit; bit >>= 1)
		if ((root + bit) * (root + bit) * (root + bit) <= cube)
			root += bit;
	return root;
}

/*
 * The same in both directions. While the limit holds, a task's own ideal clock is the one that the
 * package would have if all tasks drew as much. Power goes with the cube of the clock, so that is
 * f * cube root of mean / own, and at most the turbo. The charge is how long its cycles take there.
 */
static __always_inline u64 charge_drawn(u64 ran_ns, u64 limited_ns, u64 cycles, u32 khz, u64 own_mw,
					u64 mean_mw)
{
	u64 ideal = cycles_ns(cycles, khz), least, part;

	if (!khz || cycles > CYCLES_MAX || ideal >= ran_ns || limited_ns > ran_ns || !own_mw ||
	    !mean_mw)
		return ran_ns;
	least = ideal * ROOT_ONE / ran_ns;
	part = cube_root(own_mw, mean_mw);
	if (part < least)
		part = least;
	return ran_ns - limited_ns + limited_ns * part / ROOT_ONE;
}
