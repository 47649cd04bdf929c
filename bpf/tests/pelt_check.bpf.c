// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks policy/pelt.h against the kernel. Each time the kernel updates the load average of a scheduling entity, policy/pelt.h
 * makes the same update from the same state, and the two results are compared.
 */
#include "../kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "../../policy/pelt.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_avg {
	u64 last_update_time;
	u32 util_sum;
	u32 period_contrib;
	unsigned long util_avg;
};

/* Members of struct sched_entity that kernel_types.h does not have. */
struct sched_entity___load {
	unsigned char on_rq;
	struct sched_avg avg;
};

/* The running entity of a cfs_rq: h_curr since 7.3, where the queues of groups are flat; curr before 7.3. */
struct cfs_rq___load {
	struct sched_entity___load *h_curr;
	struct sched_entity___load *curr;
};

#pragma clang attribute pop

/* One per CPU: the entity that the kernel is updating, and the policy's result for it. */
struct before {
	struct pc_pelt pelt;
	u64 entity;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, struct before);
} updates SEC(".maps");

struct comparison {
	u64 compared;
	u64 crossed;		/* updates in which a period ended, so that the average was computed again */
	u64 differing;
	struct pc_pelt ours;	/* the first pair of results that differ */
	struct pc_pelt theirs;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct comparison);
} result SEC(".maps");

static __always_inline struct pc_pelt state_of(const struct sched_entity___load *se)
{
	struct pc_pelt pelt = {
		.last_ns = se->avg.last_update_time,
		.util_sum = se->avg.util_sum,
		.util_avg = (u32)se->avg.util_avg,
		.period_units = se->avg.period_contrib,
	};

	return pelt;
}

static __always_inline void begins(struct sched_entity___load *se, u32 running, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct before *b = bpf_map_lookup_elem(&updates, &cpu);

	if (!b)
		return;
	b->pelt = state_of(se);
	b->entity = (u64)se;
	pc_pelt_update(&b->pelt, now, running);
}

static __always_inline void ended(struct sched_entity___load *se, int crossed)
{
	u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	struct before *b = bpf_map_lookup_elem(&updates, &cpu);
	struct comparison *c = bpf_map_lookup_elem(&result, &zero);
	struct pc_pelt theirs;

	if (!b || !c || b->entity != (u64)se)
		return;
	b->entity = 0;
	theirs = state_of(se);
	__sync_fetch_and_add(&c->compared, 1);
	if (crossed)
		__sync_fetch_and_add(&c->crossed, 1);
	if (b->pelt.last_ns == theirs.last_ns && b->pelt.util_sum == theirs.util_sum &&
	    b->pelt.util_avg == theirs.util_avg && b->pelt.period_units == theirs.period_units)
		return;
	if (__sync_fetch_and_add(&c->differing, 1))
		return;
	c->ours = b->pelt;
	c->theirs = theirs;
}

static __always_inline bool runs(struct cfs_rq___load *cfs_rq, struct sched_entity___load *se)
{
	if (bpf_core_field_exists(cfs_rq->h_curr))
		return se->on_rq && cfs_rq->h_curr == se;
	return se->on_rq && cfs_rq->curr == se;
}

SEC("fentry/__update_load_avg_se")
int BPF_PROG(se_begins, u64 now, struct cfs_rq___load *cfs_rq, struct sched_entity___load *se)
{
	begins(se, runs(cfs_rq, se), now);
	return 0;
}

SEC("fexit/__update_load_avg_se")
int BPF_PROG(se_ended, u64 now, struct cfs_rq___load *cfs_rq, struct sched_entity___load *se, int crossed)
{
	ended(se, crossed);
	return 0;
}

SEC("fentry/__update_load_avg_blocked_se")
int BPF_PROG(blocked_begins, u64 now, struct sched_entity___load *se)
{
	begins(se, 0, now);
	return 0;
}

SEC("fexit/__update_load_avg_blocked_se")
int BPF_PROG(blocked_ended, u64 now, struct sched_entity___load *se, int crossed)
{
	ended(se, crossed);
	return 0;
}
