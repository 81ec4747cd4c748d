/* SPDX-License-Identifier: GPL-2.0 */
/*
 * spans: writes down when a CPU enters functions of a list, in instructions it has executed by
 * then, as a plugin of QEMU. The difference of two entries is everything between them. (paths.c
 * counts each function's own part.)
 *
 * Instructions are counted one by one: QEMU gives up a block in its middle where a device is read,
 * and begins it again. Counted by the block, it would count twice.
 *
 * symbols=FILE: lines "ADDRESS NAME". out=FILE: lines "CPU INSTRUCTIONS NAME"; the name is `bpf`
 * where code of a BPF program begins.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu.h"

EXPORT int qemu_plugin_version = 1;

#define LOADED 0xffffffffc0000000ull /* modules and BPF programs */
#define FIXED  0xffffffffff000000ull /* end of the range of modules */
#define CPUS   256

struct symbol {
	uint64_t address;
	char name[64];
};

static struct symbol *symbols;
static size_t nr_symbols;
static struct symbol bpf = { .name = "bpf" };
static struct {
	uint64_t instructions;
	bool loaded;
} cpus[CPUS];
static FILE *out;

static void enter(unsigned int cpu, const struct symbol *symbol)
{
	fprintf(out, "%u %llu %s\n", cpu, (unsigned long long)cpus[cpu].instructions, symbol->name);
}

static void on_symbol(unsigned int cpu, void *data)
{
	enter(cpu, data);
	cpus[cpu].loaded = false;
}

static void on_kernel(unsigned int cpu, void *data)
{
	cpus[cpu].loaded = false;
}

static void on_loaded(unsigned int cpu, void *data)
{
	if (!cpus[cpu].loaded)
		enter(cpu, &bpf);
	cpus[cpu].loaded = true;
}

static void on_instruction(unsigned int cpu, void *data)
{
	cpus[cpu].instructions++;
}

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct symbol key = { .address = qemu_plugin_tb_vaddr(tb) };
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	struct symbol *symbol;
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	symbol = bsearch(&key, symbols, nr_symbols, sizeof(key), by_address);
	if (key.address >= LOADED && key.address < FIXED)
		qemu_plugin_register_vcpu_insn_exec_cb(first, on_loaded, CB_NO_REGS, NULL);
	else if (symbol)
		qemu_plugin_register_vcpu_insn_exec_cb(first, on_symbol, CB_NO_REGS, symbol);
	else
		qemu_plugin_register_vcpu_insn_exec_cb(first, on_kernel, CB_NO_REGS, NULL);
	for (i = 0; i < n; i++)
		qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i),
						       on_instruction, CB_NO_REGS, NULL);
}

static void on_end(qemu_plugin_id_t id, void *data)
{
	fclose(out);
}

static bool read_symbols(const char *path)
{
	unsigned long long address;
	char name[64];
	FILE *file = fopen(path, "r");

	if (!file)
		return false;
	while (fscanf(file, "%llx %63s", &address, name) == 2) {
		symbols = realloc(symbols, (nr_symbols + 1) * sizeof(*symbols));
		symbols[nr_symbols].address = address;
		strcpy(symbols[nr_symbols++].name, name);
	}
	fclose(file);
	qsort(symbols, nr_symbols, sizeof(*symbols), by_address);
	return true;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = fopen(argv[i] + 4, "w");
		else if (strncmp(argv[i], "symbols=", 8) || !read_symbols(argv[i] + 8))
			return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return out ? 0 : -1;
}
