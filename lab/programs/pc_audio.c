// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_audio: a periodic real-time task like an audio callback. Each period is one
 * buffer; the callback must have computed it before its period ends, or the
 * listener hears a glitch.
 *
 * The work of a callback is a fixed number of loops. "pc_audio --calibrate 1"
 * prints the loops that this CPU does in a millisecond; do it once on a quiet
 * machine and pass the number with --loops_per_ms to every run to be compared,
 * so that a busy machine does not shrink the work.
 *
 * Output, one JSON line:
 *   periods      deadlines that there were, each due once
 *   misses       deadlines missed; a stall over several periods misses each of them
 *   lateness_us  from a period's start to the callback running: percentiles
 */
#include <stdbool.h>
#include <sys/mman.h>

#include "monotonic.h"
#include "options.h"
#include "work.h"

/* The fastest of many short tries: interruptions only ever make a try longer. */
static uint64_t calibrate_loops_per_ms(void)
{
	enum { TRIES = 400, LOOPS = 20000 };
	uint64_t best_ns = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t start_ns = monotonic_ns(), ns;

		work(LOOPS);
		ns = monotonic_ns() - start_ns;
		if (ns && ns < best_ns)
			best_ns = ns;
	}
	return LOOPS * NS_PER_MS / best_ns;
}

static double percentile_us(const uint64_t *sorted_ns, uint64_t count, uint64_t permille)
{
	return (double)sorted_ns[(count - 1) * permille / 1000] / NS_PER_US;
}

int main(int argc, char **argv)
{
	long period_us = 2000, work_permille = 150, seconds = 10, priority = 50, cpu = -1;
	long loops_per_ms = 0, calibrate = 0;
	const struct number_option options[] = {
		{ "--period_us", &period_us, 100, 1000000 },
		{ "--work_permille", &work_permille, 0, 900 },	/* of the period */
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &priority, 0, 99 },
		{ "--cpu", &cpu, -1, 1023 },
		{ "--loops_per_ms", &loops_per_ms, 0, 1000000000 },	/* 0: calibrate */
		{ "--calibrate", &calibrate, 0, 1 },
	};
	uint64_t period_ns, loops, deadlines, callbacks = 0, misses = 0, k = 0, start_ns;
	uint64_t *late_ns;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	pin_to_cpu(cpu);
	if (!loops_per_ms)
		loops_per_ms = (long)calibrate_loops_per_ms();
	if (calibrate) {
		printf("{\"program\": \"pc_audio\", \"loops_per_ms\": %ld}\n", loops_per_ms);
		return 0;
	}

	period_ns = (uint64_t)period_us * NS_PER_US;
	deadlines = (uint64_t)seconds * NS_PER_S / period_ns;
	loops = (uint64_t)loops_per_ms * (uint64_t)period_us * (uint64_t)work_permille / 1000 / 1000;
	late_ns = calloc(deadlines ? deadlines : 1, sizeof(*late_ns));
	if (!late_ns || mlockall(MCL_CURRENT | MCL_FUTURE)) {
		perror("pc_audio: memory");
		return 1;
	}
	be_realtime(priority);

	start_ns = monotonic_ns() + period_ns;
	while (k < deadlines) {
		uint64_t begin_ns = start_ns + k * period_ns, end_ns;

		sleep_until_ns(begin_ns);
		late_ns[callbacks++] = monotonic_ns() - begin_ns;
		work(loops);
		end_ns = monotonic_ns();
		/* This deadline, and those of the periods that passed meanwhile. */
		for (; k < deadlines && end_ns > start_ns + (k + 1) * period_ns; k++)
			misses++;
		/* In time for its own: the next. Late: the period that runs now is the next. */
		if (end_ns <= begin_ns + period_ns)
			k++;
	}

	qsort(late_ns, callbacks, sizeof(*late_ns), by_ns);
	printf("{\"program\": \"pc_audio\", \"period_us\": %ld, \"work_permille\": %ld, \"loops_per_ms\": %ld, \"periods\": %llu, \"callbacks\": %llu, \"misses\": %llu, \"lateness_us\": {\"p50\": %.1f, \"p90\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}}\n",
	       period_us, work_permille, loops_per_ms, (unsigned long long)deadlines,
	       (unsigned long long)callbacks, (unsigned long long)misses,
	       percentile_us(late_ns, callbacks, 500), percentile_us(late_ns, callbacks, 900),
	       percentile_us(late_ns, callbacks, 990), percentile_us(late_ns, callbacks, 999),
	       percentile_us(late_ns, callbacks, 1000));
	return 0;
}
