/* SPDX-License-Identifier: GPL-2.0 */
/* o1: cas without its rule, and so with one queue for each CPU. The reference for cas. */
#define O1
#include "main.bpf.c"
