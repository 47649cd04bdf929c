// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * Periodic tasks of a board with CPU frequencies, as rt-app would run them, and what became of them.
 *
 *   pc_load [--sample-ms N] [--lead-ms N] [--util-min N] TASK...      TASK: WORK_US/PERIOD_US:LENGTH_MS[,WORK_US/PERIOD_US:LENGTH_MS...]
 *
 * A task's phases follow each other; in each, WORK_US of work (on the fastest CPU at its highest frequency) begin every PERIOD_US, or at
 * once when the one before is late. Tasks are named pc_task.N and begin together, lead-ms after the line "begin" is printed. Every
 * sample-ms the kernel's utilisation of each is read. util-min is the clamp (uclamp.min) of all, the kernel's own. At the end one JSON line:
 *
 *   {"begin_ns": N, "tasks": [{"phases": [{"begin_ns", "rounds", "late", "done_us", "busy_us": [by CPU of the board],
 *    "speed_us" (work that its CPUs could have done), "first_ns": [by CPU of the board: when it first ran there, 0: never]}],
 *    "util": [[ms since begin, utilisation], ...]}]}
 */
#include <inttypes.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "board_work.h"

#define TASKS_MAX	8
#define PHASES_MAX	8
#define SAMPLES_MAX	2000
#define BOARD_CPUS	8

struct phase {
	uint64_t work_ns, period_ns, length_ns;
	uint64_t begin_ns, rounds, late, done_ns, speed_ns;
	uint64_t busy_ns[BOARD_CPUS], first_ns[BOARD_CPUS];
};

struct task {
	struct phase phases[PHASES_MAX];
	int phase_count, samples;
	pid_t pid;
	uint32_t sample_ms[SAMPLES_MAX], util[SAMPLES_MAX];
};

/* Shared by the tasks' processes. */
static struct task *tasks;
static int task_count;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void parse_task(struct task *task, const char *text)
{
	const char *at = text;

	do {
		struct phase *phase = &task->phases[task->phase_count];
		unsigned int work_us, period_us, length_ms;
		int used = 0;

		if (task->phase_count == PHASES_MAX ||
		    sscanf(at, "%u/%u:%u%n", &work_us, &period_us, &length_ms, &used) != 3 || !used || !period_us ||
		    (at[used] && at[used] != ',')) {
			fprintf(stderr, "%s: not WORK_US/PERIOD_US:LENGTH_MS,... of %d phases at most\n", text, PHASES_MAX);
			exit(2);
		}
		phase->work_ns = work_us * NS_PER_US;
		phase->period_ns = period_us * NS_PER_US;
		phase->length_ns = length_ms * NS_PER_MS;
		task->phase_count++;
		at += used;
	} while (*at++ == ',');
}

static void count_slice(void *context, uint32_t cpu, uint32_t speed, uint64_t ns)
{
	struct phase *phase = context;

	phase->speed_ns += ns * speed / BOARD_FULL_SPEED;
	if (cpu >= BOARD_CPUS)
		return;
	phase->busy_ns[cpu] += ns;
	if (!phase->first_ns[cpu])
		phase->first_ns[cpu] = monotonic_ns();
}

static void run_task(int id, uint64_t begin_ns)
{
	struct task *task = &tasks[id];
	char name[32];

	snprintf(name, sizeof(name), "pc_task.%d", id);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sleep_until_ns(begin_ns);
	for (int i = 0; i < task->phase_count && !stopped; i++) {
		struct phase *phase = &task->phases[i];
		uint64_t end_ns = begin_ns + phase->length_ns, next_ns = begin_ns;

		phase->begin_ns = monotonic_ns();
		while (next_ns < end_ns && !stopped) {
			phase->done_ns += do_work(phase->work_ns, end_ns, count_slice, phase);
			phase->rounds++;
			next_ns += phase->period_ns;
			if (monotonic_ns() > next_ns) {
				phase->late++;
				next_ns = monotonic_ns();
			} else {
				sleep_until_ns(next_ns < end_ns ? next_ns : end_ns);
			}
		}
		begin_ns = end_ns;
	}
	_exit(0);
}

/* PELT's average as the kernel that runs the task has it; -1: it does not say. */
static long utilisation(pid_t pid)
{
	char path[64], line[160];
	long util = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/sched", pid);
	file = fopen(path, "re");
	while (file && util < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "se.avg.util_avg : %ld", &util) != 1)
			util = -1;
	if (file)
		fclose(file);
	return util;
}

static int tasks_left(void)
{
	int left = 0;

	for (int i = 0; i < task_count; i++)
		if (tasks[i].pid && waitpid(tasks[i].pid, NULL, WNOHANG) == tasks[i].pid)
			tasks[i].pid = 0;
		else
			left += tasks[i].pid != 0;
	return left;
}

