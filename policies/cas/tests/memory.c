/* SPDX-License-Identifier: GPL-2.0 */
/* The memory that the data plane uses, in bytes. */
#include "main.bpf.c"

EXPORT u64 task_bytes(void)
{
	return sizeof(struct cas_task);
}

/* The tables sized for MAX_CPUS. */
EXPORT u64 tables_bytes(void)
{
	return sizeof(cpus) + sizeof(cpu_visits) + sizeof(cpu_lacks) + sizeof(cpu_runs_idle);
}
