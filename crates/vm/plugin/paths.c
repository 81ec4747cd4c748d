/* SPDX-License-Identifier: GPL-2.0 */
/*
 * paths: counts the instructions of kernel functions, as a plugin of QEMU.
 *
 * Each instruction counts for the innermost function of a given list that is on the kernel's stack.
 * A function's count is thus its own part, with its callees that are not on the list. Nothing in
 * the guest is changed or slowed: there is no cost of a probe to subtract.
 *
 * The functions on the stack follow from where calls store their return addresses and returns load
 * them. An address far from the last one is on another stack. Addresses in one aligned 16 KB
 * (THREAD_SIZE) are one stack: tasks keep theirs while they are switched out. An interrupt lies
 * between two frames and ends with iret; its instructions are its own.
 *
 * All CPUs run in one thread (-icount), so no lock is needed.
 *
 * symbols=FILE: lines "ADDRESS KIND GROUP". KIND is f for a function, n for one that does not
 * return, i for an entry of interrupts. KIND m marks a function: its first call turns counting on,
 * its second call turns it off. Functions of one group count as one. out=FILE: lines "GROUP
 * INSTRUCTIONS CALLS" and "GROUP = CALLS" at the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu.h"

EXPORT int qemu_plugin_version = 1;

#define KERNEL	    0xffff800000000000ull
#define LOADED	    0xffffffffc0000000ull /* modules and BPF programs */
#define STACK_SHIFT 14   /* THREAD_SIZE */
#define GUARD	    4096	 /* lies between two stacks */
#define STACKS	    (1 << 16)
#define FRAMES	    512
#define CPUS	    256
#define GROUPS	    256
#define BUCKETS	    (1 << 20)  /* instructions of one call; the last has all above */
#define IRQ	    (GROUPS - 1)	 /* groups that are not on the list */
#define BPF	    (GROUPS - 2)
#define NOBODY	    (GROUPS - 3)

struct symbol {
	uint64_t address;
	char kind;
	int group;
};

struct block {
	uint64_t address;
	uint32_t instructions;
	const struct symbol *entry;
};

/* One call of a function on the list. */
struct call {
	int group;
	uint64_t own;
	struct call *free;
};

struct frame {
	uint64_t slot;  /* where the return address lies; BARRIER for an interrupt */
	struct call *owner; /* charged while this is the innermost frame */
	bool first;  /* the frame that the owner's call began with */
};

#define BARRIER UINT64_MAX

struct stack {
	uint64_t key;
	int depth;
	struct call *base; /* the owner while no frame is known */
	struct frame frames[FRAMES];
};

struct cpu {
	struct stack *stack;
	uint64_t last;  /* stack address of the last call or return */
	struct call *owner;
	bool user;  /* it left the kernel */
};

static struct symbol *symbols;
static size_t nr_symbols;
static char names[GROUPS][64];
static int nr_groups;
static uint32_t *counts[GROUPS];
static uint64_t calls[GROUPS];
static struct stack *stacks[STACKS];
static struct cpu cpus[CPUS];
static struct call nobody = { .group = NOBODY };
static struct call *unused;
static bool unreturning[GROUPS];
static bool counting;
static int marks;
static char *out;

static struct call *new_call(int group)
{
	struct call *call = unused;

	if (call)
		unused = call->free;
	else
		call = malloc(sizeof(*call));
	*call = (struct call){ .group = group };
	return call;
}

static void end_call(struct call *call, bool returned)
{
	if (call == &nobody)
		return;
	if (counting && (returned || unreturning[call->group]) && counts[call->group]) {
		uint64_t own = call->own < BUCKETS ? call->own : BUCKETS - 1;

		counts[call->group][own]++;
	}
	call->free = unused;
	unused = call;
}

static struct stack *stack_at(uint64_t address)
{
	uint64_t key = address >> STACK_SHIFT;
	uint32_t hash = key * 0x9e3779b97f4a7c15ull >> 48;

	while (stacks[hash] && stacks[hash]->key != key)
		hash = (hash + 1) % STACKS;
	if (!stacks[hash]) {
		stacks[hash] = calloc(1, sizeof(struct stack));
		stacks[hash]->key = key;
		stacks[hash]->base = &nobody;
	}
	return stacks[hash];
}

