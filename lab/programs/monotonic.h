/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* Time of the lab's programs: CLOCK_MONOTONIC in nanoseconds. */
#ifndef LAB_MONOTONIC_H
#define LAB_MONOTONIC_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S 1000000000ull

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_until_ns(uint64_t at_ns)
{
	struct timespec t = { .tv_sec = (time_t)(at_ns / NS_PER_S),
			      .tv_nsec = (long)(at_ns % NS_PER_S) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

/* For qsort(3): times in uint64_t, ascending. */
static inline int by_ns(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return (one > other) - (one < other);
}

#endif
