/* SPDX-License-Identifier: GPL-2.0 */
/* kernel.h on the BPF target: one wrapper for each kfunc, which tries the newest version first. */
#pragma once

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

#define BPF_F_CURRENT_CPU 0xffffffffULL

struct bpf_spin_lock {
	u32 val;
};

struct bpf_iter_num { /* for bpf_for */
	u64 opaque[1];
} __attribute__((aligned(8)));

struct bpf_timer {
	u64 opaque[2];
} __attribute__((aligned(8)));

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Set before loading: a knob, or a fact of the machine. */
#define CONFIG const volatile
/* A knob that may change while the policy is in charge: it is read anew at each use. */
#define TUNABLE SEC(".data.tunable") volatile
#define EXPORT

#define SCX_WAKE_FORK	bpf_core_enum_value(enum scx_wake_flags, SCX_WAKE_FORK)
#define SCX_WAKE_SYNC	bpf_core_enum_value(enum scx_wake_flags, SCX_WAKE_SYNC)
#define SCX_ENQ_WAKEUP	bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP)
#define SCX_ENQ_HEAD	bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_HEAD)
#define SCX_ENQ_PREEMPT bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_PREEMPT)
#define SCX_ENQ_REENQ	bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_REENQ)
#define SCX_ENQ_LAST	bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_LAST)

#define KFUNC(ret, name, ...) \
	ret name(__VA_ARGS__) \
	__ksym __weak
#define has bpf_ksym_exists

KFUNC(s32, scx_bpf_create_dsq, u64 dsq_id, s32 node);
KFUNC(s32, scx_bpf_dsq_nr_queued, u64 dsq_id);
KFUNC(s32, scx_bpf_select_cpu_dfl, struct task_struct *p, s32 prev_cpu, u64 wake_flags,
      bool *is_idle);
KFUNC(bool, scx_bpf_test_and_clear_cpu_idle, s32 cpu);
KFUNC(s32, scx_bpf_pick_idle_cpu, const struct cpumask *allowed, u64 flags);
KFUNC(void, scx_bpf_kick_cpu, s32 cpu, u64 flags);
KFUNC(s32, scx_bpf_task_cpu, const struct task_struct *p);
KFUNC(void, scx_bpf_error_bstr, char *fmt, unsigned long long *data, u32 data_sz);
KFUNC(void, scx_bpf_dump_bstr, char *fmt, unsigned long long *data, u32 data_sz);
KFUNC(bool, bpf_cpumask_test_cpu, u32 cpu, const struct cpumask *mask);
KFUNC(bool, bpf_cpumask_subset, const struct cpumask *mask, const struct cpumask *of);
KFUNC(const struct cpumask *, scx_bpf_get_online_cpumask, void);
KFUNC(const struct cpumask *, scx_bpf_get_idle_cpumask, void);
KFUNC(void, scx_bpf_put_cpumask, const struct cpumask *mask);
KFUNC(void, scx_bpf_put_idle_cpumask, const struct cpumask *mask);
KFUNC(u32, scx_bpf_reenqueue_local, void);	   /* in cpu_release */
KFUNC(void, scx_bpf_reenqueue_local___v2___paceline, void);   /* 6.19: anywhere */
KFUNC(u64, scx_bpf_now___v1, void);	    /* 6.14 */
KFUNC(struct task_struct *, scx_bpf_dsq_peek, u64 dsq_id);   /* 6.19 */
KFUNC(struct task_struct *, scx_bpf_cpu_curr, s32 cpu); /* 6.18 */

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

KFUNC(int, bpf_iter_scx_dsq_new, struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags);
KFUNC(struct task_struct *, bpf_iter_scx_dsq_next, struct bpf_iter_scx_dsq *it);
KFUNC(void, bpf_iter_scx_dsq_destroy, struct bpf_iter_scx_dsq *it);

KFUNC(bool, scx_bpf_dsq_move, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
      u64 enq_flags);	      /* 6.13 */
KFUNC(bool, scx_bpf_dispatch_from_dsq, struct bpf_iter_scx_dsq *it, struct task_struct *p,
      u64 dsq_id, u64 enq_flags);	  /* 6.12 */

