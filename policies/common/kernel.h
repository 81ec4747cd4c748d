/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that a policy may use of the kernel: its types and kfuncs, once for the BPF target and once
 * for the native target. On the native target every kernel call goes through this copy's own table.
 * A name that is not here is a compile error on both.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
#define bool	_Bool
#define false	0
#define true	1
#define NULL	((void *)0)
#define ENOMEM	12
#define S32_MAX 0x7fffffff
#define S64_MAX 0x7fffffffffffffffLL

#define MAX_CPUS  512
#define CPU_WORDS (MAX_CPUS / 64) /* of a bit for each */
#define TYPES_MAX 4 /* kinds of cores */

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct mm_struct;

struct kernfs_node {
	u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent; /* NULL in the root */
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

/*
 * Never accessed, but the type has to have the kernel's kind for a kfunc that takes it to be found.
 */
struct cpumask {
	unsigned long bits[1];
};

struct sched_ext_entity {
	u32 weight;
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

/* In scx.flags: the task is runnable [enum scx_ent_flags]. */
#define SCX_TASK_QUEUED 1

/* Scheduling policies of the fair class, in task_struct.policy [include/uapi/linux/sched.h]. */
#define SCHED_NORMAL 0
#define SCHED_BATCH  3
#define SCHED_IDLE   5

/* In task_struct.flags: a kernel thread [include/linux/sched.h]. */
#define PF_KTHREAD 0x00200000
/* It ends [the same]. */
#define PF_EXITING 0x00000004

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 flags;
	s32 nr_cpus_allowed;
	s32 static_prio;
	u32 policy;
	const struct cpumask *cpus_ptr;
	struct mm_struct *mm;
	struct sched_ext_entity scx;
};

enum scx_exit_kind {
	SCX_EXIT_NONE
}; /* an enum, or CO-RE poisons the read */

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	const char *msg;
	const char *dump;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_exit_task_args {
	bool cancelled;
};

struct scx_cpu_acquire_args;
struct scx_dump_ctx;

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_RT,
	SCX_CPU_PREEMPT_DL,
	SCX_CPU_PREEMPT_STOP,
	SCX_CPU_PREEMPT_UNKNOWN,
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
	struct task_struct *task;
};

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dequeue)(struct task_struct *p, u64 deq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	void (*set_weight)(struct task_struct *p, u32 weight);
	void (*set_cpumask)(struct task_struct *p, const struct cpumask *cpumask);
	void (*update_idle)(s32 cpu, bool idle);
	void (*cpu_acquire)(s32 cpu, struct scx_cpu_acquire_args *args);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
	/* The simulator makes no dump. */
	u32 exit_dump_len;
	void (*dump_cpu)(struct scx_dump_ctx *dump, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *dump, struct task_struct *p);
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

/* An argument, not a kernel object: outside CO-RE, or 6.12 poisons the stores. */
struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

/* Values as in the kernel's include/linux/sched/ext.h and kernel/sched/ext.c, 6.12 to 7.2. */
#define SCX_DSQ_GLOBAL	 0x8000000000000001ULL
#define SCX_DSQ_LOCAL	 0x8000000000000002ULL
#define SCX_DSQ_LOCAL_ON 0xC000000000000000ULL

/*
 * These mirror flags of the scheduler core, and their values change between kernels (ENQUEUE_HEAD
 * is 0x10 in 6.12 and 0x10000 in 7.2). The BPF target reads the running kernel's values from its
 * BTF.
 */
enum scx_wake_flags {
	SCX_WAKE_FORK = 0x04,
	SCX_WAKE_SYNC = 0x10,
};

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 0x1,
	SCX_ENQ_HEAD = 0x10,
	SCX_ENQ_PREEMPT = 1ULL << 32,
	SCX_ENQ_REENQ = 1ULL << 40,
	SCX_ENQ_LAST = 1ULL << 41,
};

#define SCX_KICK_IDLE	 0x1ULL
#define SCX_KICK_PREEMPT 0x2ULL

#define SCX_OPS_KEEP_BUILTIN_IDLE   (1ULL << 0)
#define SCX_OPS_ENQ_LAST	    (1ULL << 1)
#define SCX_OPS_ENQ_EXITING	    (1ULL << 2)
#define SCX_OPS_ALLOW_QUEUED_WAKEUP (1ULL << 5)

#ifdef __bpf__
#include "kernel_bpf.h"
#else
#include "kernel_native.h"
#endif

/* Storage for each task, and table_of(p), which is NULL for a task without. */
#define TASK_STORAGE(entry, table)                                                         \
	struct {                                                                           \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                   \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                      \
		__type(key, int);                                                          \
		__type(value, entry);                                                      \
	} table SEC(".maps");                                                              \
	static __always_inline entry *table##_of(struct task_struct *p)                    \
	{                                                                                  \
		return bpf_task_storage_get(&table, p, 0, 0);                              \
	}                                                                                  \
	static __always_inline entry *table##_add(struct task_struct *p)                   \
	{                                                                                  \
		return bpf_task_storage_get(&table, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE); \
	}

/*
 * From one time to another, never negative. scx_bpf_now() is monotonic on one CPU only: a time
 * written by another CPU may lie ahead.
 */
static __always_inline u64 elapsed_ns(u64 from, u64 to)
{
	return (s64)(to - from) > 0 ? to - from : 0;
}
