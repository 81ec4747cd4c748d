/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane; src/lib.rs has the control plane's, and names, ranges and help. */
#pragma once
#include "kernel.h"

TUNABLE u64 knob_slice_ns; /* a turn while tasks wait; 0 is auto, and set by the number of CPUs */
CONFIG u64 knob_round_ns = 30000000; /* shares of kinds of cores are kept within half of this */
CONFIG u64 knob_place; /* enum mechanism: memory domains */
CONFIG u64 knob_share; /* enum mechanism: kinds of cores */
CONFIG u64 knob_charge; /* enum mechanism: clocks that depend on neighbours */
CONFIG u64 knob_order; /* enum mechanism: siblings of an address space in a row */
CONFIG u64 knob_light = 1; /* where one task waits and turns are short, no queue is used */

/* Mechanisms in the task table's `working`; src/mechanisms.rs has the same numbers. */
enum works {
	WORKS_PLACE = 1,
	WORKS_SHARE = 2,
	WORKS_CHARGE = 4,
	WORKS_ORDER = 8,
};

/* How a task is charged where clocks depend on others [clock_state.h]. */
#define CHARGES_BY	  (license_levels > 1 ? CHARGE_VICTIM : CHARGE_BOTH)
#define DETECTS_BY	  DETECT_OBSERVED
#define COUNTS_BY	  COUNTED_EVENTS
#define SHARES_ARE_LEVELS (nr_types == 1) /* else of kinds of cores */

/* Whether a mechanism works. */
enum mechanism {
	AUTO, /* where the machine has what it is for */
	ON,
	OFF,
};
