/* SPDX-License-Identifier: GPL-2.0 */
/*
 * meter: how long tasks wait for a CPU and how long they have it, by cgroup and by program, and
 * what each CPU does. It works under any scheduler.
 *
 * A task's wait begins as it becomes runnable, or as it leaves its CPU runnable, and ends as it
 * gets one. All of a task's turn, its wait before it included, is charged as the turn ends: one
 * lookup for each switch. User space adds the turns that are not over.
 *
 * Each CPU writes to memory of its own. When a map is full, the rest is charged to an entry that
 * user space makes. Its key, and that of kernel threads, has a last byte of 1: a task's name ends
 * with a zero, so that no task can take them.
 *
 * crates/live/src/meter.rs mirrors struct use and struct cpu.
 */
#include "kernel.h"

LICENSE;

#define BUCKETS	   48
#define FIRST_BITS 10 /* the first bucket ends at 1,024 ns */
#define UNKNOWN	   (~0ULL)

enum {
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_NOEXIST = 1,
};

struct use {
	u64 run_ns;
	u64 wait_ns;
	u64 waits; /* those that have ended */
	u64 buckets[BUCKETS]; /* waits by their length: two buckets to a power of two */
};

struct name {
	char text[16];
};

/* A CPU: what runs on it, and what it did so far. */
struct cpu {
	u32 writes; /* odd while it is written */
	s32 pid; /* 0: idle */
	u64 since_ns;
	u64 waited_ns; /* before this turn */
	u64 cgroup;
	struct name task;
	struct name program;
	u64 busy_ns;
	u64 switches;
	u64 preemptions; /* switches from a task that could have gone on */
	u64 wakeups;
	u64 migrations; /* turns of tasks that had their last one on another CPU */
} __attribute__((aligned(128)));

/* A task, from its first wakeup on. */
struct waiting {
	u64 since_ns; /* 0: it does not wait */
	s32 cpu; /* of its last turn, and one more; 0: none */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node___meter {
	u64 id;
};

struct cgroup___meter {
	struct kernfs_node___meter *kn;
};

struct css_set___meter {
	struct cgroup___meter *dfl_cgrp;
};

struct task_struct___meter {
	s32 pid;
	u32 flags;
	struct css_set___meter *cgroups;
	struct task_struct___meter *group_leader;
	char comm[16];
};
#pragma clang attribute pop

struct cpu cpus[MAX_CPUS];
const struct use unused;
const struct name kernel_threads = { "[kernel]\0\0\0\0\0\0\0\1" };

#define USES(table, kind)                                               \
	struct {                                                        \
		__uint(type, BPF_MAP_TYPE_PERCPU_HASH);                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                   \
		__uint(max_entries, 1);                                 \
		__type(key, kind);                                      \
		__type(value, struct use);                              \
	} table SEC(".maps");                                           \
	static __always_inline struct use *table##_of(kind *key)        \
	{                                                               \
		struct use *use = bpf_map_lookup_elem(&table, key);     \
		struct {                                                \
			char bytes[sizeof(kind)];                       \
		} rest = {};                                            \
                                                                        \
		if (use)                                                \
			return use;                                     \
		rest.bytes[sizeof(kind) - 1] = 1;                       \
		bpf_map_update_elem(&table, key, &unused, BPF_NOEXIST); \
		use = bpf_map_lookup_elem(&table, key);                 \
		return use ? use : bpf_map_lookup_elem(&table, &rest);  \
	}

USES(cgroups, u64)
USES(programs, struct name)
TASK_STORAGE(struct waiting, waits)

static __always_inline u32 bits_of(u64 value)
{
	u32 bits = 0, half;

	for (half = 32; half; half /= 2) {
		if (value >> half) {
			bits += half;
			value >>= half;
		}
	}
	return bits;
}

static __always_inline u32 bucket_of(u64 ns)
{
	u32 bits = bits_of(ns), bucket;

	if (bits < FIRST_BITS)
		return 0;
	bucket = 1 + 2 * (bits - FIRST_BITS) + (ns >> (bits - 1) & 1);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline void charge(struct use *use, u64 ran_ns, u64 waited_ns)
{
	u32 bucket = bucket_of(waited_ns);

	if (!use)
		return;
	use->run_ns += ran_ns;
	if (waited_ns == UNKNOWN)
		return;
	use->waits++;
	use->wait_ns += waited_ns;
	if (bucket < BUCKETS)
		use->buckets[bucket]++;
}

/* The turn of the task that leaves its CPU. */
static __always_inline void charge_turn(struct cpu *cpu, u64 now)
{
	u64 ran_ns = elapsed_ns(cpu->since_ns, now), cgroup = cpu->cgroup;
	struct name program = cpu->program;

	cpu->busy_ns += ran_ns;
	charge(cgroups_of(&cgroup), ran_ns, cpu->waited_ns);
	charge(programs_of(&program), ran_ns, cpu->waited_ns);
}

/* The wait of a task that comes to a CPU. */
static __always_inline u64 waited(struct cpu *cpu, struct task_struct___meter *p, s32 on, u64 now)
{
	struct waiting *wait = waits_of((struct task_struct *)p);
	u64 since_ns;

	if (!wait)
		return UNKNOWN;
	if (wait->cpu && wait->cpu != on + 1)
		cpu->migrations++;
	wait->cpu = on + 1;
	since_ns = wait->since_ns;
	wait->since_ns = 0;
	return since_ns ? elapsed_ns(since_ns, now) : UNKNOWN;
}

static __always_inline void begin_waiting(struct task_struct___meter *p, u64 now)
{
	struct waiting *wait = waits_add((struct task_struct *)p);

	if (wait)
		wait->since_ns = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct___meter *prev,
	     struct task_struct___meter *next, u32 prev_state)
{
	s32 on = bpf_get_smp_processor_id();
	struct cpu *cpu = &cpus[on & (MAX_CPUS - 1)];
	u64 now = bpf_ktime_get_ns();

	__sync_fetch_and_add(&cpu->writes, 1);
	cpu->switches++;
	if (cpu->pid && cpu->pid == prev->pid)
		charge_turn(cpu, now);
	if (prev->pid && (preempt || !prev_state)) {
		cpu->preemptions++;
		begin_waiting(prev, now);
	}
	cpu->pid = next->pid;
	cpu->since_ns = now;
	if (next->pid) {
		cpu->waited_ns = waited(cpu, next, on, now);
		cpu->cgroup = next->cgroups->dfl_cgrp->kn->id;
		__builtin_memcpy(&cpu->task, next->comm, sizeof(cpu->task));
		if (next->flags & PF_KTHREAD)
			cpu->program = kernel_threads;
		else
			__builtin_memcpy(&cpu->program, next->group_leader->comm,
					 sizeof(cpu->program));
	}
	__sync_fetch_and_add(&cpu->writes, 1);
	return 0;
}

static __always_inline int woken(struct task_struct___meter *p)
{
	struct cpu *cpu = &cpus[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];

	/* One that was about to sleep, and was woken before it left its CPU, does not wait. */
	if (p->pid == (s32)bpf_get_current_pid_tgid())
		return 0;
	cpu->wakeups++;
	begin_waiting(p, bpf_ktime_get_ns());
	return 0;
}

/* As the waker begins: sched_wakeup may come later, from the CPU that the task is queued on. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct___meter *p)
{
	return woken(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct___meter *p)
{
	return woken(p);
}
