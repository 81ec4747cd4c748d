/* SPDX-License-Identifier: GPL-2.0 */
/* What the data plane keeps, in bytes. */
#include "main.bpf.c"

EXPORT u64 task_bytes(void)
{
	return sizeof(struct cas_task);
}

/* What is sized for MAX_CPUS. */
EXPORT u64 tables_bytes(void)
{
	return sizeof(cpus) + sizeof(cpu_visits) + sizeof(cpu_lacks) + sizeof(cpu_runs_idle);
}
