// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_disk: a periodic task that reads blocks of a disk each time, past all caches, and waits for them.
 *
 *	pc_disk FILE [--period_us N] [--seconds N] [--priority N] [--bytes N] [--deep N]
 *
 * A period of 0: one read after the other. --deep: so many reads at once, by one system call (io_submit(2)).
 * Output, one JSON line: "reads", "avg_us", "p99_us", "max_us" of one read.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "answers.h"
#include "options.h"

#define DEEP_MAX 64

static struct answers reads;

static int fail(const char *what)
{
	fprintf(stderr, "pc_disk: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	long period_us = 3000, seconds = 3, priority = 0, bytes = 4096, deep = 1;
	const struct number_option options[] = {
		{ "--period_us", &period_us, 0, 10000000 },
		{ "--seconds", &seconds, 1, 3600 },
		{ "--priority", &priority, 0, 99 },
		{ "--bytes", &bytes, 512, 1 << 20 },
		{ "--deep", &deep, 1, DEEP_MAX },
	};
	struct iocb requests[DEEP_MAX] = { 0 }, *all[DEEP_MAX];
	struct io_event done[DEEP_MAX];
	aio_context_t context = 0;
	uint64_t next_ns, end_ns;
	off_t at = 0, size;
	char *buffer;
	int file;

	if (argc < 2) {
		fprintf(stderr, "pc_disk: which file or disk? pc_disk FILE\n");
		return 2;
	}
	parse_numbers(argc, argv, 2, options, sizeof(options) / sizeof(options[0]));
	file = open(argv[1], O_RDONLY | O_DIRECT);
	size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
	if (size < bytes || posix_memalign((void **)&buffer, 4096, (size_t)(deep * bytes)))
		return fail(argv[1]);
	if (syscall(SYS_io_setup, deep, &context))
		return fail("io_setup");
	be_realtime(priority);
	next_ns = monotonic_ns();
	end_ns = next_ns + (uint64_t)seconds * NS_PER_S;
	while (next_ns < end_ns) {
		uint64_t begin_ns = monotonic_ns();
		long left = deep, got;

		for (long n = 0; n < deep; n++) {
			at = at + 2 * bytes > size ? 0 : at + bytes;
			requests[n].aio_lio_opcode = IOCB_CMD_PREAD;
			requests[n].aio_fildes = (uint32_t)file;
			requests[n].aio_buf = (uint64_t)(uintptr_t)(buffer + n * bytes);
			requests[n].aio_nbytes = (uint64_t)bytes;
			requests[n].aio_offset = at;
			all[n] = &requests[n];
		}
		if (syscall(SYS_io_submit, context, deep, all) != deep)
			return fail(argv[1]);
		for (; left; left -= got) {
			got = syscall(SYS_io_getevents, context, 1L, left, done, NULL);
			if (got <= 0)
				return fail("io_getevents");
			for (long n = 0; n < got; n++) {
				if (done[n].res != bytes) {
					errno = done[n].res < 0 ? (int)-done[n].res : EIO;
					return fail(argv[1]);
				}
				note_answer(&reads, monotonic_ns() - begin_ns);
			}
		}
		next_ns = next_period(next_ns, period_us);
	}
	printf("{\"program\": \"pc_disk\", \"reads\": %ld, ", reads.count);
	print_answers(&reads);
	return 0;
}
