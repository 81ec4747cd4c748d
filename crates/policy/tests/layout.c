/* SPDX-License-Identifier: GPL-2.0 */
/* The offsets and sizes that C sees, in the order in which layout.rs lists them. */
#include "clocks.h"

#define O(type, field) __builtin_offsetof(struct type, field)

EXPORT const u64 layout[] = {
	O(sched_ext_entity, weight), O(sched_ext_entity, flags), O(sched_ext_entity, slice),
	O(sched_ext_entity, dsq_vtime), sizeof(struct sched_ext_entity),

	O(task_struct, pid), O(task_struct, tgid), O(task_struct, flags),
	O(task_struct, nr_cpus_allowed), O(task_struct, static_prio), O(task_struct, policy),
	O(task_struct, cpus_ptr),
	O(task_struct, mm), O(task_struct, scx), sizeof(struct task_struct),

	O(scx_init_task_args, fork), O(scx_init_task_args, cgroup), sizeof(struct scx_init_task_args),

	O(cgroup, kn), sizeof(struct cgroup),

	O(scx_exit_info, kind), O(scx_exit_info, exit_code), O(scx_exit_info, reason),
	O(scx_exit_info, msg), O(scx_exit_info, dump), sizeof(struct scx_exit_info),

	O(sched_ext_ops, select_cpu), O(sched_ext_ops, enqueue), O(sched_ext_ops, dequeue),
	O(sched_ext_ops, dispatch), O(sched_ext_ops, tick), O(sched_ext_ops, runnable),
	O(sched_ext_ops, running), O(sched_ext_ops, stopping), O(sched_ext_ops, quiescent),
	O(sched_ext_ops, set_weight), O(sched_ext_ops, set_cpumask), O(sched_ext_ops, update_idle),
	O(sched_ext_ops, cpu_acquire), O(sched_ext_ops, cpu_release), O(sched_ext_ops, cpu_online), O(sched_ext_ops, cpu_offline),
	O(sched_ext_ops, init_task), O(sched_ext_ops, exit_task), O(sched_ext_ops, enable), O(sched_ext_ops, disable), O(sched_ext_ops, cgroup_move),
	O(sched_ext_ops, init), O(sched_ext_ops, exit), O(sched_ext_ops, flags),
	O(sched_ext_ops, timeout_ms), O(sched_ext_ops, name), sizeof(struct sched_ext_ops),

	O(kernel, runtime), O(kernel, create_dsq), O(kernel, dsq_nr_queued), O(kernel, dsq_insert),
	O(kernel, dsq_insert_vtime), O(kernel, dsq_move_to_local), O(kernel, select_cpu_dfl),
	O(kernel, test_and_clear_cpu_idle), O(kernel, pick_idle_cpu), O(kernel, kick_cpu),
	O(kernel, task_cpu), O(kernel, cpu_allowed), O(kernel, set_slice), O(kernel, set_dsq_vtime),
	O(kernel, now_ns), O(kernel, this_cpu), O(kernel, random_u32), O(kernel, task_storage_get),
	O(kernel, spin_lock), O(kernel, spin_unlock), O(kernel, error),
	O(kernel, dsq_peek_vtime), O(kernel, dsq_next),
	O(kernel, cpu_instructions), O(kernel, clock_counts), O(kernel, vector_used),
	O(kernel, task_xfeatures), O(kernel, reenqueue_local), O(kernel, reenqueue_here),
	O(kernel, cpu_is_active),
	O(kernel, goes_anywhere),
	O(kernel, forker),
	O(kernel, dsq_take),
	O(kernel, cpu_idles),
	sizeof(struct kernel),
	O(clock_counts, cycles), O(clock_counts, limited_ns), O(clock_counts, energy_uj),
	sizeof(struct clock_counts),
	MAX_CPUS,
};

EXPORT const u64 layout_len = sizeof(layout) / sizeof(layout[0]);
