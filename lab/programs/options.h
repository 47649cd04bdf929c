/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/*
 * Command line of the lab's programs: --name VALUE with whole numbers, checked
 * against a range, and where the program runs.
 */
#ifndef LAB_OPTIONS_H
#define LAB_OPTIONS_H

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct number_option {
	const char *name;	/* with its dashes */
	long *value;		/* holds the default before */
	long min, max;
};

static inline void set_number(const struct number_option *option, const char *text)
{
	char *end;

	errno = 0;
	*option->value = strtol(text, &end, 0);
	if (errno || end == text || *end || *option->value < option->min ||
	    *option->value > option->max) {
		fprintf(stderr, "%s %s: not a number in %ld..%ld\n", option->name, text,
			option->min, option->max);
		exit(2);
	}
}

/* Sets each option's value, or exits with status 2 after one line. */
static inline void parse_numbers(int argc, char **argv, int first,
				 const struct number_option *options, int count)
{
	for (int i = first; i < argc; i += 2) {
		int n;

		for (n = 0; n < count; n++)
			if (!strcmp(argv[i], options[n].name))
				break;
		if (n == count || i + 1 == argc) {
			fprintf(stderr, "%s: %s; options:", argv[i],
				n == count ? "unknown" : "needs a value");
			for (n = 0; n < count; n++)
				fprintf(stderr, " %s %ld", options[n].name, *options[n].value);
			fputc('\n', stderr);
			exit(2);
		}
		set_number(&options[n], argv[i + 1]);
	}
}

/* cpu < 0: anywhere. */
static inline void pin_to_cpu(long cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		fprintf(stderr, "--cpu %ld: %s\n", cpu, strerror(errno));
		exit(1);
	}
}

/* SCHED_RR at priority; 0: stays a normal task. */
static inline void be_realtime(long priority)
{
	struct sched_param param = { .sched_priority = (int)priority };

	if (priority && sched_setscheduler(0, SCHED_RR, &param)) {
		fprintf(stderr, "--priority %ld: %s\n", priority, strerror(errno));
		exit(1);
	}
}

static inline void be_normal(void)
{
	struct sched_param param = { .sched_priority = 0 };

	sched_setscheduler(0, SCHED_OTHER, &param);
}

#endif
