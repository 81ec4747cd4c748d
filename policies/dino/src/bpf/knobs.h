/* SPDX-License-Identifier: GPL-2.0 */
/* Knobs of the data plane. src/policies.rs has the control plane's, and names, ranges and help. */
#pragma once
#include "kernel.h"

TUNABLE u64 knob_slice_ns = 10000000; /* a turn while tasks wait */
