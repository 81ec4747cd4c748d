/* SPDX-License-Identifier: GPL-2.0 */
/*
 * record: writes down what happens to tasks, for user space to collect meanwhile.
 *
 * Each CPU has a ring of records in one array that user space maps. A record with a first word of 0
 * is free: user space takes the others in order and zeroes them. If a CPU's next record is not
 * free, the CPU counts a loss. Hooks in the middle of a system call may be interrupted by others of
 * the same CPU. So places are taken by an atomic addition, and a record's first word is written
 * last.
 *
 * Only tracepoints are needed: kernels without kprobes and trampolines have them too. Data between
 * tasks is seen at the end of its system call, or for connections after TCP has moved it.
 * crates/record/src/raw.rs describes the records.
 */
#include "kernel.h"

LICENSE;

#define TASK_DEAD	0x80
#define S_IFMT		0170000
#define S_IFIFO		0010000
#define S_IFSOCK	0140000
#define AF_UNIX		1
#define AF_INET6	10
#define IPPROTO_TCP	6
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT	2
#define MSG_PEEK	2
#define NET_RX_SOFTIRQ	3
#define LCB_F_SPIN	1

enum kind {
	SWITCH = 1,
	WAKE,
	START,
	FORK,
	EXEC,
	EXIT,
	READ,
	WRITE,
	TASK,
	CPUS,
	NAME,
	TIMED = 14,
	CONNECT,
	ACCEPT,
	CLASS,
};

/* Calls without a kind of record. */
enum {
	ENDS_CONNECTION = CLASS + 1,
	WAKES_BY_FUTEX
};

/* Policies of tasks (include/uapi/linux/sched.h). */
enum {
	SCHED_OTHER = 0,
	SCHED_EXT = 7
};

enum left {
	BLOCKED,
	PREEMPTED,
	DEAD,
	AT_LOCK
};

enum carrier {
	BY_TASK,
	BY_INTERRUPT,
	BY_SOFTIRQ,
	BY_TIMER,
	PIPE,
	UNIX_SOCKET,
	TCP,
	FUTEX
};

struct record {
	u64 word;
	u32 a;
	u32 b;
};

