/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel.h on the native target: every kernel call goes through the table that the simulator puts
 * into this copy of the policy. crates/policy/src/native.rs mirrors the structs; a test compares.
 */
#pragma once

enum {
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

struct bpf_spin_lock {
	u32 val;
};

#define __always_inline inline __attribute__((always_inline))
#define __noinline	__attribute__((noinline))
#define __arg_trusted
#define EXPORT		  __attribute__((visibility("default")))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define SEC(name)
#define barrier_var(var) asm volatile("" : "+r"(var))

struct clock_counts;

struct kernel {
	void *runtime;
	s32 (*create_dsq)(struct kernel *k, u64 dsq_id, s32 node);
	s32 (*dsq_nr_queued)(struct kernel *k, u64 dsq_id);
	void (*dsq_insert)(struct kernel *k, struct task_struct *p, u64 dsq_id, u64 slice,
			   u64 enq_flags);
	void (*dsq_insert_vtime)(struct kernel *k, struct task_struct *p, u64 dsq_id, u64 slice,
				 u64 vtime, u64 enq_flags);
	bool (*dsq_move_to_local)(struct kernel *k, u64 dsq_id);
	s32 (*select_cpu_dfl)(struct kernel *k, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
			      bool *is_idle);
	bool (*test_and_clear_cpu_idle)(struct kernel *k, s32 cpu);
	s32 (*pick_idle_cpu)(struct kernel *k, const struct cpumask *allowed, u64 flags);
	void (*kick_cpu)(struct kernel *k, s32 cpu, u64 flags);
	s32 (*task_cpu)(struct kernel *k, const struct task_struct *p);
	bool (*cpu_allowed)(struct kernel *k, const struct task_struct *p, s32 cpu);
	void (*set_slice)(struct kernel *k, struct task_struct *p, u64 slice);
	void (*set_dsq_vtime)(struct kernel *k, struct task_struct *p, u64 vtime);
	u64 (*now_ns)(struct kernel *k);
	s32 (*this_cpu)(struct kernel *k);
	u32 (*random_u32)(struct kernel *k);
	void *(*task_storage_get)(struct kernel *k, void *map, u32 size, struct task_struct *p,
				  u64 flags);
	void (*spin_lock)(struct kernel *k, struct bpf_spin_lock *lock);
	void (*spin_unlock)(struct kernel *k, struct bpf_spin_lock *lock);
	void (*error)(struct kernel *k, const char *message);
	u64 (*dsq_peek_vtime)(struct kernel *k, u64 dsq_id);
	struct task_struct *(*dsq_next)(struct kernel *k, u64 dsq_id, struct task_struct *p);
	u64 (*cpu_instructions)(struct kernel *k);
	bool (*clock_counts)(struct kernel *k, struct clock_counts *counts);
	u32 (*vector_used)(struct kernel *k);
	u64 (*task_xfeatures)(struct kernel *k, const struct task_struct *p);
	u32 (*reenqueue_local)(struct kernel *k);
	void (*reenqueue_here)(struct kernel *k);
	bool (*cpu_is_active)(struct kernel *k, s32 cpu);
	bool (*goes_anywhere)(struct kernel *k, const struct task_struct *p);
	bool (*has_siblings)(struct kernel *k, const struct task_struct *p);
	struct task_struct *(*forker)(struct kernel *k);
	bool (*dsq_take)(struct kernel *k, u64 dsq_id, struct task_struct *p);
	bool (*cpu_idles)(struct kernel *k, s32 cpu);
	struct task_struct *(*cpu_curr)(struct kernel *k, s32 cpu);
	void (*dsq_move_vtime)(struct kernel *k, u64 from, struct task_struct *p, u64 to,
			       u64 vtime);
	void (*timer_start)(struct kernel *k, void (*expires)(u32 number), u32 number, u64 ns);
};

EXPORT struct kernel *kernel;

#define scx_bpf_create_dsq(dsq_id, node) kernel->create_dsq(kernel, dsq_id, node)
#define scx_bpf_dsq_nr_queued(dsq_id)	 kernel->dsq_nr_queued(kernel, dsq_id)
#define scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, is_idle) \
	kernel->select_cpu_dfl(kernel, p, prev_cpu, wake_flags, is_idle)
#define scx_bpf_test_and_clear_cpu_idle(cpu)  kernel->test_and_clear_cpu_idle(kernel, cpu)
#define scx_bpf_pick_idle_cpu(allowed, flags) kernel->pick_idle_cpu(kernel, allowed, flags)
#define scx_bpf_kick_cpu(cpu, flags)	      kernel->kick_cpu(kernel, cpu, flags)
#define scx_bpf_task_cpu(p)		      kernel->task_cpu(kernel, p)
#define scx_bpf_error(message)		      kernel->error(kernel, message)
#define scx_bpf_dump(format, args...)	      ((void)0) /* the simulator makes no dump */
#define scx_bpf_dsq_insert(p, dsq_id, slice, flags) \
	kernel->dsq_insert(kernel, p, dsq_id, slice, flags)
#define scx_bpf_dsq_insert_vtime(p, dsq_id, slice, vtime, flags) \
	kernel->dsq_insert_vtime(kernel, p, dsq_id, slice, vtime, flags)
#define scx_bpf_dsq_move_to_local(dsq_id) kernel->dsq_move_to_local(kernel, dsq_id)
#define dsq_can_peek()			  true
#define dsq_peek_vtime(dsq_id)		  kernel->dsq_peek_vtime(kernel, dsq_id)
/* In BPF an open-coded iterator, so that the verifier does not unroll the loop. */
#define bpf_for(i, start, end) for ((i) = (start); (i) < (end); (i)++)
#define dsq_for_each(p, dsq_id)                                 \
	for ((p) = kernel->dsq_next(kernel, dsq_id, NULL); (p); \
	     (p) = kernel->dsq_next(kernel, dsq_id, p))
#define dsq_take(p, dsq_id)		     kernel->dsq_take(kernel, dsq_id, p)
#define dsq_move_vtime(p, from, to, vtime)   kernel->dsq_move_vtime(kernel, from, p, to, vtime)
#define dsq_hand_back(dsq_id, cpu)	     ((void)0) /* the simulator does it */
#define dsq_push_off(p)			     ((void)0) /* the same */
#define cgroup_of_newcomer(args)	     ((args)->cgroup)
#define bpf_get_current_task_btf()	     kernel->forker(kernel) /* no class changes there */
#define migration_is_disabled(p)	     false /* no task does that there */
#define holds_up_rcu(p)			     false /* the same */
#define higher_class_goes_on()		     false /* dispatch implies waiting tasks there */
#define can_reenqueue()			     true
#define reenqueue_here()		     kernel->reenqueue_here(kernel)
#define scx_bpf_task_set_slice(p, slice)     kernel->set_slice(kernel, p, slice)
#define scx_bpf_task_set_dsq_vtime(p, vtime) kernel->set_dsq_vtime(kernel, p, vtime)
#define scx_bpf_now()			     kernel->now_ns(kernel)
#define this_cpu()			     kernel->this_cpu(kernel)

#define cpu_count() ((struct count){ kernel->cpu_instructions(kernel), scx_bpf_now() + 1 })

#define clock_counts(counts)	  kernel->clock_counts(kernel, counts)
#define vector_used()		  kernel->vector_used(kernel)
#define task_xfeatures(p)	  kernel->task_xfeatures(kernel, p)
#define bpf_get_prandom_u32()	  kernel->random_u32(kernel)
#define cpu_allowed(p, cpu)	  kernel->cpu_allowed(kernel, p, cpu)
#define scx_bpf_reenqueue_local() kernel->reenqueue_local(kernel)
#define cpu_is_online(cpu)	  ((u32)(cpu) < nr_cpus) /* all are, when a simulation starts */
#define cpu_is_active(cpu)	  kernel->cpu_is_active(kernel, cpu)
#define cpu_idles(cpu)		  kernel->cpu_idles(kernel, cpu)
#define cpu_curr(cpu)		  kernel->cpu_curr(kernel, cpu)
#define goes_anywhere(p)	  kernel->goes_anywhere(kernel, p)
#define has_siblings(p)		  kernel->has_siblings(kernel, p)
#define spin_lock(lock)		  kernel->spin_lock(kernel, lock)
#define spin_unlock(lock)	  kernel->spin_unlock(kernel, lock)
#define bpf_task_storage_get(map, p, init, flags)                                              \
	((typeof((map)->value))kernel->task_storage_get(kernel, map, sizeof(*(map)->value), p, \
							flags))

static __always_inline void cpus_allowed(const struct task_struct *p, u64 mask[CPU_WORDS], u32 nr)
{
	u32 cpu;

	for (cpu = 0; cpu < CPU_WORDS; cpu++)
		mask[cpu] = 0;
	for (cpu = 0; cpu < nr && cpu < MAX_CPUS; cpu++)
		mask[cpu / 64] |= (u64)cpu_allowed(p, cpu) << cpu % 64;
}

#define OP(name, args...)	    name(args)
#define OP_SLEEPABLE(name, args...) name(args)
#define OPS_TABLE		    EXPORT struct sched_ext_ops
#define OPS(policy)		    OPS_TABLE policy##_ops
#define KERNEL_ONLY(callback)	    NULL /* its event does not occur there */
#define LICENSE			    static const char license[] __attribute__((unused)) = "GPL"

#define CPU_TABLE(entry, table)                             \
	static entry table[MAX_CPUS];                       \
	static __always_inline entry *table##_of(s32 cpu)   \
	{                                                   \
		u32 key = cpu;                              \
		return key < MAX_CPUS ? &table[key] : NULL; \
	}

#define TIMERS(table, nr, expires)                                    \
	static __always_inline s32 table##_create(void)               \
	{                                                             \
		return 0;                                             \
	}                                                             \
	static __always_inline void table##_start(u32 number, u64 ns) \
	{                                                             \
		kernel->timer_start(kernel, expires, number, ns);     \
	}

/* const in BPF; here each copy has its own, written before init */
#define CONFIG	EXPORT volatile
#define TUNABLE CONFIG
