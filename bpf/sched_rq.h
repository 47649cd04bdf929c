/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's records: one per CPU, one per task.
 *
 * pc_rq is written by its own CPU (its run queue's lock is held in all operations that write), but for
 * `queued`, `waiting` and `readers`, sums that others use as a hint, for what others post (`wanted`, `expired`, `left`,
 * `removed`), and for `cur_level` and `cur_boosted`, which follow the level of the vCPU that runs. Readers
 * elsewhere may see a task half switched: the price is one preemption more or less.
 */
#ifndef PARACORD_BPF_SCHED_RQ_H
#define PARACORD_BPF_SCHED_RQ_H

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_rq);
} rqs SEC(".maps");

/* CPUs of the ring that one looks at who has nothing to run, or is boosted and looks for a place. */
#define PC_STEAL_MAX	32

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

#endif
