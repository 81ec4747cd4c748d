/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The names of tools/sched_ext/include/scx in the kernel tree. With this in its place, the tree's
 * scx_simple.bpf.c compiles unmodified for both targets: crates/sim/tests/all/upstream.rs.
 */
#pragma once
#define EXIT_BY_POLICY
#include "../kernel.h"
#include "../exit.h"

#define SCX_SLICE_DFL (20 * 1000 * 1000ULL)

#define BPF_STRUCT_OPS(name, args...)		OP(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) OP_SLEEPABLE(name, ##args)
#define SCX_OPS_DEFINE(name, ops...)		OPS_TABLE name = { ops }

#define UEI_DEFINE(name)       extern int name##_is_exit_record
#define UEI_RECORD(name, info) note_exit(info)

/* Before 6.13. */
#define scx_bpf_dispatch       scx_bpf_dsq_insert
#define scx_bpf_dispatch_vtime scx_bpf_dsq_insert_vtime
#define scx_bpf_consume	       scx_bpf_dsq_move_to_local

#ifndef __bpf__
/* An array for each place that looks into one, with one value for all CPUs. */
#define bpf_map_lookup_elem(map, key)                                              \
	({                                                                         \
		static char values[sizeof(*(map)->max_entries) / sizeof(int)]      \
				  [sizeof(*(map)->value_size) / sizeof(int)];      \
		u32 at = *(key);                                                   \
		at < sizeof(values) / sizeof(*values) ? (void *)values[at] : NULL; \
	})
#endif
