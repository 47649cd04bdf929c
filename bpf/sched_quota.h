/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max (policy/quota.h): what each CPU has of the pool of the group whose task runs there. A CPU has a portion of one
 * group at a time. Groups above that have a quota too are charged the same.
 */
#ifndef PARACORD_BPF_SCHED_QUOTA_H
#define PARACORD_BPF_SCHED_QUOTA_H

#include "../policy/quota.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_GROUPS_MAX);
	__type(key, u32);
	__type(value, struct pc_quota);
} quotas SEC(".maps");

/* The DSQs of groups, for tasks that wait for the quota of the group. The DSQs of CPUs have the numbers of the CPUs. */
#define PC_PARK			(1ull << 32)

/* 1: a group has, or had, a quota. */
static u32 has_quotas;

static __always_inline struct pc_quota *quota_at(u32 index)
{
	return bpf_map_lookup_elem(&quotas, &index);
}

/* Reads the quota from the group's files. A quota that is new, or has changed, begins with a full pool. */
static __always_inline void follow_quota(struct pc_quota *q, const struct task_group *of)
{
	u64 quota, period, burst;

	/* CONFIG_CFS_BANDWIDTH */
	if (!bpf_core_field_exists(struct task_group, cfs_bandwidth))
		return;
	quota = BPF_CORE_READ(of, cfs_bandwidth.quota);
	period = BPF_CORE_READ(of, cfs_bandwidth.period);
	burst = BPF_CORE_READ(of, cfs_bandwidth.burst);
	if (!pc_quota_is_set(quota, period))
		quota = 0;
	if (q->quota_ns == quota && (!quota || (q->period_ns == period && q->burst_ns == burst)))
		return;
	q->period_ns = period;
	q->burst_ns = burst;
	*(volatile s64 *)&q->left_ns = quota;
	*(volatile u64 *)&q->period_at_ns = bpf_ktime_get_ns();
	*(volatile u64 *)&q->quota_ns = quota;
	has_quotas = 1;
}

/* The index belongs to a new group: nothing of the former group's quota is left. Return: 0, or an error. */
static __always_inline s32 begin_quota(u32 index)
{
	struct pc_quota *q = quota_at(index);
	s32 error;

	if (!q)
		return -2;
	q->generation++;
	q->quota_ns = 0;
	q->look_ns = 0;
	q->above = PC_GROUP_ROOT;
	error = scx_bpf_create_dsq(PC_PARK | index, -1);
	return error == -17 ? 0 : error;	/* EEXIST: from a former group */
}

/* Whether a group, or a group above it, has used up its quota. */
PC_VERIFIED_ALONE int is_spent(u32 index)
{
	u64 now = bpf_ktime_get_ns();
	int i;

	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		struct pc_quota *q = index == PC_GROUP_ROOT ? NULL : quota_at(index);

		if (!q)
			break;
		pc_quota_refill(q, now);
		if (q->quota_ns && pc_quota_is_spent(q))
			return 1;
		index = q->above;
	}
	return 0;
}

/*
 * Returns runtime to the pools of a group and of the groups above it, on this many levels. A negative value is a debt.
 * Return: 0.
 */
PC_VERIFIED_ALONE int give_back(u32 index, int levels, s64 ns)
{
	int i;

	bpf_for(i, 0, levels) {
		struct pc_quota *q = index == PC_GROUP_ROOT ? NULL : quota_at(index);

		if (!q)
			break;
		pc_quota_give(q, ns);
		index = q->above;
	}
	return 0;
}

/* Returns runtime of a CPU's portion, if the quota is still the same one. */
static __always_inline void give_portion(const struct pc_rq *rq, s64 ns)
{
	struct pc_quota *q = rq->paying ? quota_at(rq->paying) : NULL;

	if (q && q->generation == rq->paying_generation)
		give_back(rq->paying, PC_GROUP_DEPTH_MAX, ns);
}

/* Takes runtime from one pool. A global function: otherwise the verifier would follow what is left, level by level. */
PC_VERIFIED_ALONE u64 take_at(u32 index, u64 ns)
{
	struct pc_quota *q = quota_at(index);

	if (!q)
		return 0;
	pc_quota_refill(q, bpf_ktime_get_ns());
	return pc_quota_take(q, ns);
}

/* Takes a portion, or as much of it as all pools have. */
PC_VERIFIED_ALONE u64 take_portion(u32 index)
{
	struct pc_quota *q = quota_at(index);
	u32 at = index;
	u64 got;
	int i;

	if (!q)
		return 0;
	got = pc_quota_portion_ns(q);
	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		u64 here;

		q = at == PC_GROUP_ROOT ? NULL : quota_at(at);
		if (!q || !got)
			break;
		here = take_at(at, got);
		/* The pools below have given more than can be used. */
		if (here < got)
			give_back(index, i, got - here);
		got = here;
		at = q->above;
	}
	return got;
}

/*
 * Pays for what the task of this CPU has run since it was charged last. True: its group, or a group above it, has nothing
 * left.
 */
static __always_inline bool pay(struct pc_rq *rq, u64 ran_ns)
{
	if (!rq->paying)
		return false;
	rq->portion_ns -= pc_min_u64(ran_ns, PC_QUOTA_PAID_MAX_NS);
	if (rq->portion_ns > 0)
		return false;
	rq->portion_ns += take_portion(rq->paying);
	if (rq->portion_ns > 0)
		return false;
	give_portion(rq, rq->portion_ns);
	rq->portion_ns = 0;
	return is_spent(rq->paying);
}

/*
 * A task of a group with this quota begins to run, or goes on; 0: no quota. What is left of a portion of another group
 * goes back. True: the quota is used up.
 */
static __always_inline bool pay_for(struct pc_rq *rq, u32 index)
{
	struct pc_quota *q = index ? quota_at(index) : NULL;

	if (rq->paying != index || (q && rq->paying_generation != q->generation)) {
		if (rq->portion_ns > 0)
			give_portion(rq, rq->portion_ns);
		rq->portion_ns = 0;
		rq->paying = index;
		rq->paying_generation = q ? q->generation : 0;
	}
	return index && rq->portion_ns <= 0 && pay(rq, 0);
}

/* No task of the group runs here any more: other CPUs may have most of the portion. */
static __always_inline void pay_no_more(struct pc_rq *rq)
{
	s64 spare = rq->portion_ns - (s64)PC_PORTION_KEPT_NS;

	if (!rq->paying || spare < (s64)PC_PORTION_KEPT_NS)
		return;
	rq->portion_ns -= spare;
	give_portion(rq, spare);
}

#endif
