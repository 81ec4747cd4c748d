/* SPDX-License-Identifier: GPL-2.0 */
/* The machine as the ground describes it: set before loading, never read from the kernel. */
#pragma once
#include "kernel.h"

CONFIG u32 nr_cpus = 1;
CONFIG u16 cpu_llc[MAX_CPUS];	/* which last-level cache a CPU is under */
CONFIG u16 cpu_node[MAX_CPUS];	/* which memory node a CPU belongs to */
CONFIG u64 tick_ns;		/* between two timer ticks of a busy CPU: when slices are looked at */