struct ring {
	u64 head;
	u64 lost;
	u32 in_interrupt;
	u32 in_softirq; /* its number, from 1 */
	u32 in_timer;
	u32 at_lock;  /* the task that is about to wait for a lock of the kernel's */
	u32 own_cache_line[8];
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct cpumask___record {
	unsigned long bits[1];
};

struct thread_info___record {
	u32 cpu;
};

struct fdtable___record {
	u32 max_fds;
	void **fd;
};

struct files_struct___record {
	struct fdtable___record *fdt;
};

struct task_struct___record {
	struct thread_info___record thread_info;
	s32 pid;
	s32 tgid;
	u32 flags;
	s32 static_prio;
	u32 rt_priority;
	u32 policy;
	s32 nr_cpus_allowed;
	u32 wakee_flips;
	unsigned in_iowait : 1;
	const struct cpumask___record *cpus_ptr;
	char comm[16];
	struct files_struct___record *files;
};

#ifdef __TARGET_ARCH_arm64
struct pt_regs___record {
	u64 regs[31];
	u64 orig_x0;
	s32 syscallno;
};
#define CALL_NUMBER	syscallno
#define FIRST_ARGUMENT	orig_x0
#define THIRD_ARGUMENT	regs[2]
#define FOURTH_ARGUMENT regs[3]
#define FIFTH_ARGUMENT	regs[4]
enum {
	CALL_EPOLL_PWAIT = 22,
	CALL_CLOSE = 57,
	CALL_READ = 63,
	CALL_WRITE,
	CALL_READV,
	CALL_WRITEV,
	CALL_PSELECT6 = 72,
	CALL_PPOLL,
	CALL_EXIT_GROUP = 94,
	CALL_FUTEX = 98,
	CALL_CONNECT = 203,
	CALL_SENDTO = 206,
	CALL_RECVFROM,
	CALL_SHUTDOWN = 210,
	CALL_SENDMSG,
	CALL_RECVMSG,
};
#else
struct pt_regs___record {
	unsigned long r10;
	unsigned long r8;
	unsigned long dx;
	unsigned long di;
	unsigned long orig_ax;
};
#define CALL_NUMBER	orig_ax
#define FIRST_ARGUMENT	di
#define THIRD_ARGUMENT	dx
#define FOURTH_ARGUMENT r10
#define FIFTH_ARGUMENT	r8
enum {
	CALL_READ,
	CALL_WRITE,
	CALL_CLOSE = 3,
	CALL_POLL = 7,
	CALL_READV = 19,
	CALL_WRITEV,
	CALL_SELECT = 23,
	CALL_CONNECT = 42,
	CALL_SENDTO = 44,
	CALL_RECVFROM,
	CALL_SENDMSG,
	CALL_RECVMSG,
	CALL_SHUTDOWN,
	CALL_FUTEX = 202,
	CALL_EXIT_GROUP = 231,
	CALL_EPOLL_WAIT,
	CALL_PSELECT6 = 270,
	CALL_PPOLL,
	CALL_EPOLL_PWAIT = 281,
};
#endif
/* The same number on every architecture. */
enum {
	CALL_EPOLL_PWAIT2 = 441,
	CALL_FUTEX_WAITV = 449
};

struct inode___record {
	u16 i_mode;
	unsigned long i_ino;
};

struct file___record {
	struct inode___record *f_inode;
	void *private_data;
};

struct in6_addr___record {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

struct sock_common___record {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_family;
	struct in6_addr___record skc_v6_daddr;
	struct in6_addr___record skc_v6_rcv_saddr;
};

struct sock___record {
	struct sock_common___record __sk_common;
};

struct inet_sock___record {
	u16 inet_sport;
};

struct unix_sock___record {
	struct sock___record *peer;
};

struct socket___record {
	struct sock___record *sk;
};
#pragma clang attribute pop

CONFIG s32 nr_cpus = 1;
CONFIG u32 ring_size = 1024; /* a power of two */
CONFIG u64 start_ns;

struct ring rings[MAX_CPUS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct record);
} records SEC(".maps");

static __always_inline struct ring *this_ring(void)
{
	return &rings[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
}

static __always_inline struct record *record_at(u64 place)
{
	u32 index = bpf_get_smp_processor_id() * ring_size + (place & (ring_size - 1));

	return bpf_map_lookup_elem(&records, &index);
}

static __always_inline void put(u64 word, u32 a, u32 b)
{
	struct ring *ring = this_ring();
	struct record *record = record_at(ring->head);

	/* A CPU that was added since has no ring. */
	if (!record || record->word) {
		ring->lost++;
		return;
	}
	record = record_at(__sync_fetch_and_add(&ring->head, 1));
	if (!record)
		return;
	record->a = a;
	record->b = b;
	*(volatile u64 *)&record->word = word;
}

static __always_inline u64 word(enum kind kind, u32 byte)
{
	return ((bpf_ktime_get_ns() - start_ns) & ((1ULL << 48) - 1)) | (u64)kind << 48 |
	       (u64)byte << 56;
}

/* The scheduling class of each thread in its last description, without SCHED_OTHER. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, s32);
	__type(value, u32);
} classes SEC(".maps");

static __always_inline u32 class_of(const struct task_struct___record *p)
{
	return p->policy << 8 | p->rt_priority;
}

static __always_inline bool is_ordinary(const struct task_struct___record *p)
{
	return p->policy == SCHED_OTHER || p->policy == SCHED_EXT;
}

/*
 * Four records: the thread and its process; its CPUs and its wakee flips; its scheduling class; its
 * name around the kind's byte.
 */
static __always_inline void describe(const struct task_struct___record *p)
{
	const unsigned long *mask = p->cpus_ptr->bits;
	u64 cpus = p->nr_cpus_allowed < nr_cpus ? *mask : ~0ULL;
	u32 byte = (p->static_prio - 100) & 0x7f, flips = 0;
	char name[16] = {};
	u64 first;

	if (p->flags & PF_KTHREAD)
		byte |= 0x80;
	put(word(TASK, byte), p->pid, p->tgid);
	if (bpf_core_field_exists(p->wakee_flips))
		flips = p->wakee_flips < 255 ? p->wakee_flips : 255;
	put(word(CPUS, flips), (u32)cpus, cpus >> 32);
	put(word(CLASS, p->policy), p->rt_priority, 0);
	if (!is_ordinary(p)) {
		u32 class = class_of(p);
		s32 pid = p->pid;

		bpf_map_update_elem(&classes, &pid, &class, 0);
	}
	__builtin_memcpy(name, p->comm, 16);
	first = (u64)(u8)name[0] | (u64)(u8)name[1] << 8 | (u64)(u8)name[2] << 16 |
		(u64)(u8)name[3] << 24 | (u64)(u8)name[4] << 32 | (u64)(u8)name[5] << 40 |
		(u64)NAME << 48 | (u64)(u8)name[6] << 56;
	put(first,
	    (u32)(u8)name[7] | (u32)(u8)name[8] << 8 | (u32)(u8)name[9] << 16 |
		    (u32)(u8)name[10] << 24,
	    (u32)(u8)name[11] | (u32)(u8)name[12] << 8 | (u32)(u8)name[13] << 16 |
		    (u32)(u8)name[14] << 24);
}

/* A thread may change its class at any time, and no tracepoint shows it. */
static __always_inline void describe_new_class(const struct task_struct___record *p)
{
	s32 pid = p->pid;
	u32 *known = bpf_map_lookup_elem(&classes, &pid);

	if (!known || *known != class_of(p))
		describe(p);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct___record *prev,
	     struct task_struct___record *next, u32 prev_state)
{
	struct ring *ring = this_ring();
	u32 left = BLOCKED;

	if (preempt || !prev_state) {
		left = PREEMPTED;
	} else if (prev_state & TASK_DEAD) {
		left = DEAD;
	} else if (ring->at_lock && ring->at_lock == (u32)prev->pid) {
		left = AT_LOCK;
		ring->at_lock = 0;
	} else if (BPF_CORE_READ_BITFIELD(prev, in_iowait)) {
		left = AT_LOCK; /* most often a page's, which another task is working on */
	}
	put(word(SWITCH, left), prev->pid, next->pid);
	if (!is_ordinary(next))
		describe_new_class(next);
	return 0;
}

/*
 * A local stream socket's name is that of its reader. The place holds a pointer, which becomes a
 * number.
 */
static __always_inline u32 socket_name(const void *place)
{
	u64 sk = 0;

	bpf_probe_read_kernel(&sk, sizeof(sk), place);
	return sk >> 6;
}

/* A connection's name is made of both its ends, from the sender's to the receiver's. */
static __always_inline u32 connection_name(u32 from, u16 from_port, u32 to, u16 to_port)
{
	u32 name = from * 0x9e3779b1 ^ to * 0x85ebca6b;

	return name ^ ((u32)from_port << 16 | to_port) * 0xc2b2ae35;
}

/* The two ends of a connection, in a socket's order. */
struct ends {
	u32 here;
	u32 there;
	u16 here_port;
	u16 there_port;
};

/* An address of IPv6 as 32 bits; an address that maps IPv4 gives the IPv4 address. */
static __always_inline u32 folded(const struct in6_addr___record *address)
{
	const u32 *words = address->in6_u.u6_addr32;

	return words[0] ^ words[1] ^ words[3];
}

static __always_inline struct ends ends_of(const struct sock___record *sk)
{
	const struct sock_common___record *common = &sk->__sk_common;
	struct ends ends = {
		.here = common->skc_rcv_saddr,
		.there = common->skc_daddr,
		/* the number by which a socket is found is 0 after it is closed */
		.here_port =
			__builtin_bswap16(bpf_core_cast(sk, struct inet_sock___record)->inet_sport),
		.there_port = __builtin_bswap16(common->skc_dport),
	};

	if (common->skc_family == AF_INET6 && bpf_core_field_exists(common->skc_v6_daddr)) {
		ends.here = folded(&common->skc_v6_rcv_saddr);
		ends.there = folded(&common->skc_v6_daddr);
	}
	return ends;
}

static __always_inline u32 received_by(const struct ends *ends)
{
	return connection_name(ends->there, ends->there_port, ends->here, ends->here_port);
}

static __always_inline u32 sent_by(const struct ends *ends)
{
	return connection_name(ends->here, ends->here_port, ends->there, ends->there_port);
}

static __always_inline u32 by_socket(const struct socket___record *socket, enum kind kind,
				     u32 *object)
{
	const struct sock___record *sk = socket->sk;
	const void *place = &socket->sk;
	struct ends ends;

	if (!sk)
		return BY_TASK;
	if (sk->__sk_common.skc_family == AF_UNIX) {
		if (kind == WRITE)
			place = &bpf_core_cast(sk, struct unix_sock___record)->peer;
		*object = socket_name(place);
		return UNIX_SOCKET;
	}
	ends = ends_of(sk);
	*object = kind == READ ? received_by(&ends) : sent_by(&ends);
	return TCP;
}

/* The running task's open file of this number, if it carries data from task to task. */
static __always_inline u32 by_file(u64 number, enum kind kind, u32 *object)
{
	struct task_struct___record *p = (void *)bpf_get_current_task_btf();
	struct files_struct___record *files = p->files;
	const struct inode___record *inode;
	const struct file___record *file;
	struct fdtable___record *table;
	void *place = NULL;

	if (!files)
		return BY_TASK;
	table = files->fdt;
	if (number >= table->max_fds)
		return BY_TASK;
	if (bpf_probe_read_kernel(&place, sizeof(place), table->fd + number) || !place)
		return BY_TASK;
	file = bpf_core_cast(place, struct file___record);
	inode = file->f_inode;
	if ((inode->i_mode & S_IFMT) == S_IFIFO) {
		*object = inode->i_ino;
		return PIPE;
	}
	if ((inode->i_mode & S_IFMT) == S_IFSOCK)
		return by_socket(bpf_core_cast(file->private_data, struct socket___record), kind,
				 object);
	return BY_TASK;
}

/* READ, WRITE, CONNECT, WAKES_BY_FUTEX or ENDS_CONNECTION; 0 for any other system call. */
static __always_inline u32 kind_of_call(const struct pt_regs___record *regs)
{
	switch (regs->CALL_NUMBER) {
	case CALL_READ:
	case CALL_READV:
	case CALL_RECVFROM:
	case CALL_RECVMSG:
		return READ;
	case CALL_WRITE:
	case CALL_WRITEV:
	case CALL_SENDTO:
	case CALL_SENDMSG:
		return WRITE;
	case CALL_FUTEX:
		return WAKES_BY_FUTEX;
	case CALL_CONNECT:
		return CONNECT;
	case CALL_SHUTDOWN:
	case CALL_CLOSE:
	case CALL_EXIT_GROUP:
		return ENDS_CONNECTION;
	}
	return 0;
}

/* The carrier of a wakeup by the running task, from the system call that it is in. */
static __always_inline u32 by_call(u32 *object, bool in_packet)
{
	struct task_struct___record *p = (void *)bpf_get_current_task_btf();
	const struct pt_regs___record *regs;
	u32 kind;

	if (p->flags & PF_KTHREAD)
		return BY_TASK;
	regs = (void *)bpf_task_pt_regs((void *)p);
	kind = kind_of_call(regs);
	if (kind == WAKES_BY_FUTEX) {
		*object = regs->FIRST_ARGUMENT;
		return FUTEX;
	}
	if (kind == ENDS_CONNECTION)
		return in_packet ? TCP : BY_TASK;
	if (kind == CONNECT && !in_packet) /* a local one: its accepting task is not known */
		return BY_TASK;
	return kind ? by_file(regs->FIRST_ARGUMENT, kind, object) : BY_TASK;
}

/*
 * The call that a task waits in, if the call has a timeout: a number made of the call and its
 * object. 0: it has no timeout, or is only a sleep.
 */
static __always_inline u32 timed_call(struct task_struct___record *p)
{
	const struct pt_regs___record *regs;
	u64 first, number;
	bool timed;

	if (p->flags & PF_KTHREAD)
		return 0;
	regs = (void *)bpf_task_pt_regs((void *)p);
	first = regs->FIRST_ARGUMENT;
	number = regs->CALL_NUMBER;
	switch (number) {
	case CALL_FUTEX:
		/* a task that waits for a condition uses two adjacent words in turn */
		first &= ~7ULL;
		timed = regs->FOURTH_ARGUMENT;
		break;
	case CALL_FUTEX_WAITV:
	case CALL_EPOLL_PWAIT2:
		timed = regs->FOURTH_ARGUMENT;
		break;
#ifndef __TARGET_ARCH_arm64
	case CALL_POLL:
		timed = (s32)regs->THIRD_ARGUMENT > 0;
		break;
	case CALL_EPOLL_WAIT:
		timed = (s32)regs->FOURTH_ARGUMENT > 0;
		break;
	case CALL_SELECT:
		timed = regs->FIFTH_ARGUMENT;
		break;
#endif
	case CALL_PPOLL:
		timed = regs->THIRD_ARGUMENT;
		break;
	case CALL_EPOLL_PWAIT:
		timed = (s32)regs->FOURTH_ARGUMENT > 0;
		break;
	case CALL_PSELECT6:
		timed = regs->FIFTH_ARGUMENT;
		break;
	default:
		timed = false;
	}
	return timed ? ((u32)first ^ (u32)(first >> 32)) * 0x9e3779b1 + number : 0;
}

/* In the waker's context; sched_wakeup may come later, on the woken task's CPU. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct___record *p)
{
	struct ring *ring = this_ring();
	u32 pid = p->pid, object = 0, by, call;
	bool in_packet;

	/* a task that was about to sleep and was woken before it left its CPU */
	if (pid == (u32)bpf_get_current_pid_tgid())
		return 0;
	if (ring->in_timer) {
		by = BY_TIMER;
	} else if (ring->in_interrupt) {
		by = BY_INTERRUPT;
	} else {
		in_packet = ring->in_softirq == NET_RX_SOFTIRQ + 1;
		by = by_call(&object, in_packet);
		/*
		 * Packets that are being delivered are the running task's own only if it is
		 * sending, or if it begins or ends a connection, which sends packets too.
		 */
		if (ring->in_softirq && !(in_packet && by == TCP))
			by = BY_SOFTIRQ;
	}
	call = timed_call(p);
	if (call)
		put(word(TIMED, 0), pid, call);
	put(word(WAKE, by), pid, object);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_interrupt)
{
	this_ring()->in_interrupt = 1;
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_interrupt_end)
{
	this_ring()->in_interrupt = 0;
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, u32 number)
{
	this_ring()->in_softirq = number + 1;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_end)
{
	this_ring()->in_softirq = 0;
	return 0;
}

/* In the parent's context. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct___record *p)
{
	put(word(FORK, 0), (u32)bpf_get_current_pid_tgid(), p->pid);
	describe(p);
	put(word(START, 0), p->pid, p->thread_info.cpu);
	return 0;
}

/*
 * Hooks that are not called with interrupts disabled are not tp_btf. Such a program may be
 * preempted [since 7.0 or so]. Until that task runs again, it is not called for others on its CPU.
 */
struct sched_process_exec {
	u64 common;
	u32 filename;
	s32 pid;
	s32 old_pid;
};

SEC("tp/sched/sched_process_exec")
int on_exec(struct sched_process_exec *exec)
{
	struct task_struct___record *p = (void *)bpf_get_current_task_btf();

	put(word(EXEC, 0), p->pid, exec->old_pid);
	describe(p);
	return 0;
}

SEC("tp/sched/sched_process_exit")
int on_exit(void *ctx)
{
	struct task_struct___record *p = (void *)bpf_get_current_task_btf();

	describe(p);
	put(word(EXIT, 0), p->pid, 0);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer)
{
	this_ring()->in_timer = 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_timer_end)
{
	this_ring()->in_timer = 0;
	return 0;
}

struct contention_begin {
	u64 common;
	const void *lock;
	u32 flags;
};

/*
 * Mutexes and semaphores: their waiters sleep. They spin for a while before, with a flag that says
 * so. Kernels before 5.19 have no such tracepoint.
 */
SEC("?tp/lock/contention_begin")
int on_lock(struct contention_begin *wait)
{
	if (!(wait->flags & LCB_F_SPIN))
		this_ring()->at_lock = (u32)bpf_get_current_pid_tgid();
	return 0;
}

SEC("?tp/lock/contention_end")
int on_lock_end(void *ctx)
{
	struct ring *ring = this_ring();

	if (ring->at_lock == (u32)bpf_get_current_pid_tgid())
		ring->at_lock = 0;
	return 0;
}

struct system_call_end {
	u64 common;
	long number;
	long result;
};

/* Loaded only if every call is wanted: it costs all system calls. */
SEC("?tp/raw_syscalls/sys_exit")
int on_system_call(struct system_call_end *call)
{
	struct task_struct___record *p = (void *)bpf_get_current_task_btf();
	const struct pt_regs___record *regs;
	u32 kind, by, object = 0;
	long result = call->result;

	if (result <= 0)
		return 0;
	regs = (void *)bpf_task_pt_regs((void *)p);
	kind = kind_of_call(regs);
	if (kind != READ && kind != WRITE)
		return 0;
	by = by_file(regs->FIRST_ARGUMENT, kind, &object);
	if (by != BY_TASK)
		put(word(kind, by), object, result);
	return 0;
}

/*
 * These see connections' data without that, at no cost to other calls. They are no tracepoints, and
 * may be preempted unless that is disabled. Then other tasks of this CPU are not recorded, and
 * their records wait behind a place that is taken and not written.
 */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void put_whole(u64 word, u32 a, u32 b)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
	put(word, a, b);
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_enable();
}

