// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_disk: a periodic task that reads a block of a disk each time, past all caches, and waits for it.
 *
 *	pc_disk FILE [--period_us N] [--seconds N] [--priority N] [--bytes N]
 *
 * A period of 0: one read after the other. Output, one JSON line: "reads", "avg_us", "p99_us", "max_us" of one read.
 */
#include <fcntl.h>
#include <unistd.h>

#include "answers.h"
#include "options.h"

int main(int argc, char **argv)
{
	static struct answers reads;
	long period_us = 3000, seconds = 3, priority = 0, bytes = 4096;
	const struct number_option options[] = {
		{ "--period_us", &period_us, 0, 10000000 },
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &priority, 0, 99 },
		{ "--bytes", &bytes, 512, 1 << 20 },
	};
	uint64_t next_ns, end_ns;
	off_t at = 0, size;
	void *buffer;
	int file;

	if (argc < 2) {
		fprintf(stderr, "pc_disk: which file or disk? pc_disk FILE\n");
		return 2;
	}
	parse_numbers(argc, argv, 2, options, sizeof(options) / sizeof(options[0]));
	file = open(argv[1], O_RDONLY | O_DIRECT);
	size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
	if (size < bytes || posix_memalign(&buffer, 4096, (size_t)bytes)) {
		perror(argv[1]);
		return 1;
	}
	be_realtime(priority);
	next_ns = monotonic_ns();
	end_ns = next_ns + (uint64_t)seconds * NS_PER_S;
	while (next_ns < end_ns && reads.count < ANSWERS_MAX) {
		uint64_t begin_ns = monotonic_ns();

		if (pread(file, buffer, (size_t)bytes, at) != bytes) {
			perror(argv[1]);
			return 1;
		}
		note_answer(&reads, monotonic_ns() - begin_ns);
		at = at + 2 * bytes > size ? 0 : at + bytes;
		next_ns = next_period(next_ns, period_us);
	}
	printf("{\"program\": \"pc_disk\", \"reads\": %ld, ", reads.count);
	print_answers(&reads);
	return 0;
}
