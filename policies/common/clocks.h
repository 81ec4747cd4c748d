/* SPDX-License-Identifier: GPL-2.0 */
/* Core clocks: the machine's maximum clocks, and this CPU's counters of its own clock. */
#pragma once
#include "kernel.h"

/* Levels of vector code, and of the licenses it requests: 0 is scalar, 2 heavy 512-bit. */
#define LICENSE_LEVELS 3
#define TURBO_CORES    128

/* Set before loading, by the ground. turbo_cores is 0 if the clocks are unknown. */
CONFIG u32 turbo_cores;
CONFIG u32
	turbo_khz[TURBO_CORES][LICENSE_LEVELS]; /* with 1 active core of a package, with 2, ... */
CONFIG u32 license_levels;
CONFIG u64 license_release_ns; /* from the last instruction that needs a level to its release */
CONFIG u64 license_throttle_ns; /* from a request to the voltage being there */
CONFIG u64 license_halt_ns; /* the core stands still while its clock changes */

/* One CPU's counts, since some moment in the past. */
struct clock_counts {
	u64 cycles[LICENSE_LEVELS]; /* by license level of the CPU's core */
	u64 limited_ns; /* time in which a power limit held the core below its turbo */
	u64 energy_uj;  /* energy of the core */
};

/* The maximum clock at a level with this many active cores, in kHz; 0 if unknown. */
static __always_inline u32 turbo_of(u32 level, u32 active)
{
	u32 row = active ? active - 1 : 0;

	if (!turbo_cores)
		return 0;
	if (row >= turbo_cores)
		row = turbo_cores - 1;
	/* else the compiler moves the bound to where the verifier does not see it */
	barrier_var(row);
	if (row >= TURBO_CORES || level >= LICENSE_LEVELS)
		return 0;
	return turbo_khz[row][level];
}

#define ACTIVE_ONE 64 /* parts of a core */

/*
 * Maximum clocks of all levels for an average number of active cores, in parts of a core.
 * Interpolates between the clock for fewer cores and the clock for more. 0 if unknown.
 */
static __always_inline void turbo_between(u32 active, u32 khz[LICENSE_LEVELS])
{
	u32 cores = active / ACTIVE_ONE, part = active % ACTIVE_ONE, level;

	for (level = 0; level < LICENSE_LEVELS; level++)
		khz[level] = turbo_of(level, cores);
	if (part)
		for (level = 0; level < LICENSE_LEVELS; level++)
			khz[level] -= (khz[level] - turbo_of(level, cores + 1)) * part / ACTIVE_ONE;
}

CONFIG u64 reads_counters; /* set if there are counters to read */

#ifdef __bpf__
#include "counters.h"

#define CPU_COUNTERS(name)                                   \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); \
		__uint(max_entries, MAX_CPUS);               \
		__type(key, u32);                            \
		__type(value, u32);                          \
	} name SEC(".maps")

/*
 * CORE_POWER.LVL0_TURBO_LICENSE, LVL1 and LVL2, and cycles at any level: one counter for each CPU,
 * opened by user space.
 */
CPU_COUNTERS(license_0);
CPU_COUNTERS(license_1);
CPU_COUNTERS(license_2);
CPU_COUNTERS(core_cycles);

/* A counter that was multiplexed with others has missed cycles, so its value is not used. */
static __always_inline bool cpu_counted(void *events, u64 *cycles)
{
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(events, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return false;
	*cycles = value.counter;
	return value.enabled == value.running;
}

/* False if there are no counters, or they do not work. */
static __always_inline bool clock_counts(struct clock_counts *counts)
{
	if (!reads_counters)
		return false;
	return cpu_counted(&license_0, &counts->cycles[0]) &&
	       cpu_counted(&license_1, &counts->cycles[1]) &&
	       cpu_counted(&license_2, &counts->cycles[2]);
}

/* Cycles at any license level. False if there is no counter, or it does not work. */
static __always_inline bool clock_cycles(u64 *all)
{
	return cpu_counted(&core_cycles, all);
}

/* The kernel never disables the vector registers, so it cannot say which were used. */
static __always_inline u32 vector_used(void)
{
	return LICENSE_LEVELS - 1;
}
#else
static __always_inline bool clock_cycles(u64 *all)
{
	struct clock_counts counts = {};
	bool known = clock_counts(&counts);

	*all = counts.cycles[0] + counts.cycles[1] + counts.cycles[2];
	return known;
}
#endif
