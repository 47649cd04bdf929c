/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* How long answers took, of the programs that ask for something again and again and wait for it. */
#ifndef LAB_ANSWERS_H
#define LAB_ANSWERS_H

#include <stdio.h>
#include <stdlib.h>

#include "monotonic.h"

#define ANSWERS_MAX 1000000

struct answers {
	uint64_t took_ns[ANSWERS_MAX];	/* the first of them */
	uint64_t sum_ns;
	long count;
};

static inline void note_answer(struct answers *a, uint64_t took_ns)
{
	if (a->count < ANSWERS_MAX)
		a->took_ns[a->count] = took_ns;
	a->count++;
	a->sum_ns += took_ns;
}

/* Sleeps until the next period, if there are any, and returns its begin. Those that a slow answer took up are left out. */
static inline uint64_t next_period(uint64_t begin_ns, long period_us)
{
	uint64_t now_ns = monotonic_ns(), next_ns = begin_ns + (uint64_t)period_us * NS_PER_US;

	if (next_ns < now_ns)
		next_ns = now_ns;
	if (period_us)
		sleep_until_ns(next_ns);
	return next_ns;
}

/* The rest of a line of JSON: "avg_us", "p99_us", "max_us" of at least one answer. */
static inline void print_answers(struct answers *a)
{
	long kept = a->count < ANSWERS_MAX ? a->count : ANSWERS_MAX;

	qsort(a->took_ns, (size_t)kept, sizeof(*a->took_ns), by_ns);
	printf("\"avg_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
	       (double)a->sum_ns / (double)a->count / NS_PER_US,
	       (double)a->took_ns[kept * 99 / 100] / NS_PER_US,
	       (double)a->took_ns[kept - 1] / NS_PER_US);
}

#endif
