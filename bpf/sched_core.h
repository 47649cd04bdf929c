/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling (policy/core.h): the kernel asks which of two tasks of a core comes first, and does all the rest.
 *
 * Before 7.3 the kernel took the answer the other way round than documented (scx_prio_less(), kernel/sched/ext/ext.c): there the
 * loader leaves the operation out, and the kernel compares waiting times.
 */
#ifndef PARACORD_BPF_SCHED_CORE_H
#define PARACORD_BPF_SCHED_CORE_H

#include "../policy/core.h"

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

/* A task's virtual time up to now, whether it runs or waits. */
static __always_inline u64 vtime_now(const struct pc_task *t, u32 cpu, const struct pc_rq *rq, u64 now)
{
	bool runs = place_of(t) == PC_AT(PC_AT_RUN, cpu + 1) && !runs_nothing(rq);

	return runs ? running_vtime(rq, now) : t->vtime;
}

/* Whether a task comes after one of another CPU. The kernel holds the locks of all CPUs of a core: nobody else writes. */
static __always_inline bool comes_after(const struct pc_task *t, u32 cpu, const struct pc_task *other, u32 there)
{
	struct pc_rq *rq = rq_of(cpu), *rq_there = rq_of(there);
	struct pc_core *core = core_of(cpu), *core_there = core_of(there);
	u64 now = rq_now();

	if (!rq || !rq_there || !core || !core_there)
		return false;
	return pc_core_comes_after(core, vtime_now(t, cpu, rq, now), t->inverse, core_there,
				   vtime_now(other, there, rq_there, now), other->inverse, now);
}

/* A task waits on a CPU that is kept idle: the other one's turn ends, tick or not. */
static __always_inline void ends_its_turn(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq && rq->tickless && !runs_nothing(rq))
		watch_turn(rq, cpu, rq_now());
}

SEC("struct_ops/ext_core_sched_before")
bool BPF_PROG(ext_core_sched_before, struct task_struct *a, struct task_struct *b)
{
	u32 cpu = scx_bpf_task_cpu(a), there = scx_bpf_task_cpu(b);
	struct pc_task *t = task_of(a), *other = task_of(b);
	u32 level = task_level(t), level_other = task_level(other);

	if (!has_cookies)
		has_cookies = 1;
	if (!t || !other)
		return false;
	if (level != level_other)
		return level > level_other;
	/* The kernel sorts a CPU's tasks of each cookie. */
	if (cpu == there)
		return pc_fair_before(t->vtime, other->vtime);
	ends_its_turn(cpu);
	ends_its_turn(there);
	return comes_after(other, there, t, cpu);
}

#endif
