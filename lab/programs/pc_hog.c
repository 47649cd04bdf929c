// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_hog: a task that wants all the CPU it can get, and says how much it got.
 *
 * Output, JSON lines: with --report_s one per interval, and one at the end (also
 * after SIGTERM or SIGINT) with "final": true.
 *   loops       units of work done, comparable within one run on one machine
 *   cpu_ns      CPU time as this kernel accounts it
 *   elapsed_ns  time on the clock
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "monotonic.h"
#include "options.h"
#include "work.h"

static atomic_int stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void report(uint64_t loops, uint64_t start_ns, uint64_t cpu_start_ns, int final)
{
	printf("{\"program\": \"pc_hog\", \"final\": %s, \"loops\": %llu, \"cpu_ns\": %llu, \"elapsed_ns\": %llu}\n",
	       final ? "true" : "false", (unsigned long long)loops,
	       (unsigned long long)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_start_ns),
	       (unsigned long long)(monotonic_ns() - start_ns));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	/* Work between two looks at the clock: some 10 us, far below a tick. */
	enum { LOOPS_PER_LOOK = 10000 };
	long seconds = 0, report_s = 0, cpu = -1, priority = 0, priority_after_ms = 0,
	     toggle_ms = 0, reads = 0, busy_ms = 0, sleep_ms = 0;
	const struct number_option options[] = {
		{ "--seconds", &seconds, 0, 86400 },	/* 0: until a signal */
		{ "--report_s", &report_s, 0, 3600 },	/* 0: only at the end */
		{ "--cpu", &cpu, -1, 1023 },
		{ "--priority", &priority, 0, 99 },
		/* Asks for the priority while it runs, without a context switch. */
		{ "--priority_after_ms", &priority_after_ms, 0, 3600000 },
		/* From then on it drops the priority and asks for it again, each after this time. */
		{ "--toggle_ms", &toggle_ms, 0, 3600000 },
		/* 1: in the kernel most of the time, in a walk over all tasks under RCU. */
		{ "--reads", &reads, 0, 1 },
		/* Sleeps for one of these after each time on the CPU of the other: a task of constant size. */
		{ "--busy_ms", &busy_ms, 0, 3600000 },
		{ "--sleep_ms", &sleep_ms, 0, 3600000 },
	};
	int is_raised = 0;
	uint64_t loops = 0, start_ns, cpu_start_ns, next_ns, end_ns, raise_ns = UINT64_MAX, tired_ns;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	pin_to_cpu(cpu);
	if (!priority_after_ms)
		be_realtime(priority);

	start_ns = monotonic_ns();
	if (priority_after_ms)
		raise_ns = start_ns + (uint64_t)priority_after_ms * NS_PER_MS;
	cpu_start_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	tired_ns = cpu_start_ns + (uint64_t)busy_ms * NS_PER_MS;
	end_ns = seconds ? start_ns + (uint64_t)seconds * NS_PER_S : UINT64_MAX;
	next_ns = report_s ? start_ns + (uint64_t)report_s * NS_PER_S : UINT64_MAX;

	while (!stop) {
		uint64_t now_ns;

		if (reads)
			getpriority(PRIO_USER, 0);
		else
			work(LOOPS_PER_LOOK);
		loops++;
		if (sleep_ms && clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= tired_ns) {
			sleep_until_ns(monotonic_ns() + (uint64_t)sleep_ms * NS_PER_MS);
			tired_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + (uint64_t)busy_ms * NS_PER_MS;
		}
		now_ns = monotonic_ns();
		if (now_ns >= end_ns)
			break;
		if (now_ns >= raise_ns) {
			is_raised = !is_raised;
			if (is_raised)
				be_realtime(priority);
			else
				be_normal();
			raise_ns = toggle_ms ? raise_ns + (uint64_t)toggle_ms * NS_PER_MS : UINT64_MAX;
		}
		if (now_ns >= next_ns) {
			report(loops, start_ns, cpu_start_ns, 0);
			next_ns += (uint64_t)report_s * NS_PER_S;
		}
	}
	report(loops, start_ns, cpu_start_ns, 1);
	return 0;
}
