/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/*
 * Work that takes as long as it would on a board with CPU frequencies, on a host and in its guests.
 *
 * rt-app cannot be used for this: an emulated CPU is as fast at any frequency, so work that rt-app measured once would never
 * stretch. The board's driver says how fast a CPU would be (board_speed.h), and a task's own CPU time counts at that rate. A
 * guest finds the same for its vCPUs in the memory of an ivshmem device, whatever else host and guest tell each other.
 */
#ifndef LAB_BOARD_WORK_H
#define LAB_BOARD_WORK_H

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "board_speed.h"
#include "monotonic.h"
#include "options.h"
#include "pci_device.h"
#include "work.h"

/* Between two looks at the clock: some tens of microseconds in an emulator. */
#define LOOPS		2000
#define HOST_SPEEDS	"/dev/board_speed"
#define GUEST_SPEEDS	"/sys/bus/pci/devices/*/resource2"

static const volatile struct board_speed_page *speeds;
static volatile sig_atomic_t stopped;

static inline const volatile struct board_speed_page *map_speed_page(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const volatile struct board_speed_page *page;

	if (fd < 0)
		return NULL;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	if (page->magic == BOARD_SPEED_MAGIC)
		return page;
	munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
	return NULL;
}

/* Exits with one line where nobody says how fast CPUs are. */
static inline void map_speeds(void)
{
	glob_t found = { 0 };

	speeds = map_speed_page(HOST_SPEEDS);
	if (speeds)
		return;
	glob(GUEST_SPEEDS, 0, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc && !speeds; i++) {
		enable_device(found.gl_pathv[i]);
		speeds = map_speed_page(found.gl_pathv[i]);
	}
	globfree(&found);
	if (!speeds) {
		fprintf(stderr, "no %s and no device with its page: load the board's driver (lab/boards)\n", HOST_SPEEDS);
		exit(1);
	}
}

/* What somebody wants to know of each slice of work; ns of CPU time. */
typedef void (*slice_t)(void *context, uint32_t cpu, uint32_t speed, uint64_t ns);

/* Works until `wanted` (ns at full speed) is done or it is time to end; what was done. */
static inline uint64_t do_work(uint64_t wanted, uint64_t end_ns, slice_t slice, void *context)
{
	uint64_t done = 0, before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	while (done < wanted && !stopped && monotonic_ns() < end_ns) {
		uint32_t speed;
		uint64_t now;
		int cpu;

		work(LOOPS);
		cpu = sched_getcpu();
		cpu = cpu < 0 || cpu >= BOARD_SPEED_ENTRIES ? 0 : cpu;
		speed = speeds->speed[cpu];
		now = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		done += (now - before) * speed / BOARD_FULL_SPEED;
		if (slice)
			slice(context, speeds->cpu[cpu], speed, now - before);
		before = now;
	}
	return done;
}

#endif
