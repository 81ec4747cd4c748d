/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs; src/lib.rs has their names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 3000000;
CONFIG u64 knob_charge = 0;	/* enum charge_by */
CONFIG u64 knob_detect = 0;	/* enum detect_by */
CONFIG u64 knob_pick = 0;	/* enum pick_by */
CONFIG u64 knob_source = 0;	/* enum counted_by */

enum charge_by {
	CHARGE_VICTIM,	/* what others' drops cost a task is not charged */
	CHARGE_OFF,	/* time, whatever the clock: the control arm */
	CHARGE_BOTH,	/* cycles at the task's own ideal clock: above it costs more, too */
	CHARGE_ENERGY,	/* what it drew, of what tasks draw on average */
};

enum detect_by {
	DETECT_OBSERVED,	/* what somebody said, else what licenses did while a task ran */
	DETECT_TRAP,		/* the talk's own: registers disabled, so that first use traps */
	DETECT_TOLD,		/* what somebody said; of who is not known, nothing */
	DETECT_SAVED,		/* what somebody said, else which registers the kernel had to save */
};

enum counted_by {
	COUNTED_EVENTS,	/* cycles at each license level */
	COUNTED_MODEL,	/* reckoned from what tasks are said to need; no more is lost than cycles say, where they are counted */
};

enum pick_by {
	PICK_ACROSS,	/* the least virtual time of all queues */
	PICK_BALANCED,	/* the own queue's; queues are evened out by how many wait */
};