static struct call *innermost(struct stack *stack)
{
	return stack->depth ? stack->frames[stack->depth - 1].owner : stack->base;
}

static void push(struct stack *stack, uint64_t slot, struct call *owner, bool first)
{
	if (stack->depth == FRAMES) {
		fprintf(stderr, "paths: a stack of more than %d calls\n", FRAMES);
		exit(1);
	}
	stack->frames[stack->depth++] = (struct frame){ slot, owner, first };
}

static void pop(struct stack *stack, bool returned)
{
	struct frame *frame = &stack->frames[--stack->depth];

	if (frame->first)
		end_call(frame->owner, returned);
}

/* No frame is below an address in use, and none above the first call of an entry. */
static void pop_below(struct stack *stack, uint64_t address, bool returned)
{
	bool outermost = (address | 0xff) == (stack->key << STACK_SHIFT | 0x3fff);

	while (stack->depth) {
		uint64_t slot = stack->frames[stack->depth - 1].slot;

		if (slot > address && !(outermost && slot == BARRIER))
			break;
		pop(stack, returned && slot != BARRIER);
	}
}

/* Whether the address is on the CPU's current stack. */
static bool stays(struct cpu *cpu, uint64_t address)
{
	bool near = address - cpu->last + GUARD < 2 * GUARD;

	cpu->last = address;
	return cpu->stack && near;
}

static void on_call(unsigned int n, uint32_t info, uint64_t address, void *data)
{
	struct cpu *cpu = &cpus[n];
	struct stack *stack = cpu->stack;

	if (!qemu_plugin_mem_is_store(info))
		return; /* the target's address */
	if (!stays(cpu, address)) {
		stack = stack_at(address);
		pop_below(stack, address, false);
		/*
		 * the stack of interrupts, or a task's after that of the entry: called from there
		 */
		if (!stack->depth)
			stack->base = cpu->owner;
		cpu->stack = stack;
	} else {
		pop_below(stack, address, false);
	}
	cpu->owner = innermost(stack);
	push(stack, address, cpu->owner, false);
}

static void on_return(unsigned int n, uint32_t info, uint64_t address, void *data)
{
	struct cpu *cpu = &cpus[n];

	if (!stays(cpu, address))
		cpu->stack = stack_at(address);
	pop_below(cpu->stack, address, true);
	cpu->owner = innermost(cpu->stack);
}

static void on_iret(unsigned int n, void *data)
{
	struct cpu *cpu = &cpus[n];
	struct stack *stack = cpu->stack;
	int depth;

	if (!stack)
		return;
	depth = stack->depth;
	while (depth && stack->frames[depth - 1].slot != BARRIER)
		depth--;
	if (depth) {
		while (stack->depth > depth)
			pop(stack, false);
		pop(stack, true);
	} else if (!stack->depth) {
		end_call(stack->base, true);
		stack->base = &nobody;
		cpu->user = true; /* also where its first instruction faults */
	} else {
		return; /* a serializing iret: execution continues behind it */
	}
	cpu->owner = innermost(stack);
}

static void on_interrupt(struct cpu *cpu, int group)
{
	struct call *call = new_call(group);

	if (cpu->user || !cpu->stack) {
		cpu->stack = NULL;
		cpu->owner = call;
		return;
	}
	push(cpu->stack, BARRIER, call, true);
	cpu->owner = call;
}

static void enter(struct cpu *cpu, int group)
{
	struct stack *stack = cpu->stack;

	if (counting)
		calls[group]++;
	if (!stack || !stack->depth || cpu->owner->group == group)
		return;
	cpu->owner = new_call(group);
	push(stack, stack->frames[stack->depth - 1].slot, cpu->owner, true);
}

static void on_user(unsigned int n, void *data)
{
	cpus[n].user = true;
}

