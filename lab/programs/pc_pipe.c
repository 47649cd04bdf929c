// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_pipe: two tasks on one CPU pass a byte to and fro; each transfer is a
 * context switch, between two processes or (--threads 1) in one address space. Short
 * rounds, so that disturbed ones can be told from the others.
 *
 * Output, one JSON line: "ns_per_switch" of each round.
 */
#include <pthread.h>
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

/* The other end. */
struct partner {
	int from, to;
	long transfers;
	pthread_t thread;
	pid_t process;
};

static void *answer(void *argument)
{
	const struct partner *p = argument;

	pass(p->from, p->to, p->transfers);
	return NULL;
}

static int start(struct partner *p, long threads)
{
	if (threads)
		return pthread_create(&p->thread, NULL, answer, p);
	p->process = fork();
	if (p->process)
		return p->process < 0;
	answer(p);
	_exit(0);
}

/* Return: 0 if it passed on everything. */
static int end(struct partner *p, long threads)
{
	int status;

	if (threads)
		return pthread_join(p->thread, NULL);
	return waitpid(p->process, &status, 0) != p->process || status;
}

int main(int argc, char **argv)
{
	long rounds = 11, transfers = 5000, cpu = 0, threads = 0;
	const struct number_option options[] = {
		{ "--rounds", &rounds, 1, ROUNDS_MAX },
		{ "--transfers", &transfers, 1, 100000000 },	/* per round */
		{ "--cpu", &cpu, 0, 1023 },
		{ "--threads", &threads, 0, 1 },
	};
	struct partner partner;
	int there[2], back[2];

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	pin_to_cpu(cpu);
	if (pipe(there) || pipe(back)) {
		perror("pc_pipe");
		return 1;
	}
	partner = (struct partner){ there[0], back[1], rounds * transfers, 0, 0 };
	if (start(&partner, threads)) {
		perror("pc_pipe");
		return 1;
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
		printf("%s%.1f", r ? ", " : "",
		       (double)(monotonic_ns() - start_ns) / (double)(2 * transfers));
	}
	printf("]}\n");
	return end(&partner, threads);
}
