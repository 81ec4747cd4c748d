/* SPDX-License-Identifier: GPL-2.0 */
/* Domains: CPUs under one memory controller, or under one cache if there is only one controller. */
#pragma once
#include "kernel.h"
#include "cpus.h"
#include "task_table.h"
#include "topology.h"

#define DOMAINS_MAX PLACES_MAX
#define NO_DOMAIN   (-1)

/* Set by init. */
static bool domains_are_caches;
static u32 nr_domains;

static __always_inline u32 cpu_domain(s32 cpu)
{
	u32 at = cpu_index(cpu), domain = 0;

	if (at < MAX_CPUS)
		domain = domains_are_caches ? cpu_llc[at] : cpu_node[at];
	domain &= DOMAINS_MAX - 1;
	barrier_var(domain);
	return domain;
}

/* In init: finds the machine's domains. */
static __always_inline void find_domains(void)
{
	bool one_node = true;
	u32 i;

	bpf_for(i, 1, nr_cpus)
		if (i < MAX_CPUS && cpu_node[i] != cpu_node[0])
			one_node = false;
	domains_are_caches = one_node;
	bpf_for(i, 0, nr_cpus)
		if (cpu_domain(i) >= nr_domains)
			nr_domains = cpu_domain(i) + 1;
}

/* The domain that the control plane wants a task in, from the task's share; NO_DOMAIN: any. */
static __always_inline s32 domain_of_share(u64 share)
{
	return share && share <= DOMAINS_MAX ? (s32)share - 1 : NO_DOMAIN;
}

/*
 * Domains that p may run in, one bit each for the first 32. The table has them as kinds of cores.
 */
static __always_inline u32 domains_allowed(const struct task_struct *p)
{
	u32 domains = 0, i;

	bpf_for(i, 0, nr_cpus)
		if (cpu_allowed(p, i) && cpu_domain(i) < 32)
			domains |= 1U << (cpu_domain(i) & 31);
	return domains;
}

/* Whether p may run on a CPU of this domain. */
__noinline bool domain_takes(struct task_struct *p __arg_trusted, u32 domain)
{
	bool takes = false;
	u32 i;

	bpf_for(i, 0, nr_cpus)
		if (cpu_domain(i) == domain && cpu_takes(p, i))
			takes = true;
	return takes;
}

/*
 * Tells the control plane how many CPUs of each domain are online: `apart` from those of kinds of
 * cores, if shares are of kinds.
 */
__noinline int count_domains(bool apart)
{
	u32 there[DOMAINS_MAX] = {}, i;

	bpf_for(i, 0, nr_cpus)
		if (!cpu_is_gone(i))
			there[cpu_domain(i)]++;
	bpf_for(i, 0, DOMAINS_MAX) {
		if (apart)
			task_table.domain_cpus[i] = there[i];
		else
			task_table.cpus[i] = there[i];
	}
	return 0;
}
