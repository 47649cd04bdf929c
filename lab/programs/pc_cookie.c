// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_cookie COMMAND [ARGUMENT...]: runs a command, and what that starts, with a core scheduling cookie of its own: no
 * thread of a core runs anything else beside them (PR_SCHED_CORE). Exit code 3: this kernel has no core scheduling.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE		62
#define PR_SCHED_CORE_CREATE	1
#endif
/* PIDTYPE_TGID of the kernel: all threads of the process. */
#define THREAD_GROUP		1

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: pc_cookie COMMAND [ARGUMENT...]\n");
		return 2;
	}
	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, THREAD_GROUP, 0)) {
		fprintf(stderr, "pc_cookie: PR_SCHED_CORE_CREATE: %s\n", strerror(errno));
		return 3;
	}
	execvp(argv[1], argv + 1);
	fprintf(stderr, "pc_cookie: %s: %s\n", argv[1], strerror(errno));
	return 127;
}
