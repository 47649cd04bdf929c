// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows what sched_ext itself costs. This is a minimal scheduler that divides CPU time in proportion to weight. It has one queue,
 * ordered by virtual time. It implements only the operations that such a scheduler needs. The sched_ext core in the kernel does
 * everything else. Only the lab's scenario `scheduler` uses this scheduler, to compare it with paracord's scheduler and the
 * kernel's fair class.
 */
#include "../kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "../scx.h"

char LICENSE[] SEC("license") = "GPL";

#define SHARED	1
#define SLICE	(3 * 1000 * 1000ull)
#define WEIGHT	100

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Members of task_struct.scx that kernel_types.h does not have. */
struct sched_ext_entity___weight {
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct task_struct___weight {
	struct sched_ext_entity___weight scx;
};

#pragma clang attribute pop

static u64 base;

SEC("struct_ops/plain_enqueue")
int BPF_PROG(plain_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 vtime = p->scx.dsq_vtime, least = base - SLICE;

	if ((s64)(vtime - least) < 0)
		vtime = least;
	insert_vtime(p, SHARED, SLICE, vtime, enq_flags);
	return 0;
}

SEC("struct_ops/plain_dispatch")
int BPF_PROG(plain_dispatch, s32 cpu, struct task_struct *prev)
{
	take(SHARED);
	return 0;
}

SEC("struct_ops/plain_running")
int BPF_PROG(plain_running, struct task_struct *p)
{
	u64 vtime = p->scx.dsq_vtime;

	if ((s64)(vtime - base) > 0)
		base = vtime;
	return 0;
}

SEC("struct_ops/plain_stopping")
int BPF_PROG(plain_stopping, struct task_struct *p, bool runnable)
{
	const struct task_struct___weight *t = (const void *)p;

	p->scx.dsq_vtime += (SLICE - p->scx.slice) * WEIGHT / t->scx.weight;
	return 0;
}

SEC("struct_ops.s/plain_init")
int BPF_PROG(plain_init)
{
	/*
	 * Functions in scx.h take a pointer to struct cpumask, but no other code here uses this structure. The call of
	 * describes_cpumask() makes the compiler emit BTF for the structure.
	 */
	return describes_cpumask() ? scx_bpf_create_dsq(SHARED, -1) : 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops plain = {
	.enqueue = (void *)plain_enqueue,
	.dispatch = (void *)plain_dispatch,
	.running = (void *)plain_running,
	.stopping = (void *)plain_stopping,
	.init = (void *)plain_init,
	.name = "plain",
};
