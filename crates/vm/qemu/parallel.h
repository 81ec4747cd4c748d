/* SPDX-License-Identifier: GPL-2.0-only */
/* A clock of instructions for CPUs that run side by side: see parallel.c. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include "qom/object.h"

/* Part of what `qemu --version` says; another number when anything here changes. */
#define PARALLEL_VERSION 1

/* Instructions that a CPU may be ahead of the others; 0: QEMU's own turns and its own clock. */
extern int64_t parallel_turn;

/* Instructions of all CPUs together that are one nanosecond. */
extern int64_t parallel_cpus;

/* Adds `-accel tcg,turn=N`. */
void parallel_add_property(ObjectClass *oc);

/* Runs the CPUs, in place of rr_cpu_thread_fn. */
void *parallel_cpu_thread_fn(void *arg);

#endif
