/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs: what a user may set before loading. lib.rs has their names, ranges and help. */
#pragma once
#include "kernel.h"

TUNABLE u64 knob_slice_ns = 10000000; /* slide 13: "a given time slice" */
CONFIG u64 knob_variant;	 /* enum variant */
TUNABLE u64 knob_defer_ns = 100000000; /* with CODE: how long the end of a slice is deferred */
CONFIG u64 knob_pull;   /* an idle CPU takes tasks that wait elsewhere */

enum variant {
	SLIDE, /* the end of a slice is a switch */
	CODE, /* the end is deferred, and tasks wait on their last CPU, as in the released code */
};
