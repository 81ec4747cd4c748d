/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs: what a user may set before loading. lib.rs has their names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 10000000;	/* slide 13: "a given time slice" */
CONFIG u64 knob_variant;		/* enum variant */
CONFIG u64 knob_defer_ns = 100000000;	/* with CODE: how long a slice's end is put off */
CONFIG u64 knob_pull;			/* an idle CPU takes what waits elsewhere */

enum variant {
	SLIDE,	/* the end of a slice is a switch */
	CODE,	/* it is put off: the released code does not mark it; all wait on their last CPU */
};
