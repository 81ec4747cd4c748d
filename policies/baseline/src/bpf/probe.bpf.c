/* SPDX-License-Identifier: GPL-2.0 */
/*
 * probe: one queue that dispatch takes from, with every callback recorded.
 *
 * Not for use as a scheduler. It records in which order the kernel calls a policy, and a test
 * compares the simulator with that. The simulator records callbacks by itself; there this is a
 * plain FIFO.
 *
 * crates/live/src/callbacks.rs reads the records.
 */
#include "kernel.h"

LICENSE;

#define QUEUE	      7
#define SLICE_NS      20000000
#define CALLBACKS_MAX 16384

/* In the order of OPS in callbacks.rs. */
enum op {
	SELECT_CPU,
	ENQUEUE,
	DEQUEUE,
	DISPATCH,
	TICK,
	RUNNABLE,
	RUNNING,
	STOPPING,
	QUIESCENT,
	SET_WEIGHT,
	INIT_TASK,
	EXIT_TASK,
	ENABLE,
};

#ifdef __bpf__
struct callback {
	u64 t_ns;
	u32 op;
	s32 pid; /* 0: not about a task */
	s32 cpu;
	u32 unused;
};

struct callback callbacks[CALLBACKS_MAX];
u64 callbacks_made; /* includes callbacks for which there was no room */

static __always_inline void note(enum op op, const struct task_struct *p)
{
	u64 at = __sync_fetch_and_add(&callbacks_made, 1);
	struct callback *callback;

	if (at >= CALLBACKS_MAX)
		return;
	callback = &callbacks[at];
	callback->t_ns = bpf_ktime_get_ns();
	callback->op = op;
	callback->pid = p ? p->pid : 0;
	callback->cpu = this_cpu();
}
#else
static void note(enum op op, const struct task_struct *p)
{
}
#endif

s32 OP(probe_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	note(SELECT_CPU, p);
	return prev_cpu;
}

void OP(probe_enqueue, struct task_struct *p, u64 enq_flags)
{
	note(ENQUEUE, p);
	scx_bpf_dsq_insert(p, QUEUE, SLICE_NS, enq_flags);
}

void OP(probe_dequeue, struct task_struct *p, u64 deq_flags)
{
	note(DEQUEUE, p);
}

void OP(probe_dispatch, s32 cpu, struct task_struct *prev)
{
	note(DISPATCH, prev);
	scx_bpf_dsq_move_to_local(QUEUE);
}

void OP(probe_tick, struct task_struct *p)
{
	note(TICK, p);
}

void OP(probe_runnable, struct task_struct *p, u64 enq_flags)
{
	note(RUNNABLE, p);
}

void OP(probe_running, struct task_struct *p)
{
	note(RUNNING, p);
}

void OP(probe_stopping, struct task_struct *p, bool runnable)
{
	note(STOPPING, p);
}

void OP(probe_quiescent, struct task_struct *p, u64 deq_flags)
{
	note(QUIESCENT, p);
}

void OP(probe_set_weight, struct task_struct *p, u32 weight)
{
	note(SET_WEIGHT, p);
}

s32 OP(probe_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	note(INIT_TASK, p);
	return 0;
}

void OP(probe_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	note(EXIT_TASK, p);
}

void OP(probe_enable, struct task_struct *p)
{
	note(ENABLE, p);
}

s32 OP_SLEEPABLE(probe_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

OPS(probe) = {
	.select_cpu = (void *)probe_select_cpu,
	.enqueue = (void *)probe_enqueue,
	.dequeue = (void *)probe_dequeue,
	.dispatch = (void *)probe_dispatch,
	.tick = (void *)probe_tick,
	.runnable = (void *)probe_runnable,
	.running = (void *)probe_running,
	.stopping = (void *)probe_stopping,
	.quiescent = (void *)probe_quiescent,
	.set_weight = (void *)probe_set_weight,
	.init_task = (void *)probe_init_task,
	.exit_task = (void *)probe_exit_task,
	.enable = (void *)probe_enable,
	.init = (void *)probe_init,
	.name = "probe",
};
