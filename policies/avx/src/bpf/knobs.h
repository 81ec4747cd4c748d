/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs; src/lib.rs has their names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 3000000;
CONFIG u64 knob_charge = 0; /* enum charge_by */
CONFIG u64 knob_detect = 0; /* enum detect_by */
CONFIG u64 knob_pick = 0; /* enum pick_by */
CONFIG u64 knob_source = 0; /* enum counted_by */

enum charge_by {
	CHARGE_VICTIM, /* a task is not charged for drops that others cause */
	CHARGE_OFF, /* time, whatever the clock: the control arm */
	CHARGE_BOTH, /* cycles at the task's own ideal clock: a higher clock costs more */
	CHARGE_ENERGY, /* by the task's power, relative to the average task */
};

enum detect_by {
	DETECT_OBSERVED, /* as told, else from the license while the task ran */
	DETECT_TRAP,  /* the talk's own: registers disabled, so that first use traps */
	DETECT_TOLD,  /* as told only */
	DETECT_SAVED,  /* as told, else from the registers that the kernel saved */
};

enum counted_by {
	COUNTED_EVENTS, /* cycles at each license level */
	COUNTED_MODEL, /* modelled from the told levels, and bounded by counted cycles if any */
};

enum pick_by {
	PICK_ACROSS, /* the lowest virtual time of all queues */
	PICK_BALANCED, /* the own queue's; queues are balanced by their lengths */
};
