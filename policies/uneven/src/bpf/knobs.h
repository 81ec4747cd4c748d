/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane; those of the control planes are in src/lib.rs, with names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 5000000;	/* a turn, where tasks wait */
CONFIG u64 knob_round_ns = 30000000;	/* slide 11: shares are kept within about half of this */
CONFIG u64 reads_counters;		/* set where there are counters to be read */
