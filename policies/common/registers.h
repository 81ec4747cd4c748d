/* SPDX-License-Identifier: GPL-2.0 */
/* The register state that the kernel saved when it last switched a task out. */
#pragma once
#include "kernel.h"

#ifdef __bpf__
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* arch/x86/include/asm/fpu/types.h */
struct xstate_header {
	u64 xfeatures;
};

struct xregs_state {
	struct xstate_header header;
};

union fpregs_state {
	struct xregs_state xsave;
};

struct fpstate {
	union fpregs_state regs;
};

struct fpu {
	struct fpstate *fpstate;
};

struct thread_struct___before_6_16 {
	struct fpu fpu;
};

struct task_struct___before_6_16 {
	struct thread_struct___before_6_16 thread;
};

#pragma clang attribute pop

/* The register kinds not in their initial state, one bit each (xfeatures); 0 if unknown. */
static __always_inline u64 task_xfeatures(struct task_struct *p)
{
	struct task_struct___before_6_16 *before = (void *)p;
	struct fpstate *state = NULL;
	struct fpu *fpu;
	u64 xfeatures = 0;

	if (!p->mm)
		return 0;
	/* From 6.16 on the fpu lies behind the task_struct (x86_task_fpu()). */
	if (bpf_core_field_exists(before->thread.fpu))
		fpu = &before->thread.fpu;
	else
		fpu = (void *)p + bpf_core_type_size(struct task_struct);
	if (!bpf_probe_read_kernel(&state, sizeof(state), &fpu->fpstate) && state)
		bpf_probe_read_kernel(&xfeatures, sizeof(xfeatures),
				      &state->regs.xsave.header.xfeatures);
	return xfeatures;
}
#endif
