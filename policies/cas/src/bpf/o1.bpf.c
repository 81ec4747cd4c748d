/* SPDX-License-Identifier: GPL-2.0 */
/* o1: cas without its rule, and so with one queue a CPU. What cas is measured against. */
#define O1
#include "main.bpf.c"
