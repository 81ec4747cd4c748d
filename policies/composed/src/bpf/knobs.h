/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane; src/lib.rs has the control plane's, and names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 3000000; /* a turn while tasks wait */
CONFIG u64 knob_round_ns = 30000000; /* shares of kinds of cores are kept within half of this */
CONFIG u64 knob_place; /* enum mechanism: memory domains */
CONFIG u64 knob_share; /* enum mechanism: kinds of cores */
CONFIG u64 reads_counters; /* set if there are counters to read */

/* Mechanisms in the task table's `working`; src/mechanisms.rs has the same numbers. */
#define WORKS_PLACE 1
#define WORKS_SHARE 2

/* Whether a mechanism works. */
enum mechanism {
	AUTO, /* where the machine has what it is for */
	ON,
	OFF,
};
