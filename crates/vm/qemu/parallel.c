/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A clock of instructions for CPUs that run side by side, in one thread.
 *
 * QEMU's -icount counts the instructions of all CPUs on one clock, and a halted CPU takes no turn.
 * So a guest with two busy CPUs of eight sees them run four times as fast as it would see eight.
 * Here each CPU has a place in time: the instructions that it has executed, and those that it could
 * have executed while it waited, halted or in a spin loop. The clock is the mean of all places. So
 * it shows what CPUs side by side would take, at one instruction a nanosecond each. It never goes
 * back, and is the same for all CPUs.
 *
 * The CPU that is furthest behind runs next, until it is a turn ahead of the others. Halted CPUs
 * wait at its place. An interrupt from another CPU takes a halted CPU to the place of that CPU. A
 * CPU that runs and is behind gets the interrupt when it comes to that place. So a wakeup takes the
 * time that it takes, however long the turns are. What CPUs that run tell each other through memory
 * may be up to two turns early or late.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "sysemu/tcg.h"
#include "sysemu/cpus.h"
#include "sysemu/cpu-timers.h"
#include "sysemu/runstate.h"
#include "qemu/main-loop.h"
#include "qemu/notify.h"
#include "qemu/guest-random.h"
#include "hw/boards.h"
#include "hw/core/cpu.h"
#include "exec/exec-all.h"
#include "cpu.h"
#include "qemu/seqlock.h"
#include "../../softmmu/timers-state.h"
#include "tcg-accel-ops.h"
#include "tcg-accel-ops-icount.h"
#include "parallel.h"

/*
 * A CPU in a spin loop looks again after this many instructions, about as many as PAUSE takes
 * cycles. After long waits it looks after more, but waits at most an eighth longer than it has to.
 */
#define PAUSE_INSNS	100
#define PAUSE_INSNS_MAX 1000
#define PAUSE_PART	8

/* A CPU that others may wait for in spin loops runs beside them, up to this many turns ahead. */
#define AHEAD_MAX 2

int64_t parallel_turn;
int64_t parallel_cpus = 1;

/* The place of each CPU in time, in instructions. */
static int64_t *place;

/* The place at which an interrupt reaches each CPU; NEVER: none is on its way. */
static int64_t *interrupt_at;
#define NEVER INT64_MAX

/* Instructions that each CPU has waited in the spin loop that it is in. */
static int64_t *spun;

/* The CPU that executes, and its instructions when it began. */
static CPUState *running;
static int64_t running_budget;

/* Another thread has asked for attention: a CPU that stops early need not have paused. */
static bool kicked;

/* Instructions that a CPU has executed since it began. */
static int64_t executed(CPUState *cpu)
{
	return running_budget - cpu_neg(cpu)->icount_decr.u16.low - cpu->icount_extra;
}

/* Time passes in which nothing is executed. */
static void pass(int64_t insns)
{
	seqlock_write_lock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
	qatomic_set_i64(&timers_state.qemu_icount, timers_state.qemu_icount + insns);
	seqlock_write_unlock(&timers_state.vm_clock_seqlock, &timers_state.vm_clock_lock);
}

/* A CPU waits: its place moves, and time passes. */
static void wait_for(CPUState *cpu, int64_t insns)
{
	place[cpu->cpu_index] += insns;
	pass(insns);
}

/* The place of the CPU that executes. */
static int64_t now(void)
{
	return place[running->cpu_index] + executed(running);
}

/* An interrupt from a CPU to one that is behind it reaches that one in time: see deliver(). */
static void handle_interrupt(CPUState *cpu, int mask)
{
	int64_t *at = &interrupt_at[cpu->cpu_index];

	if (mask == CPU_INTERRUPT_HARD && qemu_cpu_is_self(cpu) && running && cpu != running &&
	    place[cpu->cpu_index] < now()) {
		*at = MIN(*at, now());
	} else {
		icount_handle_interrupt(cpu, mask);
	}
}

/* Gives a CPU the interrupt that was on its way. The interrupt controller knows whether it is still
 * wanted. */
