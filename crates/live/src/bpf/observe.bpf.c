/* SPDX-License-Identifier: GPL-2.0 */
/*
 * observe: writes down every switch and wakeup, for user space to fold after the run.
 *
 * Records go into one large array that user space maps. Each CPU takes a chunk of it at a time, so
 * CPUs share only the count of chunks taken. All hooks run with interrupts off (sched_switch and
 * sched_wakeup hold a runqueue's or a task's lock), so a CPU's cursor has one user. Nothing is sent
 * or printed while the workload runs. When the array is full, records are counted as lost, and user
 * space discards the observation.
 *
 * crates/live/src/observe.rs mirrors struct record.
 */
#include "kernel.h"

LICENSE;

#define CHUNK	  1024
#define TASK_DEAD 0x80

enum record_kind {
	RECORD_NONE,  /* the unused rest of a chunk */
	RECORD_SWITCH,  /* a: prev, b: next, c: address space of next, d: prev's CPUs */
	RECORD_WAKE,  /* a: task, b: target CPU, d: its CPUs */
	RECORD_FORK,  /* a: the new task, b: target CPU, d: its CPUs, e: its parent */
	RECORD_NAME,  /* a: task, c and d: its name as it ends, e: its process's status */
};

enum record_flag {
	PREV_RUNNABLE = 1,
	PREV_DEAD = 2,
	BY_OWNER = 4,  /* a process that the observer's owner has started */
};

struct record {
	u64 t_ns;
	u16 cpu;
	u8 kind;
	u8 flags;
	u32 a;
	u32 b;
	u32 e;
	u64 c;
	u64 d;
};

struct cursor {
	u32 next;
	u32 end;
	u64 lost;
	u64 own_cache_line[6];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	u64 ctx_id;
} mm_context_t;

struct mm_struct___observe {
	mm_context_t context;
};

struct cpumask___observe {
	unsigned long bits[1];
};

struct thread_info___observe {
	u32 cpu;
};

struct task_struct___observe {
	struct thread_info___observe thread_info;
	s32 pid;
	s32 tgid;
	s32 exit_code;
	s32 nr_cpus_allowed;
	const struct cpumask___observe *cpus_ptr;
	struct mm_struct___observe *mm;
	char comm[16];
};
#pragma clang attribute pop

struct bpf_pidns_info {
	u32 pid;
	u32 tgid;
};

CONFIG s32 nr_cpus = 1;
/* The owner, by its number in its own PID namespace: a container knows only that number. */
CONFIG u32 owner_tgid;
CONFIG u64 owner_dev;
CONFIG u64 owner_ino;
CONFIG u32 capacity = CHUNK;

struct cursor cursors[MAX_CPUS];
u32 taken;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, CHUNK);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

static __always_inline struct record *append(u8 kind)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct cursor *cursor = &cursors[cpu & (MAX_CPUS - 1)];
	struct record *record;
	u32 index;

	if (cursor->next == cursor->end) {
		index = __sync_fetch_and_add(&taken, 1);
		if (index >= capacity / CHUNK) {
			__sync_fetch_and_sub(&taken, 1);
			cursor->lost++;
			return NULL;
		}
		cursor->next = index * CHUNK;
		cursor->end = cursor->next + CHUNK;
	}
	index = cursor->next++;
	record = bpf_map_lookup_elem(&records, &index);
	if (!record)
		return NULL;
	record->t_ns = bpf_ktime_get_ns();
	record->cpu = cpu;
	record->kind = kind;
	return record;
}

/* The first 64 of the CPUs that it may use now; all ones if it may use every CPU. */
static __always_inline u64 allowed(const struct task_struct___observe *p)
{
	return p->nr_cpus_allowed < nr_cpus ? p->cpus_ptr->bits[0] : ~0ULL;
}

/* An address may be used again for another address space; its id never is. */
static __always_inline u64 address_space(const struct task_struct___observe *p)
{
	if (!p->mm)
		return 0;
	if (bpf_core_field_exists(p->mm->context.ctx_id))
		return p->mm->context.ctx_id;
	return (u64)p->mm;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct___observe *prev,
	     struct task_struct___observe *next, u32 prev_state)
{
	bool runnable = preempt || !prev_state;
	struct record *record;

	record = append(RECORD_SWITCH);
	if (!record)
		return 0;
	record->a = prev->pid;
	record->b = next->pid;
	record->c = address_space(next);
	record->d = runnable ? allowed(prev) : ~0ULL;
	if (runnable) {
		record->flags = PREV_RUNNABLE;
	} else if (prev_state & TASK_DEAD) {
		record->flags = PREV_DEAD;
		record = append(RECORD_NAME);
		if (!record)
			return 0;
		record->a = prev->pid;
		record->e = prev->pid == prev->tgid ? prev->exit_code : 0;
		__builtin_memcpy(&record->c, prev->comm, 16);
	}
	return 0;
}

static __always_inline struct record *woken(struct task_struct___observe *p, u8 kind)
{
	struct record *record = append(kind);

	if (!record)
		return NULL;
	record->a = p->pid;
	record->b = p->thread_info.cpu;
	record->d = allowed(p);
	return record;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct___observe *p)
{
	/* a task that was about to sleep and was woken before it left its CPU */
	if (p->pid != (s32)bpf_get_current_pid_tgid())
		woken(p, RECORD_WAKE);
	return 0;
}

/* Runs in the parent's context. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct___observe *p)
{
	struct record *record = woken(p, RECORD_FORK);
	u64 parent = bpf_get_current_pid_tgid();
	struct bpf_pidns_info owner = {};

	if (!record)
		return 0;
	record->e = (u32)parent;
	if (p->tgid == (s32)(parent >> 32)) /* a thread */
		return 0;
	if (!bpf_get_ns_current_pid_tgid(owner_dev, owner_ino, &owner, sizeof(owner)) &&
	    owner.tgid == owner_tgid)
		record->flags = BY_OWNER;
	return 0;
}
