/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/*
 * A plan as `paracord-sim plan` writes it (crates/sim/src/report/plan.rs): a mix of tasks, resolved to numbers.
 * Each word is checked; the first wrong one ends the program with one line.
 */
#ifndef LAB_PLAY_PLAN_H
#define LAB_PLAY_PLAN_H

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PLAN_VERSION = 1,
	GROUPS_MAX = 256,
	QUEUES_MAX = 64,
	LOCKS_MAX = 64,
	KINDS_MAX = 128,
	PHASES_MAX = 256,
	VMS_MAX = 16,
	CHANGES_MAX = 256,
	NAME_BYTES = 65,
	PATH_BYTES = 512,
	LINE_BYTES = 8192,
};

enum verb { RUN, SLEEP, PERIOD, POST, WAIT, LOCK, UNLOCK, FORK, YIELD, EXIT, MOVE };

/* a, b: a span of time in ns (-1: for ever), or the number of a queue, lock, task or group. */
struct phase {
	enum verb verb;
	int64_t a, b;
};

struct quota {
	int64_t quota_ns, period_ns, burst_ns;	/* quota_ns -1: none */
};

struct group {
	char path[PATH_BYTES];
	int64_t weight, idle;
	struct quota quota;
};

struct policy {
	int number;	/* SCHED_* */
	int priority;
};

/* count 0: such tasks begin only by a fork. */
struct kind {
	char name[NAME_BYTES];
	int64_t count, group, nice, start_ns;
	struct policy policy;
	cpu_set_t cpus;
	int phase_count;
	struct phase phases[PHASES_MAX];
};

struct vm {
	char name[NAME_BYTES];
	int64_t vcpus, group;
	cpu_set_t cpus;
};

enum what { WEIGHT, QUOTA, IDLE, NICE, POLICY, CPUS, GROUP, ONLINE };

/* Of a group, a kind or a CPU, by number. */
struct change {
	int64_t at_ns, of, value;
	enum what what;
	struct quota quota;
	struct policy policy;
	cpu_set_t cpus;
};

struct plan {
	int64_t cpus, seed, run_ns, warmup_ns;
	int group_count, queue_count, lock_count, kind_count, vm_count, change_count;
	int is_pipe[QUEUES_MAX];
	struct group groups[GROUPS_MAX];
	struct kind kinds[KINDS_MAX];
	struct vm vms[VMS_MAX];
	struct change changes[CHANGES_MAX];
};

static struct plan plan;
/* CPU n of a plan is the n-th of these: all that this program may use. */
static int usable[CPU_SETSIZE], usable_count;
static int line_number;

__attribute__((noreturn, format(printf, 1, 2))) static void refuse(const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "pc_play: line %d: ", line_number);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(2);
}

static const char *next_word(void)
{
	const char *word = strtok(NULL, " \n");

	if (!word)
		refuse("a word is missing");
	return word;
}

/* The number of the next word among those that are known; what: what it is otherwise not. */
static int a_word(const char *const known[], size_t count, const char *what)
{
	const char *word = next_word();

	for (size_t n = 0; n < count; n++)
		if (!strcmp(word, known[n]))
			return (int)n;
	refuse("%s: not a %s", word, what);
}
#define A_WORD(known, what) a_word(known, sizeof(known) / sizeof((known)[0]), what)

static int64_t number(int64_t min, int64_t max)
{
	const char *word = next_word();
	char *end;
	long long value;

	errno = 0;
	value = strtoll(word, &end, 10);
	if (errno || end == word || *end || value < min || value > max)
		refuse("%s: not a number in %" PRId64 "..%" PRId64, word, min, max);
	return value;
}

static void copy_word(char *to, size_t bytes)
{
	const char *word = next_word();

	if (strlen(word) >= bytes)
		refuse("%s: longer than %zu letters", word, bytes - 1);
	strcpy(to, word);
}

static void find_usable(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set)) {
		perror("pc_play: sched_getaffinity");
		exit(1);
	}
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			usable[usable_count++] = cpu;
}

/* "0-3,8", or "*" for all. */
static cpu_set_t cpu_list(void)
{
	const char *at = next_word();
	cpu_set_t set;

	CPU_ZERO(&set);
	if (!strcmp(at, "*")) {
		for (int n = 0; n < usable_count; n++)
			CPU_SET(usable[n], &set);
		return set;
	}
	for (;; at++) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (end == at || first > last || last >= (unsigned long)usable_count || (*end && *end != ','))
			refuse("%s: not a list of CPUs below %d", at, usable_count);
		for (; first <= last; first++)
			CPU_SET(usable[first], &set);
		at = end;
		if (!*end)
			return set;
	}
}

static struct policy a_policy(void)
{
	static const char *const words[] = { "other", "batch", "idle", "fifo", "rr" };
	static const int numbers[] = { SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR };
	int number_of = numbers[A_WORD(words, "policy")];

	return (struct policy){ number_of, (int)number(0, 99) };
}

static struct quota a_quota(void)
{
	struct quota quota = { .quota_ns = number(-1, INT64_MAX) };

	quota.period_ns = number(1, INT64_MAX);
	quota.burst_ns = number(0, INT64_MAX);
	return quota;
}

static int64_t a_group(void)
{
	return number(-1, plan.group_count - 1);
}

