// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * Counts perf events, of tasks that work, of a CPU or of a thread.
 *
 *   pc_count EVENT[,EVENT...] [--ms 1000] [--cpu -1] [--tid -1] [--tasks 1] [--hold_s 0] [--period 0]
 *
 * An EVENT is PMU/NAME/ with letters behind it, as perf writes it: u, in user mode only; G, in guests only. Or it is
 * task-clock, the kernel's own.
 *
 * --tasks N   so many tasks, each of which counts itself while it works for --ms of its own time;
 *             0: what is on CPU --cpu, or the thread --tid, for --ms of time
 * --hold_s    keeps the events open for so long afterwards
 * --period    samples each so many, and counts the samples
 *
 * Prints, per task and event: EVENT COUNT ENABLED_NS RUNNING_NS SAMPLES ELAPSED_NS. A thread's events are enabled while
 * it runs; time elapses meanwhile. Exit status 3 and the error's name if an event cannot be opened.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "monotonic.h"
#include "options.h"

#define EVENTS_MAX	64
#define SYSFS		"/sys/bus/event_source/devices"

static long ms = 1000, cpu = -1, tid = -1, tasks = 1, hold_s, period;

static const struct number_option options[] = {
	{ "--ms", &ms, 1, 600000 },	 { "--cpu", &cpu, -1, 4096 },	  { "--tid", &tid, -1, 1L << 22 },
	{ "--tasks", &tasks, 0, 64 },	 { "--hold_s", &hold_s, 0, 600 }, { "--period", &period, 0, 1L << 62 },
};

/* The number behind `prefix` in a file below a PMU's directory. */
static uint64_t number_in(const char *pmu, const char *file, const char *prefix)
{
	char path[256], text[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), SYSFS "/%s/%s", pmu, file);
	f = fopen(path, "r");
	if (!f || !fgets(text, sizeof(text), f) || strncmp(text, prefix, strlen(prefix))) {
		fprintf(stderr, "%s: %s\n", path, f ? "not understood" : strerror(errno));
		exit(3);
	}
	fclose(f);
	return strtoull(text + strlen(prefix), NULL, 0);
}

static struct perf_event_attr attr_of(const char *event)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	char copy[128], file[128], *pmu, *name, *modes, *place;

	attr.disabled = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.sample_period = (uint64_t)period;
	if (!strcmp(event, "task-clock")) {
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = PERF_COUNT_SW_TASK_CLOCK;
		return attr;
	}
	snprintf(copy, sizeof(copy), "%s", event);
	pmu = strtok_r(copy, "/", &place);
	name = strtok_r(NULL, "/", &place);
	modes = strtok_r(NULL, "/", &place);
	if (!pmu || !name || (modes && modes[strspn(modes, "uG")])) {
		fprintf(stderr, "%s: write PMU/NAME/, with u or G behind it, or task-clock\n", event);
		exit(2);
	}
	attr.exclude_kernel = modes && strchr(modes, 'u');
	attr.exclude_host = modes && strchr(modes, 'G');
	snprintf(file, sizeof(file), "events/%s", name);
	attr.type = (uint32_t)number_in(pmu, "type", "");
	attr.config = number_in(pmu, file, "event=");
	return attr;
}

/* Of an event that samples. Records are overwritten: how far the kernel got is enough. */
static struct perf_event_mmap_page *ring_of(int fd)
{
	void *ring = period ? mmap(NULL, 2 * (size_t)getpagesize(), PROT_READ, MAP_SHARED, fd, 0) : NULL;

	if (ring != MAP_FAILED)
		return ring;
	perror("mmap of an event");
	exit(3);
}

/* Without any wish of what shall be in it, a sample is its header. */
static unsigned long long samples_in(const struct perf_event_mmap_page *ring)
{
	return ring ? __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE) / sizeof(struct perf_event_header) : 0;
}

static void work(void)
{
	const struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
	uint64_t end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (uint64_t)ms * 1000000;

	if (!tasks)
		nanosleep(&pause, NULL);
	else
		while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
			for (volatile int i = 0; i < 10000; i++)
				;
}

static void count(char **events, int n)
{
	struct perf_event_mmap_page *rings[EVENTS_MAX];
	uint64_t read_as[3], elapsed_ns[EVENTS_MAX];
	int fds[EVENTS_MAX];

	for (int i = 0; i < n; i++) {
		struct perf_event_attr attr = attr_of(events[i]);

		fds[i] = (int)syscall(SYS_perf_event_open, &attr, tasks ? 0 : (pid_t)tid, tasks ? -1 : cpu, -1,
				      PERF_FLAG_FD_CLOEXEC);
		if (fds[i] < 0) {
			fprintf(stderr, "%s: %s\n", events[i], strerror(errno));
			exit(3);
		}
		rings[i] = ring_of(fds[i]);
	}
	for (int i = 0; i < n; i++) {
		elapsed_ns[i] = -monotonic_ns();
		ioctl(fds[i], PERF_EVENT_IOC_ENABLE, 0);
	}
	work();
	for (int i = 0; i < n; i++) {
		ioctl(fds[i], PERF_EVENT_IOC_DISABLE, 0);
		elapsed_ns[i] += monotonic_ns();
	}
	for (int i = 0; i < n; i++) {
		char line[256];
		int length;

		if (read(fds[i], read_as, sizeof(read_as)) != sizeof(read_as)) {
			fprintf(stderr, "%s: %s\n", events[i], strerror(errno));
			exit(3);
		}
		/* One write: several tasks print. */
		length = snprintf(line, sizeof(line), "%s %llu %llu %llu %llu %llu\n", events[i],
				  (unsigned long long)read_as[0], (unsigned long long)read_as[1],
				  (unsigned long long)read_as[2], samples_in(rings[i]),
				  (unsigned long long)elapsed_ns[i]);
		if (write(STDOUT_FILENO, line, (size_t)length) != length)
			exit(1);
	}
	if (hold_s)
		sleep((unsigned int)hold_s);
}

int main(int argc, char **argv)
{
	char *events[EVENTS_MAX], *place;
	int n = 0, status, failed = 0;

	if (argc < 2) {
		fputs("usage: pc_count EVENT[,EVENT...] [--ms N] [--cpu N] [--tid N] [--tasks N] [--hold_s N] "
		      "[--period N]\n",
		      stderr);
		return 2;
	}
	parse_numbers(argc, argv, 2, options, sizeof(options) / sizeof(*options));
	for (char *event = strtok_r(argv[1], ",", &place); event && n < EVENTS_MAX;
	     event = strtok_r(NULL, ",", &place))
		events[n++] = event;
	if (!tasks) {
		count(events, n);
		return 0;
	}
	pin_to_cpu(cpu);
	for (long i = 0; i < tasks; i++) {
		if (!fork()) {
			count(events, n);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		if (WIFEXITED(status) ? WEXITSTATUS(status) : 1)
			failed = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return failed;
}
