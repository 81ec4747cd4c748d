/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Place: which CPU a task becomes runnable on. An idle CPU near its last one, else its last one;
 * load is never balanced afterwards (slide 10), except with `pull`, where a CPU that has nothing to
 * do takes what waits elsewhere.
 */
#pragma once
#include "kernel.h"
#include "topology.h"
#include "place_idle.h"

/* The i-th CPU to look at for a CPU in search of work: its neighbours by number, wrapping round. */
static __always_inline s32 place_victim(s32 cpu, u32 i)
{
	u32 victim = cpu + i;

	return victim < nr_cpus ? victim : victim - nr_cpus;
}