/* A new element of an array with a limit. */
#define ADD(list, count, max)                                           \
	({                                                              \
		if ((count) == (max))                                   \
			refuse("more than %d %s", (max), #list);        \
		&(list)[(count)++];                                     \
	})

static void read_phase(struct phase *phase)
{
	static const char *const verbs[] = { "run", "sleep", "period", "post", "wait", "lock",
					     "unlock", "fork", "yield", "exit", "group" };
	static const int64_t first[] = { -1, 0, 1, 0, 0, 0, 0, 0, 0, 0, -1 };
	/* Forks name kinds that come later. */
	const int64_t last[] = { INT64_MAX, INT64_MAX, INT64_MAX, plan.queue_count - 1, plan.queue_count - 1,
				 plan.lock_count - 1, plan.lock_count - 1, KINDS_MAX - 1, 0, 0,
				 plan.group_count - 1 };
	int n = A_WORD(verbs, "phase");

	phase->verb = (enum verb)n;
	if (phase->verb != YIELD && phase->verb != EXIT)
		phase->a = number(first[n], last[n]);
	if (phase->verb == RUN || phase->verb == SLEEP)
		phase->b = number(-1, INT64_MAX);
}

static void read_change(struct change *change)
{
	static const char *const words[] = { "weight", "quota", "idle", "nice",
					     "policy", "cpus", "group", "online" };

	change->at_ns = number(0, INT64_MAX);
	change->what = (enum what)A_WORD(words, "change");
	change->of = number(0, change->what <= IDLE ? plan.group_count - 1 :
			       change->what == ONLINE ? plan.cpus - 1 : plan.kind_count - 1);
	if (change->what == QUOTA)
		change->quota = a_quota();
	else if (change->what == POLICY)
		change->policy = a_policy();
	else if (change->what == CPUS)
		change->cpus = cpu_list();
	else
		change->value = change->what == GROUP ? a_group() : number(-20, 10000);
}

static void read_kind(struct kind *kind)
{
	copy_word(kind->name, sizeof(kind->name));
	kind->count = number(0, 100000);
	kind->group = a_group();
	kind->policy = a_policy();
	kind->nice = number(-20, 19);
	kind->start_ns = number(0, INT64_MAX);
	kind->cpus = cpu_list();
}

static void read_vm(struct vm *vm)
{
	copy_word(vm->name, sizeof(vm->name));
	vm->vcpus = number(1, 4096);
	vm->group = a_group();
	vm->cpus = cpu_list();
}

static void read_group(struct group *group)
{
	copy_word(group->path, sizeof(group->path));
	group->weight = number(1, 10000);
	group->quota = a_quota();
	group->idle = number(0, 1);
}

static void read_line(const char *word)
{
	if (!strcmp(word, "plan")) {
		if (number(0, INT64_MAX) != PLAN_VERSION)
			refuse("another version of plans than %d: build both programs anew", PLAN_VERSION);
		plan.cpus = number(1, CPU_SETSIZE);
		if (plan.cpus != usable_count)
			refuse("the plan is for %" PRId64 " CPUs, this program may use %d: take a machine with that many",
			       plan.cpus, usable_count);
		plan.seed = (int64_t)strtoull(next_word(), NULL, 10);
	} else if (!strcmp(word, "run")) {
		plan.run_ns = number(1, INT64_MAX);
		plan.warmup_ns = number(0, plan.run_ns - 1);
	} else if (!strcmp(word, "group")) {
		read_group(ADD(plan.groups, plan.group_count, GROUPS_MAX));
	} else if (!strcmp(word, "queue")) {
		*ADD(plan.is_pipe, plan.queue_count, QUEUES_MAX) = !strcmp(next_word(), "pipe");
	} else if (!strcmp(word, "lock")) {
		if (++plan.lock_count > LOCKS_MAX)
			refuse("more than %d locks", LOCKS_MAX);
	} else if (!strcmp(word, "task")) {
		read_kind(ADD(plan.kinds, plan.kind_count, KINDS_MAX));
	} else if (!strcmp(word, "phase")) {
		struct kind *kind = &plan.kinds[plan.kind_count - 1];

		if (!plan.kind_count)
			refuse("a phase before the first task");
		read_phase(ADD(kind->phases, kind->phase_count, PHASES_MAX));
	} else if (!strcmp(word, "vm")) {
		read_vm(ADD(plan.vms, plan.vm_count, VMS_MAX));
	} else if (!strcmp(word, "at")) {
		read_change(ADD(plan.changes, plan.change_count, CHANGES_MAX));
	} else {
		refuse("%s: not a part of a plan", word);
	}
}

/* Changes are in the order of their times. */
static void read_plan(FILE *file)
{
	static char line[LINE_BYTES];

	find_usable();
	while (fgets(line, sizeof(line), file)) {
		const char *word = strtok(line, " \n");

		line_number++;
		if (word)
			read_line(word);
	}
	line_number++;
	if (!plan.cpus || !plan.run_ns)
		refuse("the plan ends without its plan and run lines");
	for (int k = 0; k < plan.kind_count; k++)
		for (int n = 0; n < plan.kinds[k].phase_count; n++)
			if (plan.kinds[k].phases[n].verb == FORK && plan.kinds[k].phases[n].a >= plan.kind_count)
				refuse("%s forks a task that is not there", plan.kinds[k].name);
}

#endif