static void sample(uint64_t begin_ns, uint64_t sample_ns)
{
	uint64_t at_ns = begin_ns;

	while (tasks_left() && !stopped) {
		at_ns += sample_ns;
		sleep_until_ns(at_ns);
		for (int i = 0; i < task_count; i++) {
			struct task *task = &tasks[i];
			long util = task->pid ? utilisation(task->pid) : -1;

			if (util < 0 || task->samples == SAMPLES_MAX)
				continue;
			task->sample_ms[task->samples] = (uint32_t)((monotonic_ns() - begin_ns) / NS_PER_MS);
			task->util[task->samples++] = (uint32_t)util;
		}
	}
	for (int i = 0; i < task_count; i++)
		if (tasks[i].pid) {
			kill(tasks[i].pid, SIGTERM);
			waitpid(tasks[i].pid, NULL, 0);
		}
}

static uint64_t us(uint64_t ns)
{
	return ns / NS_PER_US;
}

static void print_numbers(const char *name, const uint64_t *values, uint64_t unit_ns)
{
	printf(", \"%s\": [", name);
	for (int i = 0; i < BOARD_CPUS; i++)
		printf("%s%" PRIu64, i ? ", " : "", values[i] / unit_ns);
	putchar(']');
}

static void print_task(const struct task *task)
{
	printf("{\"phases\": [");
	for (int i = 0; i < task->phase_count; i++) {
		const struct phase *phase = &task->phases[i];

		printf("%s{\"begin_ns\": %" PRIu64 ", \"rounds\": %" PRIu64 ", \"late\": %" PRIu64 ", \"done_us\": %" PRIu64
		       ", \"speed_us\": %" PRIu64,
		       i ? ", " : "", phase->begin_ns, phase->rounds, phase->late, us(phase->done_ns), us(phase->speed_ns));
		print_numbers("busy_us", phase->busy_ns, NS_PER_US);
		print_numbers("first_ns", phase->first_ns, 1);
		putchar('}');
	}
	printf("], \"util\": [");
	for (int i = 0; i < task->samples; i++)
		printf("%s[%u, %u]", i ? ", " : "", task->sample_ms[i], task->util[i]);
	printf("]}");
}

/* The tasks inherit it. C libraries know struct sched_attr (linux/sched/types.h) or collide with it. */
static int clamp_util(uint32_t min)
{
	const struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
		uint32_t util_min, util_max;
	} attr = {
		.size = sizeof(attr),
		.flags = 0x08 | 0x10 | 0x20,	/* SCHED_FLAG_KEEP_POLICY, _KEEP_PARAMS, _UTIL_CLAMP_MIN */
		.util_min = min,
	};

	return (int)syscall(SYS_sched_setattr, 0, &attr, 0);
}

int main(int argc, char **argv)
{
	long sample_ms = 100, lead_ms = 500, util_min = 0;
	const struct number_option options[] = {
		{ "--sample-ms", &sample_ms, 1, 60000 },
		{ "--lead-ms", &lead_ms, 0, 60000 },
		{ "--util-min", &util_min, 0, 1024 },
	};
	uint64_t begin_ns;
	int first = 1;

	while (first + 1 < argc && !strncmp(argv[first], "--", 2)) {
		parse_numbers(first + 2, argv, first, options, sizeof(options) / sizeof(options[0]));
		first += 2;
	}
	if (first == argc || argc - first > TASKS_MAX) {
		fprintf(stderr, "pc_load: 1 to %d tasks, as WORK_US/PERIOD_US:LENGTH_MS,...\n", TASKS_MAX);
		return 2;
	}
	if (util_min && clamp_util((uint32_t)util_min)) {
		perror("pc_load: --util-min");
		return 1;
	}
	map_speeds();
	tasks = mmap(NULL, TASKS_MAX * sizeof(*tasks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tasks == MAP_FAILED) {
		perror("pc_load");
		return 1;
	}
	for (; first < argc; first++)
		parse_task(&tasks[task_count++], argv[first]);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	puts("begin");
	fflush(stdout);
	begin_ns = monotonic_ns() + (uint64_t)lead_ms * NS_PER_MS;
	for (int i = 0; i < task_count; i++) {
		pid_t pid = fork();

		if (!pid)
			run_task(i, begin_ns);
		tasks[i].pid = pid > 0 ? pid : 0;
	}
	sample(begin_ns, (uint64_t)sample_ms * NS_PER_MS);
	printf("{\"begin_ns\": %" PRIu64 ", \"tasks\": [", begin_ns);
	for (int i = 0; i < task_count; i++) {
		if (i)
			printf(", ");
		print_task(&tasks[i]);
	}
	puts("]}");
	return 0;
}
