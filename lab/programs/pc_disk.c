// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_disk: a periodic task that reads a block of a disk each time, past all caches, and waits for it.
 *
 *	pc_disk FILE [--period_us N] [--seconds N] [--priority N] [--bytes N] [--deep N]
 *
 * A period of 0: one read after the other. --deep: so many such tasks, which begin each period together.
 * Output, one JSON line: "reads", "avg_us", "p99_us", "max_us" of one read.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "answers.h"
#include "options.h"

#define DEEP_MAX 64

struct reader {
	const char *path;
	int file;
	off_t at, size;
	uint64_t begin_ns, end_ns;
	long period_us, bytes, priority;
};

static struct answers reads;
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/* Whether there is room for more. */
static bool note(uint64_t took_ns)
{
	bool room;

	pthread_mutex_lock(&noting);
	note_answer(&reads, took_ns);
	room = reads.count < ANSWERS_MAX - DEEP_MAX;
	pthread_mutex_unlock(&noting);
	return room;
}

static void *read_on(void *argument)
{
	struct reader *r = argument;
	uint64_t next_ns = r->begin_ns;
	bool room = true;
	void *buffer;

	if (posix_memalign(&buffer, 4096, (size_t)r->bytes)) {
		perror("pc_disk: memory");
		exit(1);
	}
	be_realtime(r->priority);
	while (next_ns < r->end_ns && room) {
		uint64_t begin_ns = monotonic_ns();

		if (pread(r->file, buffer, (size_t)r->bytes, r->at) != r->bytes) {
			perror(r->path);
			exit(1);
		}
		room = note(monotonic_ns() - begin_ns);
		r->at = r->at + 2 * r->bytes > r->size ? 0 : r->at + r->bytes;
		next_ns = next_period(next_ns, r->period_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct reader readers[DEEP_MAX];
	long seconds = 3, deep = 1;
	struct reader one = { .period_us = 3000, .bytes = 4096 };
	const struct number_option options[] = {
		{ "--period_us", &one.period_us, 0, 10000000 },
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &one.priority, 0, 99 },
		{ "--bytes", &one.bytes, 512, 1 << 20 },
		{ "--deep", &deep, 1, DEEP_MAX },
	};
	pthread_t threads[DEEP_MAX];

	if (argc < 2) {
		fprintf(stderr, "pc_disk: which file or disk? pc_disk FILE\n");
		return 2;
	}
	parse_numbers(argc, argv, 2, options, sizeof(options) / sizeof(options[0]));
	one.path = argv[1];
	one.file = open(one.path, O_RDONLY | O_DIRECT);
	one.size = one.file < 0 ? -1 : lseek(one.file, 0, SEEK_END);
	if (one.size < deep * one.bytes) {
		perror(one.path);
		return 1;
	}
	one.begin_ns = monotonic_ns();
	one.end_ns = one.begin_ns + (uint64_t)seconds * NS_PER_S;
	for (long n = 0; n < deep; n++) {
		readers[n] = one;
		readers[n].at = one.size / one.bytes * n / deep * one.bytes;
		if (pthread_create(&threads[n], NULL, read_on, &readers[n])) {
			perror("pc_disk");
			return 1;
		}
	}
	for (long n = 0; n < deep; n++)
		pthread_join(threads[n], NULL);
	printf("{\"program\": \"pc_disk\", \"reads\": %ld, ", reads.count);
	print_answers(&reads);
	return 0;
}
