/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waiting CPUs: those in whose queues tasks may wait, a bit for each. A CPU with nothing to run
 * looks at these alone, so a search that finds nothing costs the same on any number of CPUs.
 *
 * A bit is set when a task is put in the CPU's queue. A CPU that looks there and finds the queue
 * empty clears it. The task enters the queue only after the callback that sets the bit, so a look
 * in between may clear it. Then the CPU itself sets it again at its next tick [queue_kick].
 */
#pragma once
#include "topology.h"

#define WAITING_WORDS (MAX_CPUS / 64)

static u64 waiting_cpus[WAITING_WORDS];

static __always_inline u64 *waiting_word(u32 cpu)
{
	u32 at = cpu_index(cpu / 64);

	return at < WAITING_WORDS ? &waiting_cpus[at] : NULL;
}

/*
 * A task is put in a CPU's queue. The number may also be that of a queue that several CPUs share,
 * which has no bit. With one CPU no other looks.
 */
static __always_inline void note_waiting(s32 cpu)
{
	u64 *word = nr_cpus > 1 ? waiting_word(cpu) : NULL;
	u64 bit = 1ULL << ((u32)cpu % 64);

	if (word && !(*word & bit))
		__sync_fetch_and_or(word, bit);
}

/* A CPU's queue was found empty. */
static __always_inline void forget_waiting(s32 cpu)
{
	u64 *word = waiting_word(cpu);

	if (word)
		__sync_fetch_and_and(word, ~(1ULL << ((u32)cpu % 64)));
}

/* The first of the CPUs from `from` on, and before `end`, where tasks may wait; -1: none. */
static __always_inline s32 first_waiting(u32 from, u32 end)
{
	u32 i;

	bpf_for(i, from / 64, (end + 63) / 64) {
		u32 at = cpu_index(i), cpu;
		u64 word = at < WAITING_WORDS ? waiting_cpus[at] : 0;

		if (i == from / 64)
			word &= ~0ULL << (from % 64);
		if (!word)
			continue;
		cpu = i * 64 + __builtin_ctzll(word);
		return cpu < end ? (s32)cpu : -1;
	}
	return -1;
}

/*
 * The first CPU after `at` where tasks may wait, on the way from a CPU through its neighbours back
 * to itself; -1: none. The way begins at the CPU itself.
 */
__noinline s32 next_waiting(s32 cpu, s32 at)
{
	s32 next = -1;

	if (at >= cpu) {
		next = first_waiting(at + 1, nr_cpus);
		at = -1;
	}
	return next >= 0 ? next : first_waiting(at + 1, cpu);
}

/*
 * Goes on through the other CPUs where tasks may wait, nearest first. `other` begins as `cpu`, and
 * `i` bounds the steps for the verifier.
 */
#define for_each_waiting(i, other, cpu)                       \
	bpf_for(i, 1, nr_cpus)                                \
		if (((other) = next_waiting(cpu, other)) < 0) \
			break;                                \
		else
