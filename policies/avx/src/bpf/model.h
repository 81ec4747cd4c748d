/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Model: counters of clocks where the CPU has none. Each core's license is reckoned from what its threads' tasks are
 * said to need, and cycles from that: of a virtual machine no more than a check that all is wired up, of a real one a
 * guess. Siblings write the state of their core in turns that are not ordered: what that loses is a stretch of time.
 */
#pragma once
#include "license.h"
#include "state.h"

struct model_core {
	struct license license;
	struct clock_counts counts;
	u64 at_ns;	/* passed up to here */
} __attribute__((aligned(64)));

CPU_TABLE(struct model_core, model_cores)

static __always_inline struct model_core *model_core_of(s32 cpu)
{
	struct avx_cpu *state = cpus_of(cpu);

	return state ? model_cores_of(state->core) : NULL;
}

/* Cycles of so long at a clock. */
static __always_inline u64 cycles_in(u64 ns, u32 khz)
{
	return ns * khz / NS_PER_KHZ;
}

/* Time passes for a core. */
static __always_inline void model_pass(struct model_core *core, u64 now, u32 active)
{
	struct license *license = &core->license;
	u32 i;

	bpf_for(i, 0, LICENSE_STEPS) {
		u64 next = license_next(license), to = next < now ? next : now;
		u32 level = license->level;

		barrier_var(level);
		if (to > core->at_ns) {
			if (license->phase != LICENSE_HALTED && level < LICENSE_LEVELS)
				core->counts.cycles[level] += cycles_in(to - core->at_ns, turbo_of(level, active));
			core->at_ns = to;
		}
		if (next > now)
			break;
		license_step(license, next);
	}
	core->at_ns = now;
}

/* What the threads of a CPU's core need: the most of any. */
static __always_inline u32 model_needs(s32 cpu)
{
	u32 needs = 0, at = cpu, i;

	for (i = 0; i < SIBLINGS_MAX; i++) {
		struct avx_cpu *state = cpus_of(at);

		if (state && state->needs > needs)
			needs = state->needs;
		barrier_var(at);
		if (at >= MAX_CPUS)
			break;
		at = cpu_sibling[at];
		if ((s32)at == cpu)
			break;
	}
	return needs;
}

/* Another task runs here from now on, which needs this level; 0 where none does. */
static __always_inline void model_runs(s32 cpu, u32 needs, u32 active)
{
	struct avx_cpu *state = cpus_of(cpu);
	struct model_core *core = model_core_of(cpu);
	u64 now;

	if (!state || !core)
		return;
	now = now_ns();
	model_pass(core, now, active);
	state->needs = needs;
	license_demand(&core->license, now, model_needs(cpu));
}

static __always_inline bool model_counts(s32 cpu, struct clock_counts *counts, u32 active)
{
	struct model_core *core = model_core_of(cpu);

	if (!core || !turbo_cores)
		return false;
	model_pass(core, now_ns(), active);
	*counts = core->counts;
	return true;
}
