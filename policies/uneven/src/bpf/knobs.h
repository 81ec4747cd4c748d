/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane. src/policies.rs has the control planes', and names, ranges and help. */
#pragma once
#include "kernel.h"

TUNABLE u64 knob_slice_ns = 5000000; /* a turn while tasks wait */
CONFIG u64 knob_round_ns = 30000000; /* slide 11: shares are kept within about half of this */
CONFIG u64 reads_counters;  /* set if there are counters to read */
