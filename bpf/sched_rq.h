/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The records of the scheduler: one per CPU, one per task.
 *
 * A pc_rq is written with the run queue lock of its CPU held, mostly by that CPU. The exceptions are the sums `queued`,
 * `waiting` and `readers`, which other CPUs use as a hint; what other CPUs post (`promotes`, `calls`, `expired`, `left`,
 * `removed`); the hint `victim` (look_here()); `timer_ns` (watch_turn()); and what timers, CPU hotplug and the daemon
 * write (`asks`, `requested`, `offline`, `features`). Readers on other CPUs may see a half-finished switch, which costs
 * one preemption too many or too few.
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

/*
 * 1: cookies keep, or have kept, threads of a core apart (sched_core.h). Volatile: otherwise clang would make it one
 * byte, and BTF four.
 */
static volatile u32 has_cookies;

/* CPUs of a ring that a CPU with nothing to run looks at. A search for a CPU for a boosted thread looks at twice as many. */
#define PC_STEAL_MAX	16

/* The clamps of tasks and groups for which none were set. */
static const struct pc_clamp no_clamp = { .min = 0, .max = PC_CAPACITY };

static __always_inline struct pc_rq *rq_of(u32 cpu)
{
	return bpf_map_lookup_elem(&rqs, &cpu);
}

static __always_inline struct pc_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* One cache line per CPU. */
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

/* Tasks of this CPU and of another thread of its core were compared lately: they take turns on the core. */
static __always_inline bool shares_core(u32 cpu, u64 now)
{
	struct pc_core *core = has_cookies ? core_of(cpu) : NULL;

	return core && pc_elapsed_ns(now, *(volatile u64 *)&core->compared_ns) <= PC_CORE_APART_NS;
}

/* Whether work that is done once per interval is done now. *last_ns: when it was done last. */
static __always_inline bool is_due(u64 *last_ns, u64 now, u64 every_ns)
{
	if (pc_elapsed_ns(now, *last_ns) < every_ns)
		return false;
	*last_ns = now;
	return true;
}

/* `v`: NULL for a task that is not a vCPU. */
static __always_inline u32 level_of(struct pc_vcpu *v)
{
	return v ? *(volatile u32 *)&v->level : PC_LEVEL_NONE;
}

static __always_inline bool runs_nothing(const struct pc_rq *rq)
{
	return *(volatile u32 *)&rq->runs == PC_RUNS_NOTHING;
}

/* PC_LEVEL_* of the task that runs on a CPU. */
static __always_inline u32 level_on(const struct pc_rq *rq)
{
	u32 runs = *(volatile u32 *)&rq->runs, index = runs - PC_RUNS_VCPU;

	return runs < PC_RUNS_VCPU ? PC_LEVEL_NONE : level_of(bpf_map_lookup_elem(&vcpus, &index));
}

/* The sensor finds that the task that runs on this CPU is a vCPU. */
static __always_inline void runs_as_vcpu(u32 cpu, u32 index)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq && *(volatile u32 *)&rq->runs == PC_RUNS_TASK)
		*(volatile u32 *)&rq->runs = PC_RUNS_VCPU + index;
}

/* An ordinary task runs on a CPU, possibly a vCPU without a boost. */
static __always_inline bool runs_ordinary(const struct pc_rq *rq)
{
	return !runs_nothing(rq) && level_on(rq) == PC_LEVEL_NONE;
}

/* The task that runs on a CPU gives way now, or without the kick at the next tick. */
static __always_inline void preempt_cpu(struct pc_rq *rq, u32 cpu)
{
#ifdef PC_HAVE_KICK
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
#else
	*(volatile u32 *)&rq->expired = 1;
#endif
}

#endif
