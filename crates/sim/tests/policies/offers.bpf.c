/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Offers the running task to idle CPUs as flsched does, but its slice goes on. When it blocks, the
 * claim outlives it.
 */
#include "kernel.h"
#include "../../../../policies/flsched/src/bpf/offer.h"
#include "place_idle.h"

LICENSE;

#define SLICE_NS 5000000

CPU_TABLE(struct offer, offers)

s32 OP(offers_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = place_idle_near(p, prev_cpu, wake_flags);

	return cpu < 0 ? prev_cpu : cpu;
}

void OP(offers_enqueue, struct task_struct *p, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, SLICE_NS, enq_flags);
}

void OP(offers_tick, struct task_struct *p)
{
	struct offer *offer = offers_of(this_cpu());

	if (offer && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL) > 0)
		offer_claim(offer, p);
}

OPS(offers) = {
	.select_cpu = (void *)offers_select_cpu,
	.enqueue = (void *)offers_enqueue,
	.tick = (void *)offers_tick,
	.name = "offers",
};
