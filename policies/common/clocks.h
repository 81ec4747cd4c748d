/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks of cores: what the machine's greatest ones are, and what counters of this CPU say of its own. */
#pragma once
#include "kernel.h"

#define LICENSE_LEVELS 3	/* of vector code, and of the licenses it asks for: 0 scalar to 2 heavy 512-bit */
#define TURBO_CORES 128

/* Set before loading, by the ground; turbo_cores is 0 where nothing is known. */
CONFIG u32 turbo_cores;
CONFIG u32 turbo_khz[TURBO_CORES][LICENSE_LEVELS];	/* with 1 active core of a package, with 2, ... */
CONFIG u32 license_levels;
CONFIG u64 license_release_ns;	/* from the last instruction that needs a level until it is given back */
CONFIG u64 license_throttle_ns;	/* from a request until the voltage is there */
CONFIG u64 license_halt_ns;	/* the core stands still while its clock changes */

/* Of a CPU, since some moment in the past. */
struct clock_counts {
	u64 cycles[LICENSE_LEVELS];	/* by the license level of its core */
	u64 limited_ns;		/* in which a limit on power held its core below its turbo */
	u64 energy_uj;		/* of its core */
};

/* Greatest clock of a level with so many active cores, kHz; 0 where it is not known. */
static __always_inline u32 turbo_of(u32 level, u32 active)
{
	u32 row = active ? active - 1 : 0;

	if (!turbo_cores)
		return 0;
	if (row >= turbo_cores)
		row = turbo_cores - 1;
	barrier_var(row);	/* or the compiler moves the bound to where the verifier does not see it */
	if (row >= TURBO_CORES || level >= LICENSE_LEVELS)
		return 0;
	return turbo_khz[row][level];
}

#define ACTIVE_ONE 64	/* parts of a core */

/*
 * The same of all levels, with so many on average, in parts of a core: between that of the time with fewer and that of
 * the time with more. 0 where nothing is known.
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

CONFIG u64 reads_counters;	/* set where there are counters to be read */

#ifdef __bpf__
#include "counters.h"

#define CPU_COUNTERS(name)                                                                       \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);                                       \
		__uint(max_entries, MAX_CPUS);                                                     \
		__type(key, u32);                                                                  \
		__type(value, u32);                                                                \
	} name SEC(".maps")

/* CORE_POWER.LVL0_TURBO_LICENSE, LVL1 and LVL2, a counter for each CPU, opened by user space; or cycles at any level. */
CPU_COUNTERS(license_0);
CPU_COUNTERS(license_1);
CPU_COUNTERS(license_2);
CPU_COUNTERS(core_cycles);

/* One that shared its counter with others has not seen all: that is no count. */
static __always_inline bool cpu_counted(void *events, u64 *cycles)
{
	struct bpf_perf_event_value value = {};

	if (bpf_perf_event_read_value(events, BPF_F_CURRENT_CPU, &value, sizeof(value)))
		return false;
	*cycles = value.counter;
	return value.enabled == value.running;
}

/* False where there are no counters, or they do not work. */
static __always_inline bool clock_counts(struct clock_counts *counts)
{
	if (!reads_counters)
		return false;
	return cpu_counted(&license_0, &counts->cycles[0]) &&
	       cpu_counted(&license_1, &counts->cycles[1]) &&
	       cpu_counted(&license_2, &counts->cycles[2]);
}

/* The same of cycles, whatever the license. */
static __always_inline bool clock_cycles(u64 *all)
{
	return cpu_counted(&core_cycles, all);
}

/* No kernel tells: it never disables the registers. */
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