KFUNC(void, scx_bpf_dsq_move_set_vtime, struct bpf_iter_scx_dsq *it, u64 vtime); /* 6.13 */
KFUNC(bool, scx_bpf_dsq_move_vtime, struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
      u64 enq_flags);	      /* 6.13 */
KFUNC(void, scx_bpf_dispatch_from_dsq_set_vtime, struct bpf_iter_scx_dsq *it, u64 vtime); /* 6.12 */
KFUNC(bool, scx_bpf_dispatch_vtime_from_dsq, struct bpf_iter_scx_dsq *it, struct task_struct *p,
      u64 dsq_id, u64 enq_flags); /* 6.12 */
KFUNC(void, bpf_rcu_read_lock, void);
KFUNC(void, bpf_rcu_read_unlock, void);

KFUNC(bool, scx_bpf_dsq_insert___v2___paceline, struct task_struct *p, u64 dsq_id, u64 slice,
      u64 enq_flags); /* 6.19 */
KFUNC(void, scx_bpf_dsq_insert___v1, struct task_struct *p, u64 dsq_id, u64 slice,
      u64 enq_flags); /* 6.13 */
KFUNC(void, scx_bpf_dispatch___v0, struct task_struct *p, u64 dsq_id, u64 slice,
      u64 enq_flags); /* 6.12 */
KFUNC(bool, __scx_bpf_dsq_insert_vtime, struct task_struct *p,
      struct scx_bpf_dsq_insert_vtime_args *args); /* 6.19 */
KFUNC(void, scx_bpf_dsq_insert_vtime___v1, struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
      u64 enq_flags); /* 6.13 */
KFUNC(void, scx_bpf_dispatch_vtime___v0, struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
      u64 enq_flags); /* 6.12 */
KFUNC(bool, scx_bpf_dsq_move_to_local___v2___paceline, u64 dsq_id, u64 enq_flags); /* 7.1 */
KFUNC(bool, scx_bpf_dsq_move_to_local___v1, u64 dsq_id); /* 6.13 */
KFUNC(bool, scx_bpf_consume___v0, u64 dsq_id); /* 6.12 */
KFUNC(bool, scx_bpf_task_set_slice___v1, struct task_struct *p, u64 slice); /* 6.19 */
KFUNC(bool, scx_bpf_task_set_dsq_vtime___v1, struct task_struct *p, u64 vtime); /* 6.19 */

static __always_inline void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice,
					       u64 enq_flags)
{
	if (has(scx_bpf_dsq_insert___v2___paceline))
		scx_bpf_dsq_insert___v2___paceline(p, dsq_id, slice, enq_flags);
	else if (has(scx_bpf_dsq_insert___v1))
		scx_bpf_dsq_insert___v1(p, dsq_id, slice, enq_flags);
	else
		scx_bpf_dispatch___v0(p, dsq_id, slice, enq_flags);
}

static __always_inline void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice,
						     u64 vtime, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = { dsq_id, slice, vtime, enq_flags };

	if (has(__scx_bpf_dsq_insert_vtime))
		__scx_bpf_dsq_insert_vtime(p, &args);
	else if (has(scx_bpf_dsq_insert_vtime___v1))
		scx_bpf_dsq_insert_vtime___v1(p, dsq_id, slice, vtime, enq_flags);
	else
		scx_bpf_dispatch_vtime___v0(p, dsq_id, slice, vtime, enq_flags);
}

static __always_inline bool scx_bpf_dsq_move_to_local(u64 dsq_id)
{
	if (has(scx_bpf_dsq_move_to_local___v2___paceline))
		return scx_bpf_dsq_move_to_local___v2___paceline(dsq_id, 0);
	if (has(scx_bpf_dsq_move_to_local___v1))
		return scx_bpf_dsq_move_to_local___v1(dsq_id);
	return scx_bpf_consume___v0(dsq_id);
}

