/* SPDX-License-Identifier: GPL-2.0 */
/* Why the kernel unloaded the policy, kept for user space to print: crates/live/src/exit.rs. */
#pragma once
#include "kernel.h"

/*
 * Fits the tasks of some hundred CPUs. With four crowded CPUs, the kernel's default of 32 KiB ends
 * within the first.
 */
#define EXIT_DUMP_LEN (256 * 1024)

struct exit_record {
	s32 kind;  /* enum scx_exit_kind; 0: the policy is loaded */
	s64 code;
	char reason[128];
	char message[1024];
	char dump[EXIT_DUMP_LEN];
};

#ifdef __bpf__
struct exit_record exit_record SEC(".bss.exit");
#endif

static __always_inline void note_exit(const struct scx_exit_info *info)
{
#ifdef __bpf__
	bpf_probe_read_kernel_str(exit_record.reason, sizeof(exit_record.reason), info->reason);
	bpf_probe_read_kernel_str(exit_record.message, sizeof(exit_record.message), info->msg);
	bpf_probe_read_kernel_str(exit_record.dump, sizeof(exit_record.dump), info->dump);
	exit_record.code = info->exit_code;
	exit_record.kind = info->kind;
#endif
}

#ifndef EXIT_BY_POLICY
void OP(record_exit, struct scx_exit_info *info)
{
	note_exit(info);
}
#endif