static void deliver(CPUState *cpu)
{
	int64_t *at = &interrupt_at[cpu->cpu_index];

	if (cpu_thread_is_idle(cpu) && *at != NEVER && *at > place[cpu->cpu_index]) {
		wait_for(cpu, *at - place[cpu->cpu_index]);
	}
	if (place[cpu->cpu_index] >= *at) {
		*at = NEVER;
		icount_handle_interrupt(cpu, CPU_INTERRUPT_POLL);
	}
}

static void kick(CPUState *unused)
{
	CPUState *cpu;

	qatomic_set(&kicked, true);
	CPU_FOREACH(cpu) {
		cpu_exit(cpu);
	}
}

static void force_rcu(Notifier *notify, void *data)
{
	kick(NULL);
}

/* Nanoseconds until a timer is due; negative without any. */
static int64_t deadline(void)
{
	return qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, QEMU_TIMER_ATTR_ALL);
}

/* Instructions of all CPUs until a timer is due, or many. */
static int64_t until_timer(void)
{
	int64_t ns = deadline();

	return icount_round(ns < 0 ? INT32_MAX : MIN(ns, INT32_MAX));
}

/* Runs timers that are due; says whether there were any. */
static bool run_timers(void)
{
	if (until_timer() > 0) {
		return false;
	}
	icount_handle_deadline();
	return true;
}

/* The CPU that is furthest behind, of those that run but for one; NULL if there is none. */
static CPUState *last_but(CPUState *one)
{
	CPUState *cpu, *last = NULL;

	CPU_FOREACH(cpu) {
		if (cpu != one && !cpu_thread_is_idle(cpu) &&
		    (!last || place[cpu->cpu_index] < place[last->cpu_index])) {
			last = cpu;
		}
	}
	return last;
}

/* Lets halted CPUs wait until this place, or until a timer is due. Says whether there was one. */
static bool halted_wait_until(int64_t until)
{
	int64_t all = 0, some;
	CPUState *cpu;

	CPU_FOREACH(cpu) {
		if (cpu_thread_is_idle(cpu)) {
			all += MAX(0, until - place[cpu->cpu_index]);
		}
	}
	some = MIN(all, until_timer());
	CPU_FOREACH(cpu) {
		int64_t left = until - place[cpu->cpu_index], part;

		if (cpu_thread_is_idle(cpu) && left > 0) {
			/* each its part of what is left */
			part = (__int128)left * some / all;
			wait_for(cpu, part);
			some -= part;
			all -= left;
		}
	}
	return run_timers();
}

/* Runs a CPU for at most this many instructions, until a timer is due or an interrupt comes. Says
 * whether it paused. */
static bool run(CPUState *cpu, int64_t insns)
{
	int64_t budget, done;
	bool paused = false;
	int r;

	qemu_wait_io_event_common(cpu);
	if (!cpu_can_run(cpu)) {
		wait_for(cpu, insns);
		return false;
	}
	deliver(cpu);
	budget = MIN(insns, until_timer());
	budget = MIN(budget, interrupt_at[cpu->cpu_index] - place[cpu->cpu_index]);
	if (budget > 0) {
		current_cpu = cpu;
		running = cpu;
		running_budget = budget;
		cpu->icount_budget = budget;
		cpu_neg(cpu)->icount_decr.u16.low = MIN(0xffff, budget);
		cpu->icount_extra = budget - MIN(0xffff, budget);
		qatomic_set(&kicked, false);
		qemu_mutex_unlock_iothread();
		r = tcg_cpus_exec(cpu);
		done = executed(cpu);
		icount_update(cpu);
		cpu_neg(cpu)->icount_decr.u16.low = 0;
		cpu->icount_extra = 0;
		cpu->icount_budget = 0;
		running = NULL;
		qemu_mutex_lock_iothread();
		if (r == EXCP_ATOMIC) {
			qemu_mutex_unlock_iothread();
			cpu_exec_step_atomic(cpu);
			qemu_mutex_lock_iothread();
		}
		place[cpu->cpu_index] += done;
		paused = r == EXCP_INTERRUPT && done > 0 && done < budget && !qatomic_read(&kicked);
		if (!paused || done > PAUSE_INSNS) {
			spun[cpu->cpu_index] = 0;
		}
	}
	run_timers();
	return paused;
}

