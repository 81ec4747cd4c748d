/* SPDX-License-Identifier: GPL-2.0 */
/* What the data plane keeps, in bytes. */
#include "main.bpf.c"

EXPORT u64 task_bytes(void)
{
	return sizeof(struct cas_task);
}

EXPORT u64 cpus_bytes(void)
{
	return sizeof(cpus);
}
