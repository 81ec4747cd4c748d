/* SPDX-License-Identifier: GPL-2.0 */
/* The policy's state of each task and each CPU, and how it is updated. */
#pragma once
#include "domain.h"
#include "cpus.h"
#include "knobs.h"
#include "limit.h"
#include "task_table.h"

/* Domains' queues have a clock each, too: see queue.h. */
#define VTIME_CLOCKS (MAX_CPUS + DOMAINS_MAX)
#include "vtime.h"

/*
 * Written by its own CPU. Other CPUs read it, a tick old at most, and write `leaves` and `vtime`
 * [preempt.h].
 */
struct dn_cpu {
	u64 since_ns; /* when the running task was last charged */
	u64 left_ns; /* when a task last went home from here */
	s32 pid; /* the running task; 0: none */
	s32 leaves; /* the task that goes home from here at the next chance */
	s32 home; /* the domain of the running task; NO_DOMAIN: it has none */
	u64 vtime; /* of the running task, when it was last charged; VTIME_IDLE: none */
} __attribute__((aligned(64)));

CPU_TABLE(struct dn_cpu, cpus)

/* The domain that p was given, if it has a CPU for p. p's affinity may have changed since. */
static __always_inline s32 task_home(struct task_struct *p)
{
	struct task_slot *slot = task_slot(p);
	s32 home = slot ? domain_of_share(task_share(slot)) : NO_DOMAIN;

	if (home != NO_DOMAIN && home < 32 && !(slot->kinds >> (home & 31) & 1))
		return NO_DOMAIN;
	return home != NO_DOMAIN && nr_away && !domain_takes(p, home) ? NO_DOMAIN : home;
}

/*
 * Charges p for its time on a CPU since the last charge. The table has domains as kinds of cores.
 */
static __always_inline void charge(struct task_struct *p, s32 at)
{
	struct dn_cpu *cpu = cpus_of(at);
	struct task_slot_of *of = task_slots_of(p);
	struct task_slot *slot = slot_in(of);
	u64 now = scx_bpf_now(), ran_ns;
	u32 domain = cpu_domain(at);

	if (!cpu)
		return;
	ran_ns = elapsed_ns(cpu->since_ns, now);
	cpu->since_ns = now;
	cpu->vtime = vtime_run(p, of, vtime_of(ran_ns, vtime_weight_of(p, slot)), knob_slice_ns);
	if (!slot)
		return;
	task_charge(slot, p, ran_ns);
	if (domain < TYPES_MAX)
		slot->ran_ns.of[domain] += ran_ns;
}