/* A CPU in a spin loop waits, and the CPUs that it may wait for run beside it. */
static void spin(CPUState *spinning)
{
	int64_t *waited = &spun[spinning->cpu_index];
	int64_t insns = *waited / PAUSE_PART;
	CPUState *cpu;

	if (parallel_cpus == 1) {
		return;
	}
	insns = MIN(MAX(insns, PAUSE_INSNS), PAUSE_INSNS_MAX);
	*waited += insns;
	wait_for(spinning, insns);
	run_timers();
	CPU_FOREACH(cpu) {
		int64_t ahead = place[cpu->cpu_index] - place[spinning->cpu_index];

		if (!cpu_thread_is_idle(cpu) && ahead > 0 && ahead < AHEAD_MAX * parallel_turn) {
			run(cpu, insns);
		}
	}
}

/* All CPUs are halted: time passes until a timer is due, or something comes from outside. */
static void idle(void)
{
	int64_t furthest = 0;
	CPUState *cpu;

	if (!runstate_is_running() || deadline() < 0) {
		qemu_cond_wait_iothread(first_cpu->halt_cond);
		return;
	}
	CPU_FOREACH(cpu) {
		furthest = MAX(furthest, place[cpu->cpu_index]);
	}
	halted_wait_until(furthest + until_timer() / parallel_cpus + 1);
}

/* One turn of the CPU that is furthest behind. */
static void turn(void)
{
	CPUState *cpu, *other;
	int64_t until;

	CPU_FOREACH(cpu) {
		deliver(cpu);
	}
	cpu = last_but(NULL);
	if (!cpu) {
		idle();
	} else if (!halted_wait_until(place[cpu->cpu_index])) {
		other = last_but(cpu);
		until = place[(other ? other : cpu)->cpu_index] + parallel_turn;
		if (run(cpu, until - place[cpu->cpu_index])) {
			spin(cpu);
		}
	}
}

void *parallel_cpu_thread_fn(void *arg)
{
	Notifier rcu = { .notify = force_rcu };
	AccelOpsClass *ops = ACCEL_OPS_CLASS(object_class_by_name(ACCEL_OPS_NAME("tcg")));
	CPUState *cpu = arg;

	rcu_register_thread();
	rcu_add_force_rcu_notifier(&rcu);
	tcg_register_thread();

	qemu_mutex_lock_iothread();
	qemu_thread_get_self(cpu->thread);
	cpu->thread_id = qemu_get_thread_id();
	cpu->can_do_io = 1;
	cpu_thread_signal_created(cpu);
	qemu_guest_random_seed_thread_part2(cpu->random_seed);

	place = g_new0(int64_t, current_machine->smp.max_cpus);
	spun = g_new0(int64_t, current_machine->smp.max_cpus);
	interrupt_at = g_new(int64_t, current_machine->smp.max_cpus);
	for (int i = 0; i < current_machine->smp.max_cpus; i++) {
		interrupt_at[i] = NEVER;
	}
	ops->handle_interrupt = handle_interrupt;
	ops->kick_vcpu_thread = kick;

	while (first_cpu->stopped) {
		qemu_cond_wait_iothread(first_cpu->halt_cond);
		CPU_FOREACH(cpu) {
			current_cpu = cpu;
			qemu_wait_io_event_common(cpu);
		}
	}
	qemu_clock_enable(QEMU_CLOCK_VIRTUAL, true);
	while (1) {
		/* the other threads' chance */
		qemu_mutex_unlock_iothread();
		qemu_mutex_lock_iothread();
		turn();
	}
	return NULL;
}

static void get_turn(Object *obj, Visitor *v, const char *name, void *opaque, Error **errp)
{
	visit_type_int64(v, name, &parallel_turn, errp);
}

static void set_turn(Object *obj, Visitor *v, const char *name, void *opaque, Error **errp)
{
	int64_t insns;

	if (!visit_type_int64(v, name, &insns, errp)) {
		return;
	}
	if (insns < 1000 || insns > 1000000) {
		error_setg(errp, "turn: from 1000 to 1000000 instructions, not %" PRId64, insns);
		return;
	}
	parallel_turn = insns;
	parallel_cpus = current_machine->smp.cpus;
}

void parallel_add_property(ObjectClass *oc)
{
	object_class_property_add(oc, "turn", "int", get_turn, set_turn, NULL, NULL);
	object_class_property_set_description(
		oc, "turn",
		"Instructions that a CPU may be ahead, on a clock that runs in parallel");
}
