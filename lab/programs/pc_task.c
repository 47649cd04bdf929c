// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * A task of a board with CPU frequencies: a given amount of work, again and again, that takes as long as it would there.
 *
 *   pc_task [--work-us N] [--period-us N] [--sleep-us N] [--blips N] [--seconds N] [--id N]
 *
 * work-us: on the fastest CPU at its highest frequency; 0: never sleeps. period-us: from one begin to the next; late work begins
 * at once. sleep-us: sleeps so long after each work instead. blips: with it, so many works of 2 ms, each after a sleep, between
 * two long ones. id: its name is pc_task.ID. Prints one JSON line at the end: work done (us), rounds, rounds that ended after their period, the
 * longest time from a period's begin to the work's end (us).
 */
#include <inttypes.h>
#include <sys/prctl.h>

#include "board_work.h"

#define BLIP_US		2000

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

int main(int argc, char **argv)
{
	long work_us = 0, period_us = 10000, sleep_us = 0, blips = 0, seconds = 3600, id = 0;
	char name[16];
	const struct number_option options[] = {
		{ "--work-us", &work_us, 0, 60000000 },
		{ "--period-us", &period_us, 100, 60000000 },
		{ "--sleep-us", &sleep_us, 0, 60000000 },
		{ "--blips", &blips, 0, 1000 },
		{ "--seconds", &seconds, 1, 86400 },
		{ "--id", &id, 0, 9999 },
	};
	uint64_t begin, end, done = 0, rounds = 0, late = 0, longest = 0;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	map_speeds();
	snprintf(name, sizeof(name), "pc_task.%ld", id);
	prctl(PR_SET_NAME, name);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	begin = monotonic_ns();
	end = begin + (uint64_t)seconds * NS_PER_S;
	while (!stopped && monotonic_ns() < end) {
		uint64_t took;

		done += do_work(work_us ? (uint64_t)work_us * NS_PER_US : UINT64_MAX, end, NULL, NULL);
		took = monotonic_ns() - begin;
		rounds++;
		longest = took > longest ? took : longest;
		if (sleep_us) {
			for (long blip = 0; blip <= blips && !stopped; blip++) {
				if (blip)
					done += do_work(BLIP_US * NS_PER_US, end, NULL, NULL);
				sleep_until_ns(monotonic_ns() + (uint64_t)sleep_us * NS_PER_US);
			}
			begin = monotonic_ns();
			continue;
		}
		if (took > (uint64_t)period_us * NS_PER_US) {
			late++;
			begin = monotonic_ns();
			continue;
		}
		begin += (uint64_t)period_us * NS_PER_US;
		if (!stopped)
			sleep_until_ns(begin);
	}
	printf("{\"work_us\": %" PRIu64 ", \"rounds\": %" PRIu64 ", \"late\": %" PRIu64 ", \"longest_us\": %" PRIu64 "}\n",
	       (uint64_t)(done / NS_PER_US), rounds, late, (uint64_t)(longest / NS_PER_US));
	return 0;
}