static void on_block(unsigned int n, void *data)
{
	struct block *block = data;
	struct cpu *cpu = &cpus[n];
	struct stack *stack;

	if (block->entry) {
		switch (block->entry->kind) {
		case 'i':
			on_interrupt(cpu, block->entry->group);
			break;
		case 'm':
			counting = ++marks == 1;
			break;
		default:
			enter(cpu, block->entry->group);
		}
	} else if (cpu->user) {
		/*
		 * a system call: its stack is empty, and its first call shows which stack that is
		 */
		cpu->stack = NULL;
		cpu->owner = &nobody;
	}
	cpu->user = false;
	if (block->address >= LOADED && cpu->owner->group != BPF)
		enter(cpu, BPF);
	/*
	 * of a BPF program, only its own code counts: neither its trampoline nor the kernel code it
	 * calls
	 */
	stack = cpu->stack;
	if (cpu->owner->group == BPF && stack && stack->depth &&
	    (block->address < LOADED || stack->frames[stack->depth - 1].first))
		return;
	cpu->owner->own += block->instructions;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/*
 * Near calls: E8, FF /2; near returns: C3, C2; iretq: 48 CF; sysretq: 48 0F 07; behind any
 * prefixes. With a callback for loads alone, QEMU 7.2 misses the loads of a return that is a block
 * by itself.
 */
static void watch(struct qemu_plugin_insn *insn)
{
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);
	bool wide = false;

	while (byte < end - 1 && (*byte == 0x2e || *byte == 0x3e || *byte == 0xf2 ||
				  *byte == 0xf3 || *byte == 0x66 || (*byte & 0xf0) == 0x40)) {
		wide = (*byte & 0xf8) == 0x48;
		byte++;
	}
	if (*byte == 0xe8 || (*byte == 0xff && byte + 1 < end && (byte[1] >> 3 & 7) == 2))
		qemu_plugin_register_vcpu_mem_cb(insn, on_call, CB_NO_REGS, MEM_RW, NULL);
	else if (*byte == 0xc3 || *byte == 0xc2)
		qemu_plugin_register_vcpu_mem_cb(insn, on_return, CB_NO_REGS, MEM_RW, NULL);
	else if (*byte == 0xcf && wide)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_iret, CB_NO_REGS, NULL);
	else if (*byte == 0x0f && wide && byte + 1 < end && byte[1] == 0x07)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_user, CB_NO_REGS, NULL);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct symbol key = { .address = qemu_plugin_tb_vaddr(tb) };
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	if (key.address < KERNEL) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user, CB_NO_REGS, NULL);
		return;
	}
	block = malloc(sizeof(*block));
	block->address = key.address;
	block->instructions = n;
	block->entry = bsearch(&key, symbols, nr_symbols, sizeof(key), by_address);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, CB_NO_REGS, block);
	for (i = 0; i < n; i++)
		watch(qemu_plugin_tb_get_insn(tb, i));
}

static void write_counts(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(out, "w");
	uint32_t own;
	int group;

	if (!file)
		return;
	for (group = 0; group < GROUPS; group++) {
		if (!counts[group])
			continue;
		for (own = 0; own < BUCKETS; own++)
			if (counts[group][own])
				fprintf(file, "%s %u %u\n", names[group], own, counts[group][own]);
		fprintf(file, "%s = %llu\n", names[group], (unsigned long long)calls[group]);
	}
	fclose(file);
}

static int group_of(const char *name)
{
	int group;

	for (group = 0; group < nr_groups; group++)
		if (!strcmp(names[group], name))
			return group;
	strncpy(names[group], name, sizeof(names[group]) - 1);
	counts[group] = calloc(BUCKETS, sizeof(uint32_t));
	nr_groups++;
	return group;
}

static bool read_symbols(const char *path)
{
	unsigned long long address;
	char kind, name[64];
	FILE *file = fopen(path, "r");

	if (!file)
		return false;
	while (fscanf(file, "%llx %c %63s", &address, &kind, name) == 3 && nr_groups < NOBODY) {
		symbols = realloc(symbols, (nr_symbols + 1) * sizeof(*symbols));
		symbols[nr_symbols] = (struct symbol){ address, kind, group_of(name) };
		unreturning[symbols[nr_symbols++].group] |= kind == 'n';
	}
	fclose(file);
	qsort(symbols, nr_symbols, sizeof(*symbols), by_address);
	strcpy(names[BPF], "bpf_callback");
	counts[BPF] = calloc(BUCKETS, sizeof(uint32_t));
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
		else if (strncmp(argv[i], "symbols=", 8) || !read_symbols(argv[i] + 8))
			return -1;
	}
	for (i = 0; i < CPUS; i++)
		cpus[i].owner = &nobody;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, write_counts, NULL);
	return out ? 0 : -1;
}
