/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane; those of the control plane are in src/policies.rs, with names, ranges and help. */
#pragma once
#include "kernel.h"

CONFIG u64 knob_slice_ns = 10000000;	/* a turn, where tasks wait */