/* Before 7.1, which also brought the two-argument move, a peek may miss a queued task. */
static __always_inline bool dsq_can_peek(void)
{
	return has(scx_bpf_dsq_peek) && has(scx_bpf_dsq_move_to_local___v2___paceline);
}

/* The vtime of the first task in a user DSQ, read without a lock; 0 if the DSQ is empty. */
static __always_inline u64 dsq_peek_vtime(u64 dsq_id)
{
	struct task_struct *p = has(scx_bpf_dsq_peek) ? scx_bpf_dsq_peek(dsq_id) : NULL;

	return p ? p->scx.dsq_vtime : 0;
}

/* Iterates over the tasks in a user DSQ, in its order. Each step takes the DSQ's lock. */
#define dsq_for_each(p, dsq_id) bpf_for_each(scx_dsq, p, dsq_id, 0)

/* In dsq_for_each: moves p to another DSQ if it is still queued. Returns whether it was moved. */
#define dsq_send(p, to)                                                                 \
	(has(scx_bpf_dsq_move)		  ? scx_bpf_dsq_move(&___it, p, to, 0)          \
	 : has(scx_bpf_dispatch_from_dsq) ? scx_bpf_dispatch_from_dsq(&___it, p, to, 0) \
					  : false)

/* In dispatch, within dsq_for_each: moves p, which may run here, to this CPU's local DSQ. */
#define dsq_take(p, dsq_id) dsq_send(p, SCX_DSQ_LOCAL)

/* The same to a DSQ by vtime. */
#define dsq_move_vtime(p, from, to, vtime)                                  \
	({                                                                  \
		if (has(scx_bpf_dsq_move_vtime)) {                          \
			scx_bpf_dsq_move_set_vtime(&___it, vtime);          \
			scx_bpf_dsq_move_vtime(&___it, p, to, 0);           \
		} else if (has(scx_bpf_dispatch_vtime_from_dsq)) {          \
			scx_bpf_dispatch_from_dsq_set_vtime(&___it, vtime); \
			scx_bpf_dispatch_vtime_from_dsq(&___it, p, to, 0);  \
		}                                                           \
	})

/*
 * In cpu_offline, or in dispatch of another CPU: empties a user DSQ whose CPU goes offline. A task
 * on that CPU's runqueue goes to its local DSQ, from where the kernel pushes tasks away. A task on
 * another runqueue goes to the global DSQ, where each CPU looks first. The kernel no longer calls
 * dispatch for the CPU, so a task pinned to it would wait for ever, and the thread that takes the
 * CPU down would wait for that task.
 */
static __always_inline void dsq_hand_back(u64 dsq_id, s32 cpu)
{
	struct task_struct *p;

	dsq_for_each(p, dsq_id)
		dsq_send(p, scx_bpf_task_cpu(p) == cpu ? SCX_DSQ_LOCAL_ON | cpu : SCX_DSQ_GLOBAL);
}

/* The same for one task, in dsq_for_each, whose CPU goes offline. */
#define dsq_push_off(p) dsq_send(p, SCX_DSQ_LOCAL_ON | scx_bpf_task_cpu(p))

static __always_inline void scx_bpf_task_set_slice(struct task_struct *p, u64 slice)
{
	if (has(scx_bpf_task_set_slice___v1))
		scx_bpf_task_set_slice___v1(p, slice);
	else
		p->scx.slice = slice;
}

