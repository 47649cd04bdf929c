// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_pipe: two processes on one CPU pass a byte to and fro; each transfer is a
 * context switch. Short rounds, so that runs with and without something under
 * test can be interleaved and compared by their medians.
 *
 * Output, one JSON line: "ns_per_switch" of each round and their median.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "monotonic.h"
#include "options.h"

#define ROUNDS_MAX 1000

static void pass(int from, int to, long transfers)
{
	char byte = 0;

	for (long i = 0; i < transfers; i++) {
		if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1) {
			perror("pc_pipe");
			_exit(1);
		}
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	long rounds = 11, transfers = 5000, cpu = 0;
	const struct number_option options[] = {
		{ "--rounds", &rounds, 1, ROUNDS_MAX },
		{ "--transfers", &transfers, 1, 100000000 },	/* per round */
		{ "--cpu", &cpu, 0, 1023 },
	};
	static double ns_per_switch[ROUNDS_MAX];
	int there[2], back[2], status;
	pid_t child;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	pin_to_cpu(cpu);
	if (pipe(there) || pipe(back) || (child = fork()) < 0) {
		perror("pc_pipe");
		return 1;
	}
	if (!child) {
		pass(there[0], back[1], rounds * transfers);
		_exit(0);
	}

	printf("{\"program\": \"pc_pipe\", \"transfers\": %ld, \"ns_per_switch\": [", transfers);
	for (long r = 0; r < rounds; r++) {
		uint64_t start_ns = monotonic_ns();
		char byte = 0;

		for (long i = 0; i < transfers; i++) {
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) {
				perror("pc_pipe");
				return 1;
			}
		}
		ns_per_switch[r] = (double)(monotonic_ns() - start_ns) / (double)(2 * transfers);
		printf("%s%.1f", r ? ", " : "", ns_per_switch[r]);
	}
	qsort(ns_per_switch, (size_t)rounds, sizeof(ns_per_switch[0]), by_value);
	printf("], \"median_ns\": %.1f}\n", ns_per_switch[rounds / 2]);
	return waitpid(child, &status, 0) != child || status;
}
