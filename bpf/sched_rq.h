/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's records: one per CPU, one per task.
 *
 * pc_rq is written by its own CPU (its run queue's lock is held in all operations that write), but for
 * `queued`, `waiting` and `readers`, sums that others use as a hint, and for what others post (`promotes`, `calls`, `expired`, `left`,
 * `removed`). Readers elsewhere may see a task half switched: the price is one preemption more or less.
 */
#ifndef PARACORD_BPF_SCHED_RQ_H
#define PARACORD_BPF_SCHED_RQ_H

#include "../policy/core.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_rq);
} rqs SEC(".maps");

/* 1: threads of a core are, or were, kept apart by cookies (sched_core.h). Volatile, or clang makes one byte of it, and BTF four. */
static volatile u32 has_cookies;

/* CPUs of a ring that one looks at who has nothing to run, or is boosted and looks for a place. */
#define PC_STEAL_MAX	16

/* Of tasks and groups for which nobody said anything. */
static const struct pc_clamp no_clamp = { .min = 0, .max = PC_CAPACITY };

static __always_inline struct pc_rq *rq_of(u32 cpu)
{
	return bpf_map_lookup_elem(&rqs, &cpu);
}

static __always_inline struct pc_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* Of each CPU, a cache line. */
struct pc_core_line {
	struct pc_core core;
	u64 reserved[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_core_line);
} cores SEC(".maps");

static __always_inline struct pc_core *core_of(u32 cpu)
{
	struct pc_core_line *line = bpf_map_lookup_elem(&cores, &cpu);

	return line ? &line->core : NULL;
}

/* Lately tasks of this CPU and of another thread of its core were compared: they take turns on the core. */
static __always_inline bool shares_core(u32 cpu, u64 now)
{
	struct pc_core *core = has_cookies ? core_of(cpu) : NULL;

	return core && pc_elapsed_ns(now, *(volatile u64 *)&core->compared_ns) <= PC_CORE_APART_NS;
}

/* What is done once in an interval, last at *last_ns: whether it is done now. */
static __always_inline bool is_due(u64 *last_ns, u64 now, u64 every_ns)
{
	if (pc_elapsed_ns(now, *last_ns) < every_ns)
		return false;
	*last_ns = now;
	return true;
}

/* `v`: NULL for a task that is no vCPU. */
static __always_inline u32 level_of(struct pc_vcpu *v)
{
	return v ? *(volatile u32 *)&v->level : PC_LEVEL_NONE;
}

static __always_inline bool runs_nothing(const struct pc_rq *rq)
{
	return *(volatile u32 *)&rq->runs == PC_RUNS_NOTHING;
}

/* PC_LEVEL_* of what runs on a CPU. */
static __always_inline u32 level_on(const struct pc_rq *rq)
{
	u32 runs = *(volatile u32 *)&rq->runs, index = runs - PC_RUNS_VCPU;

	return runs < PC_RUNS_VCPU ? PC_LEVEL_NONE : level_of(bpf_map_lookup_elem(&vcpus, &index));
}

/* The task that runs on this CPU turns out to be a vCPU. */
static __always_inline void runs_as_vcpu(u32 cpu, u32 index)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq && *(volatile u32 *)&rq->runs == PC_RUNS_TASK)
		*(volatile u32 *)&rq->runs = PC_RUNS_VCPU + index;
}

/* What runs on a CPU is an ordinary task, a vCPU without a boost perhaps. */
static __always_inline bool runs_ordinary(const struct pc_rq *rq)
{
	return !runs_nothing(rq) && level_on(rq) == PC_LEVEL_NONE;
}

/* What runs on a CPU gives way now, or at the next tick. */
static __always_inline void preempt_cpu(struct pc_rq *rq, u32 cpu)
{
#ifdef PC_HAVE_KICK
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
#else
	*(volatile u32 *)&rq->expired = 1;
#endif
}

#endif
