/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the address of one of the kernel's own variables. The kernel looks a name up in no time;
 * a program that reads /proc/kallsyms has it write and then parses some 200,000 lines.
 */
#include "kernel.h"

LICENSE;

static const char name[] = "__cpu_active_mask";

u64 address;

SEC("syscall")
int find_symbol(void *unused)
{
	return bpf_kallsyms_lookup_name(name, sizeof(name), 0, &address);
}
