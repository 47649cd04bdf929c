// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * Keeps a file of shared memory that says how fast the CPUs of some threads are (board_speed.h), until it is ended.
 *
 *   pc_speeds FILE TID...
 *
 * For a guest's vCPUs: the file is the memory of an ivshmem device. The board's driver writes it as the threads change CPUs,
 * so that nothing runs for it. Prints "ready" when it has begun.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "board_speed.h"

static void need(int is_good, const char *what)
{
	if (is_good)
		return;
	fprintf(stderr, "pc_speeds: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	struct board_speed_threads threads = { .count = (uint32_t)(argc - 2) };
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page;
	int fd, device;

	if (argc < 3 || argc - 2 > BOARD_SPEED_ENTRIES) {
		fprintf(stderr, "usage: pc_speeds FILE TID... (%d at most)\n", BOARD_SPEED_ENTRIES);
		return 2;
	}
	for (int i = 2; i < argc; i++)
		threads.tids[i - 2] = (uint32_t)strtoul(argv[i], NULL, 10);
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	need(fd >= 0, argv[1]);
	page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need(page != MAP_FAILED, argv[1]);
	threads.page = (uint64_t)(uintptr_t)page;
	device = open("/dev/board_speed", O_WRONLY | O_CLOEXEC);
	need(device >= 0, "/dev/board_speed");
	need(write(device, &threads, sizeof(threads)) == (ssize_t)sizeof(threads), "/dev/board_speed");
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
