// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_barrier: a task that needs an answer of all CPUs where its process runs, again and again, as one that takes
 * memory away from a process with many threads does: the kernel interrupts those CPUs, and waits for each
 * (membarrier(2)). The other threads compute, one bound to each other CPU. The task runs on the last CPU, because a guest's
 * first CPU has a timer interrupt even if the others are tickless.
 *
 * Output, one JSON line: "barriers", "elapsed_ns", and "p99_us" of one barrier.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "monotonic.h"
#include "options.h"
#include "work.h"

#define BARRIERS_MAX 1000000

static void *compute(void *cpu)
{
	enum { LOOPS = 10000 };

	pin_to_cpu((long)cpu);
	for (;;)
		work(LOOPS);
	return NULL;
}

static int membarrier(int command)
{
	return (int)syscall(__NR_membarrier, command, 0, 0);
}

int main(int argc, char **argv)
{
	static uint64_t took_ns[BARRIERS_MAX];
	long seconds = 1, cpus = sysconf(_SC_NPROCESSORS_ONLN), count = 0;
	const struct number_option options[] = { { "--seconds", &seconds, 1, 3600 } };
	uint64_t start_ns, end_ns, now_ns;

	parse_numbers(argc, argv, 1, options, 1);
	if (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {
		perror("pc_barrier: membarrier");
		return 1;
	}
	for (long cpu = 0; cpu < cpus - 1; cpu++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, compute, (void *)cpu)) {
			fprintf(stderr, "pc_barrier: no thread\n");
			return 1;
		}
	}
	pin_to_cpu(cpus - 1);
	start_ns = now_ns = monotonic_ns();
	end_ns = start_ns + (uint64_t)seconds * NS_PER_S;
	while (now_ns < end_ns && count < BARRIERS_MAX) {
		uint64_t before_ns = now_ns;

		if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
			perror("pc_barrier: membarrier");
			return 1;
		}
		now_ns = monotonic_ns();
		took_ns[count++] = now_ns - before_ns;
	}
	qsort(took_ns, (size_t)count, sizeof(*took_ns), by_ns);
	printf("{\"program\": \"pc_barrier\", \"barriers\": %ld, \"elapsed_ns\": %llu, \"p99_us\": %.1f}\n", count,
	       (unsigned long long)(now_ns - start_ns), (double)took_ns[count * 99 / 100] / 1000);
	return 0;
}