static __always_inline struct ends ends_of_any(u64 sk)
{
	return ends_of(bpf_core_cast((void *)sk, struct sock___record));
}

/* Bytes that a function has moved: it returns an int. */
static __always_inline s32 moved(u64 *arguments)
{
	u64 result = 0;

	return bpf_get_func_ret(arguments, &result) ? 0 : (s32)result;
}

SEC("?fexit/tcp_sendmsg")
int on_sent(u64 *arguments)
{
	s32 bytes = moved(arguments);
	struct ends ends;

	if (bytes <= 0)
		return 0;
	ends = ends_of_any(arguments[0]);
	put_whole(word(WRITE, TCP), sent_by(&ends), bytes);
	return 0;
}

/* Its flags are the fourth argument since 5.19. A task that only peeks has received nothing. */
SEC("?fexit/tcp_recvmsg")
int on_received(u64 *arguments)
{
	s32 bytes = moved(arguments);
	struct ends ends;

	if (bytes <= 0 || arguments[3] & MSG_PEEK)
		return 0;
	ends = ends_of_any(arguments[0]);
	put_whole(word(READ, TCP), received_by(&ends), bytes);
	return 0;
}

struct inet_sock_set_state {
	u64 common;
	const struct sock___record *sk;
	s32 old_state;
	s32 new_state;
	u16 from_port;
	u16 to_port;
	u16 family;
	u16 protocol;
};

/*
 * A connection is named by the channel that its client sends to and the one that it receives from.
 * The last bits of its server's port are added.
 */
SEC("?tp/sock/inet_sock_set_state")
int on_connected(struct inet_sock_set_state *change)
{
	struct ends ends;

	if (change->old_state != TCP_SYN_SENT || change->new_state != TCP_ESTABLISHED ||
	    change->protocol != IPPROTO_TCP)
		return 0;
	ends = ends_of(bpf_core_cast(change->sk, struct sock___record));
	put(word(CONNECT, (u8)ends.there_port), sent_by(&ends), received_by(&ends));
	return 0;
}

/*
 * No tracepoint shows which thread accepts a connection. The number of arguments depends on the
 * kernel.
 */
SEC("?fexit/inet_csk_accept")
int on_accepted(u64 *arguments)
{
	struct ends ends;
	u64 sk = 0;

	if (bpf_get_func_ret(arguments, &sk) || !sk)
		return 0;
	ends = ends_of_any(sk);
	put_whole(word(ACCEPT, (u8)ends.here_port), received_by(&ends), sent_by(&ends));
	return 0;
}
