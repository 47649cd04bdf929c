/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/* VMs of a plan: they are there already; their vCPUs' threads are placed, looked at, and put back. */
#ifndef LAB_PLAY_VM_H
#define LAB_PLAY_VM_H

#include <signal.h>

#include "play_group.h"

enum { VCPUS_MAX = 256 };

/* A vCPU's thread, and where it was before. */
struct vcpu {
	int tid, placed;
	char group[PATH_BYTES];
	cpu_set_t cpus;
};

static struct vcpu vcpus[VMS_MAX][VCPUS_MAX];

/* NAME=TID,TID... */
static void name_vcpus(const char *text)
{
	const char *at = strchr(text, '=');

	for (int v = 0; at && v < plan.vm_count; v++) {
		if (strncmp(text, plan.vms[v].name, (size_t)(at - text)) || plan.vms[v].name[at - text])
			continue;
		for (int n = 0; n < plan.vms[v].vcpus && n < VCPUS_MAX; n++) {
			char *end;

			vcpus[v][n].tid = (int)strtol(at + 1, &end, 10);
			if (end == at + 1 || vcpus[v][n].tid <= 0)
				break;
			at = end;
		}
		return;
	}
	fprintf(stderr, "pc_play: --vm %s: write the name of a VM of the plan, =, and its vCPUs' thread ids\n", text);
	exit(2);
}

/* sum_exec_runtime of a thread. */
static uint64_t ran_ns_of(int tid)
{
	char path[64];
	unsigned long long ns = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", tid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%llu", &ns) != 1)
		fail("no such vCPU thread:", path);
	fclose(file);
	return ns;
}

/* Its group in the hierarchy of version 2. */
static void read_group_of(struct vcpu *vcpu)
{
	char path[64], line[PATH_BYTES + 8];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", vcpu->tid);
	file = fopen(path, "r");
	if (!file)
		fail("no such vCPU thread:", path);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "0::/%511[^\n]", vcpu->group);
	fclose(file);
}

/* Where all of them are; one that was not named is an error. */
static void find_vcpus(void)
{
	for (int v = 0; v < plan.vm_count; v++) {
		const struct vm *vm = &plan.vms[v];

		for (int n = 0; n < vm->vcpus; n++) {
			struct vcpu *vcpu = &vcpus[v][n];

			if (vm->vcpus > VCPUS_MAX || vcpu->tid <= 0) {
				fprintf(stderr, "pc_play: the plan has a VM %s of %" PRId64 " vCPUs: name their threads, --vm %s=TID,...\n",
					vm->name, vm->vcpus, vm->name);
				exit(2);
			}
			read_group_of(vcpu);
			if (sched_getaffinity(vcpu->tid, sizeof(vcpu->cpus), &vcpu->cpus))
				fail("no such vCPU thread of", vm->name);
		}
	}
}

/* VMs' vCPUs go where the mix says. A thread takes its whole process along, so all were looked at before. */
static void place_vms(void)
{
	find_vcpus();
	for (int v = 0; v < plan.vm_count; v++)
		for (int n = 0; n < plan.vms[v].vcpus; n++) {
			const struct vm *vm = &plan.vms[v];
			struct vcpu *vcpu = &vcpus[v][n];

			vcpu->placed = 1;
			if (plan.group_count)
				join_group(vm->group, vcpu->tid);
			if (sched_setaffinity(vcpu->tid, sizeof(vm->cpus), &vm->cpus))
				fail("cannot set the CPUs of", vm->name);
		}
}

/* As they were before. One that has ended meanwhile needs nothing. */
static void release_vms(void)
{
	for (int v = 0; v < plan.vm_count; v++)
		for (int n = 0; n < plan.vms[v].vcpus && n < VCPUS_MAX; n++) {
			const struct vcpu *vcpu = &vcpus[v][n];
			char path[PATH_BYTES + 64], tid[16];

			if (!vcpu->placed)
				continue;
			sched_setaffinity(vcpu->tid, sizeof(vcpu->cpus), &vcpu->cpus);
			snprintf(path, sizeof(path), CGROUPS "/%s/cgroup.procs", vcpu->group);
			snprintf(tid, sizeof(tid), "%d", vcpu->tid);
			if (plan.group_count)
				write_text(path, tid);
		}
}

#endif
