/* SPDX-License-Identifier: GPL-2.0 */
/* Overdue: in policies by virtual time, who waits for a CPU that is away, and has had less than all who wait here. */
#pragma once
#include "cpu_queue.h"
#include "vtime.h"

/*
 * Takes one that has had less than so much, as a distance from now. Whoever waits for a CPU that has gone may run here
 * alone, and where somebody always waits here, too, is not seen otherwise.
 */
static __always_inline bool take_overdue(s32 cpu, s64 least, u64 slice_ns)
{
	u32 i;

	bpf_for(i, 1, nr_away ? nr_cpus : 1) {
		s32 other = cpu_neighbour(cpu, i);

		if (cpu_helps(cpu, scx_bpf_dsq_nr_queued(cpu), other, scx_bpf_dsq_nr_queued(other)) &&
		    vtime_head(other) < least && vtime_take(other, slice_ns))
			return true;
	}
	return false;
}
