/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Chassis: what the kernel asks of any policy, written once.
 *
 * A policy names its parts in `roles`, and lists CHASSIS_OPS, or FAIR_OPS of fair.h, among its
 * callbacks. The compiler knows `roles`, so a part is inlined, and one that is left out costs
 * nothing.
 */
#pragma once
#include "cpu_queue.h"
#include "cpus.h"
#include "exit.h"

struct task_slot_of;

#define VTIME_IDLE 0 /* no task has this vtime */

struct roles {
	/* Order: which task is next. In policies by virtual time. */

	/*
	 * Moves the next task to this CPU's local DSQ. If `prev` is not NULL it goes on unless
	 * another task goes first. Returns whether a task was moved.
	 */
	bool (*take)(s32 cpu, struct task_struct *prev);
	/* Whether a task waits that this CPU takes next, or its equals. */
	bool (*waits)(s32 cpu);

	/* Charge: what a run costs. In policies by virtual time. */

	/*
	 * p starts on a CPU, before and after its virtual time is settled. `of` is what is kept of
	 * it; NULL: nothing.
	 */
	void (*start)(struct task_struct *p, struct task_slot_of *of, s32 cpu, u64 now);
	void (*started)(struct task_struct *p, s32 cpu, u64 now);
	/* Charges p for its time on a CPU since it was last charged. */
	void (*charge)(struct task_struct *p, s32 cpu);

	/* Place: which CPU, which queue. */

	/* Claims an idle CPU for a woken task; negative: none. In policies by virtual time. */
	s32 (*claim)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	/* How many queues are for several CPUs each. */
	u32 (*shared_queues)(void);
	/* The i-th CPU that takes from a queue; negative: no more. Left out: CPU i. */
	s32 (*taker)(u64 queue, u32 i);
	/* How many tasks wait for a CPU. Left out: those in its queue. */
	u32 (*waiting)(s32 cpu);
	/* Whether tasks may wait in CPUs' queues now. Left out: they may. */
	bool (*queues_used)(void);
	/* Hands back all that waits for a CPU that goes offline. Left out: one queue. */
	int (*hand_back)(s32 cpu);
	/* A higher class takes a CPU, before and after its waiting tasks are re-enqueued. */
	void (*lose)(s32 cpu, struct scx_cpu_release_args *args);
	void (*lost)(s32 cpu);
	/* No task of this policy runs on a CPU any more. */
	void (*vacate)(s32 cpu);
	/* Where the vtime of the task that runs on a CPU is kept; VTIME_IDLE: none. */
	u64 *(*running_vtime)(s32 cpu);
	/* A CPU becomes idle, or busy. */
	void (*update_idle)(s32 cpu, bool idle);

	/* Share: the part of each kind of core that a task gets. In policies by virtual time. */

	/* In dispatch: whether `prev` leaves this CPU although it could go on. */
	bool (*depart)(s32 cpu, struct task_struct *prev);
	/* In dispatch: a CPU has nothing to run. */
	void (*idle)(s32 cpu);
	/* In tick: notes p's present share. */
	void (*follow)(struct task_struct *p, s32 cpu);
	/* In tick, if p's turn goes on: may end it. */
	void (*tick)(struct task_struct *p, s32 cpu);
	/* A bit for each kind of core, or each domain, that p may run on. */
	u32 (*kinds)(const struct task_struct *p);
	/* The same for domains, if `kinds` is of kinds. */
	u32 (*domains)(const struct task_struct *p);
	/* CPUs have come or gone. */
	int (*count_cpus)(void);
	/* A new task. Returns an error. */
	s32 (*enter)(struct task_struct *p);
	/* Before queues are made. */
	void (*init)(void);
	/* Makes the queues. Returns an error. Left out: one for each CPU, and shared ones. */
	s32 (*create)(void);
};

static const struct roles roles;

#define CALL(role, args...)               \
	({                                \
		if (roles.role)           \
			roles.role(args); \
	})

/* The policy has no task on a CPU any more. */
static __always_inline void vacate_cpu(s32 cpu)
{
	u64 *vtime = roles.running_vtime ? roles.running_vtime(cpu) : NULL;

	if (vtime)
		*vtime = VTIME_IDLE;
	CALL(vacate, cpu);
}

static __always_inline bool queues_used(void)
{
	return !roles.queues_used || roles.queues_used();
}

static __always_inline u32 nr_shared_queues(void)
{
	return roles.shared_queues ? roles.shared_queues() : 0;
}

static __always_inline void hand_back(s32 cpu)
{
	if (roles.hand_back)
		roles.hand_back(cpu);
	else if (queues_used())
		dsq_hand_back(cpu, cpu);
}

/* Not inlined, else the verifier continues from each path through it. */
__noinline int clear_unasked_cpu(void)
{
	s32 cpu = claim_cpu_to_clear();

	if (cpu >= 0) {
		hand_back(cpu);
		/* kernels without later fixes wake no CPU here [move_local_task_to_local_dsq] */
		scx_bpf_kick_cpu(cpu, 0);
	}
	return 0;
}

/* In dispatch: hands back what waits for a CPU that goes offline and is not asked any more. */
static __always_inline void clear_leaving_cpu(void)
{
	if (cpu_unasked)
		clear_unasked_cpu();
}

/* A CPU that goes offline may get no other callback any more. */
void OP(chassis_update_idle, s32 cpu, bool idle)
{
	if (idle && queues_used())
		note_leaving(cpu);
	CALL(update_idle, cpu, idle);
}

/* A real-time or deadline task takes the CPU: re-enqueues the tasks waiting there, elsewhere. */
void OP(chassis_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	vacate_cpu(cpu);
	CALL(lose, cpu, args);
	lose_cpu(cpu);
	if (roles.lost)
		roles.lost(cpu);
	else
		reenqueue_waiting();
}

void OP(chassis_cpu_acquire, s32 cpu, struct scx_cpu_acquire_args *args)
{
	regain_cpu(cpu, false);
}

void OP_SLEEPABLE(chassis_cpu_online, s32 cpu)
{
	set_cpu_gone(cpu, false);
	CALL(count_cpus);
}

void OP(chassis_cpu_offline, s32 cpu)
{
	set_cpu_gone(cpu, true);
	hand_back(cpu);
	CALL(count_cpus);
	vacate_cpu(cpu);
}

/* In the kernel's dump of a policy that it unloads: what a CPU that is not idle waits for. */
void OP(chassis_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	if (idle)
		return;
	scx_bpf_dump("waiting: %u",
		     roles.waiting ? roles.waiting(cpu) : (u32)scx_bpf_dsq_nr_queued(cpu));
	if (cpu_is_gone(cpu))
		scx_bpf_dump(" offline: %u", 1);
	if (cpu_is_taken(cpu))
		scx_bpf_dump(" taken_ms: %llu", cpu_taken_ns(cpu) / 1000000);
}

/* In init: makes the queues. Returns an error. */
static __always_inline s32 chassis_create(void)
{
	note_offline_cpus();
	CALL(init);
	CALL(count_cpus);
	return roles.create ? roles.create() : create_queues(nr_shared_queues());
}

#define CHASSIS_OPS                                                                             \
	.cpu_acquire = (void *)chassis_cpu_acquire, .cpu_release = (void *)chassis_cpu_release, \
	.cpu_online = (void *)chassis_cpu_online, .cpu_offline = (void *)chassis_cpu_offline,   \
	.dump_cpu = KERNEL_ONLY(chassis_dump_cpu), .exit = (void *)record_exit,                 \
	.exit_dump_len = EXIT_DUMP_LEN
