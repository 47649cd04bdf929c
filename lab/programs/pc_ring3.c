// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_ring3 msr|hypercall ADDRESS: what user space of an x86 guest gets when it announces a region to the host. Prints one line:
 * "signal N", or "returned N".
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "paracord_abi.h"

#if defined(__x86_64__)
static long write_msr(uint64_t value)
{
	__asm__ volatile("wrmsr" : : "c"(PARACORD_ANNOUNCE_MSR), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
	return 0;
}

/* AMD's instruction: emulated hosts have AMD's virtualization. */
static long call(uint64_t value)
{
	long result = PARACORD_ANNOUNCE_MSR;

	__asm__ volatile("vmmcall" : "+a"(result) : "b"(value) : "memory");
	return result;
}
#else
static long write_msr(uint64_t value) { return (long)value; }
static long call(uint64_t value) { return (long)value; }
#endif

int main(int argc, char **argv)
{
	int status;
	pid_t child;

	if (argc != 3) {
		fprintf(stderr, "usage: pc_ring3 msr|hypercall ADDRESS\n");
		return 2;
	}
	fflush(stdout);
	child = fork();
	if (child == 0) {
		uint64_t value = strtoull(argv[2], NULL, 0);

		printf("returned %ld\n", strcmp(argv[1], "msr") ? call(value) : write_msr(value));
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		perror("pc_ring3");
		return 1;
	}
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	return 0;
}
