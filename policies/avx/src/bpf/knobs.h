/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs; src/lib.rs has their names, ranges and help. */
#pragma once
#include "kernel.h"

TUNABLE u64 knob_slice_ns = 3000000;
CONFIG u64 knob_charge = 0; /* enum charge_by */
CONFIG u64 knob_detect = 0; /* enum detect_by */
CONFIG u64 knob_pick = 0; /* enum pick_by */
CONFIG u64 knob_source = 0; /* enum counted_by */

#define CHARGES_BY	  knob_charge
#define DETECTS_BY	  knob_detect
#define COUNTS_BY	  knob_source
#define SHARES_ARE_LEVELS true

enum pick_by {
	PICK_ACROSS, /* the lowest virtual time of all queues */
	PICK_BALANCED, /* the own queue's; queues are balanced by their lengths */
};