static __always_inline void scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime)
{
	if (has(scx_bpf_task_set_dsq_vtime___v1))
		scx_bpf_task_set_dsq_vtime___v1(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

static __always_inline u64 scx_bpf_now(void)
{
	return has(scx_bpf_now___v1) ? scx_bpf_now___v1() : bpf_ktime_get_ns();
}

static __always_inline s32 this_cpu(void)
{
	return bpf_get_smp_processor_id();
}

/* The cgroup of a new task. NULL: the kernel has no cgroups. */
static __always_inline const struct cgroup *
cgroup_of_newcomer(const struct scx_init_task_args *args)
{
	return bpf_core_field_exists(args->cgroup) ? args->cgroup : NULL;
}

#define MAX_RT_PRIO 100

struct task_struct___class {
	s32 prio;
	u32 __state;
} __attribute__((preserve_access_index));

/* In dispatch: whether the current task is of a class above ours and stays runnable. */
static __always_inline bool higher_class_goes_on(void)
{
	struct task_struct___class *p = (void *)bpf_get_current_task_btf();

	return p->prio < MAX_RT_PRIO && !p->__state;
}

/* Whether this CPU's local DSQ can be re-enqueued outside of cpu_release. */
static __always_inline bool can_reenqueue(void)
{
	return has(scx_bpf_reenqueue_local___v2___paceline);
}

static __always_inline void reenqueue_here(void)
{
	if (has(scx_bpf_reenqueue_local___v2___paceline))
		scx_bpf_reenqueue_local___v2___paceline();
}

static __always_inline bool cpu_allowed(const struct task_struct *p, s32 cpu)
{
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* The task that runs on a CPU, of any class; NULL before 6.18. */
static __always_inline struct task_struct *cpu_curr(s32 cpu)
{
	return has(scx_bpf_cpu_curr) ? scx_bpf_cpu_curr(cpu) : NULL;
}

/*
 * The CPUs that p may run on, a bit for each of the first `nr`. Bits beyond the kernel's own mask
 * are undefined.
 */
static __always_inline void cpus_allowed(const struct task_struct *p, u64 mask[CPU_WORDS], u32 nr)
{
	bpf_probe_read_kernel(mask, CPU_WORDS * sizeof(*mask), p->cpus_ptr);
}

/* Unloads the policy with an error message. */
#define scx_bpf_error(message)                                \
	({                                                    \
		static char text[] = message;                 \
		unsigned long long none[1] = {};              \
		scx_bpf_error_bstr(text, none, sizeof(none)); \
	})

/* In dump_cpu and dump_task: prints into the kernel's dump. */
#define scx_bpf_dump(format, args...)                            \
	({                                                       \
		static char text[] = format;                     \
		unsigned long long values[___bpf_narg(args)];    \
		___bpf_fill(values, args);                       \
		scx_bpf_dump_bstr(text, values, sizeof(values)); \
	})

static __always_inline bool cpu_is_online(s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool is = bpf_cpumask_test_cpu(cpu, online);

	scx_bpf_put_cpumask(online);
	return is;
}

/* Whether the kernel counts the CPU as idle, and no other wakeup has claimed it since. */
static __always_inline bool cpu_idles(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool is = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is;
}

/*
 * Whether p may run on all online CPUs. Masks set by sched_setaffinity or a cpuset hold online CPUs
 * only, so comparing their number says nothing [cpuset_cpus_allowed].
 */
static __always_inline bool goes_anywhere(const struct task_struct *p)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	bool goes = bpf_cpumask_subset(online, p->cpus_ptr);

	scx_bpf_put_cpumask(online);
	return goes;
}

struct mm_struct___users {
	struct {
		int counter;
	} mm_users;
} __attribute__((preserve_access_index));

/*
 * Whether other tasks have p's address space. For a moment it also counts as used by others while
 * its files in /proc are read.
 */
static __always_inline bool has_siblings(const struct task_struct *p)
{
	const struct mm_struct___users *mm = (const void *)p->mm;

	return mm && mm->mm_users.counter > 1;
}

struct task_struct___pinned {
	unsigned short migration_disabled;
} __attribute__((preserve_access_index));

/*
 * Whether p must stay on its CPU for now: the kernel then asks no policy where to put it. A BPF
 * program itself disables migration of the task it runs in, which does not count here.
 */
static __always_inline bool migration_is_disabled(struct task_struct *p)
{
	struct task_struct___pinned *task = (void *)p;

	return bpf_core_field_exists(task->migration_disabled) &&
	       task->migration_disabled > (p == bpf_get_current_task_btf() ? 1 : 0);
}

struct task_struct___reader {
	int rcu_read_lock_nesting;
} __attribute__((preserve_access_index));

/*
 * Whether p was preempted inside an RCU read-side critical section: no grace period ends until it
 * has run on. A BPF program is such a section itself, and does not count for the task it runs in.
 * Without CONFIG_PREEMPT_RCU readers are not preempted, and this is always false.
 */
static __always_inline bool holds_up_rcu(struct task_struct *p)
{
	struct task_struct___reader *task = (void *)p;

	return bpf_core_field_exists(task->rcu_read_lock_nesting) &&
	       task->rcu_read_lock_nesting > (p == bpf_get_current_task_btf() ? 1 : 0);
}

CONFIG u64 cpu_active_mask_at; /* the address of the kernel's mask: crates/live/src/address.rs */

/*
 * Whether a CPU takes tasks. A CPU that goes offline stops taking them a grace period before
 * cpu_offline is called. So a policy that checks this before it puts a task there is never too
 * late. Unknown, and taken as true, without CONFIG_KALLSYMS_ALL.
 */
static __always_inline bool cpu_is_active(s32 cpu)
{
	const u64 *mask = (const u64 *)cpu_active_mask_at;
	u64 word = ~0ULL;

	if (mask)
		bpf_probe_read_kernel(&word, sizeof(word), mask + (u32)cpu / 64);
	return word >> ((u32)cpu % 64) & 1;
}

#define OP(name, args...)	    SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define OP_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)
#define OPS_TABLE		    SEC(".struct_ops.link") struct sched_ext_ops
#define OPS(policy)		    OPS_TABLE policy##_ops
#define KERNEL_ONLY(callback)	    ((void *)callback) /* not in the simulator */
#define LICENSE			    char _license[] SEC("license") = "GPL"

/* A table with an entry for each CPU, and table_of(cpu), which is NULL for a CPU out of range. */
#define CPU_TABLE(entry, table)                           \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY);         \
		__uint(max_entries, MAX_CPUS);            \
		__type(key, u32);                         \
		__type(value, entry);                     \
	} table SEC(".maps");                             \
	static __always_inline entry *table##_of(s32 cpu) \
	{                                                 \
		u32 key = cpu;                            \
		return bpf_map_lookup_elem(&table, &key); \
	}

/*
 * Timers by number. expires(number) is called when one does, with no lock held. table_create()
 * makes them, in init; table_start(number, ns) starts one, in place of its last start.
 */
#define TIMERS(table, nr, expires)                                                            \
	struct table {                                                                        \
		struct bpf_timer timer;                                                       \
	};                                                                                    \
	struct {                                                                              \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                             \
		__uint(max_entries, nr);                                                      \
		__type(key, u32);                                                             \
		__type(value, struct table);                                                  \
	} table SEC(".maps");                                                                 \
	static int table##_expires(void *map, u32 *number, struct table *of)                  \
	{                                                                                     \
		/* In the kernel's eyes a sleepable program has set it. */                    \
		bpf_rcu_read_lock();                                                          \
		expires(*number);                                                             \
		bpf_rcu_read_unlock();                                                        \
		return 0;                                                                     \
	}                                                                                     \
	static __always_inline s32 table##_create(void)                                       \
	{                                                                                     \
		u32 i;                                                                        \
                                                                                              \
		bpf_for(i, 0, nr) {                                                           \
			u32 key = i;                                                          \
			struct table *of = bpf_map_lookup_elem(&table, &key);                 \
                                                                                              \
			if (!of || bpf_timer_init(&of->timer, &table, BPF_CLOCK_MONOTONIC) || \
			    bpf_timer_set_callback(&of->timer, table##_expires))              \
				return -ENOMEM;                                               \
		}                                                                             \
		return 0;                                                                     \
	}                                                                                     \
	static __always_inline void table##_start(u32 number, u64 ns)                         \
	{                                                                                     \
		struct table *of = bpf_map_lookup_elem(&table, &number);                      \
                                                                                              \
		if (of)                                                                       \
			bpf_timer_start(&of->timer, ns, 0);                                   \
	}

#define BPF_CLOCK_MONOTONIC 1

#define spin_lock(lock)	  bpf_spin_lock(lock)
#define spin_unlock(lock) bpf_spin_unlock(lock)
