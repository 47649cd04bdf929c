/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the scheduler enforces cpu.max (policy/quota.h). Each CPU takes a portion of runtime from the pool of the group whose task
 * it runs. A CPU has a portion of only one group at a time. If ancestors of this group also have quotas, the same amount is taken
 * from their pools.
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

/*
 * Flag in the ID of the DSQ in which tasks wait for the quota of a group. The ID of a CPU's queue is the CPU number, without this
 * flag.
 */
#define PC_PARK			(1ull << 32)

/* 1: some group has a quota, or had one. */
static u32 has_quotas;

static __always_inline struct pc_quota *quota_at(u32 index)
{
	return bpf_map_lookup_elem(&quotas, &index);
}

/* Reads the quota of a group from the kernel. A quota that is new or has changed starts with a full pool. */
static __always_inline void follow_quota(struct pc_quota *q, const struct task_group *of)
{
	u64 quota, period, burst;

	/* The member exists only with CONFIG_CFS_BANDWIDTH. */
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
	WRITE_ONCE(q->left_ns, quota);
	WRITE_ONCE(q->period_at_ns, bpf_ktime_get_ns());
	WRITE_ONCE(q->quota_ns, quota);
	has_quotas = 1;
}

/*
 * Called when an index is assigned to a new group. Clears the quota of the group that had this index before. Return: 0, or a
 * negative error number.
 */
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
	return error == -17 ? 0 : error;	/* EEXIST: the DSQ is left over from a former group */
}

/* Whether a group or one of its ancestors has used up its quota. */
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
 * Returns runtime to the pools of a group and its ancestors. `levels`: the maximum number of pools. A negative `ns` is a debt.
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

/* Returns runtime from a CPU's portion to the pools, if the record of the quota still belongs to the same group. */
static __always_inline void give_portion(const struct pc_rq *rq, s64 ns)
{
	struct pc_quota *q = rq->paying ? quota_at(rq->paying) : NULL;

	if (q && q->generation == rq->paying_generation)
		give_back(rq->paying, PC_GROUP_DEPTH_MAX, ns);
}

/*
 * Takes runtime from a pool. Return: the runtime taken. The function is global, so that the verifier does not track the returned
 * value.
 */
PC_VERIFIED_ALONE u64 take_at(u32 index, u64 ns)
{
	struct pc_quota *q = quota_at(index);

	if (!q)
		return 0;
	pc_quota_refill(q, bpf_ktime_get_ns());
	return pc_quota_take(q, ns);
}

/*
 * Takes a portion from the pools of a group and its ancestors. Return: the runtime taken, which is less than a portion if a pool
 * has less.
 */
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
		/*
		 * The pools of the groups below this one have given more than this pool has. Return the difference to those
		 * pools.
		 */
		if (here < got)
			give_back(index, i, got - here);
		got = here;
		at = q->above;
	}
	return got;
}

/*
 * Charges the running time since the last charge to the portion of this CPU. Return: true if the group of the running task, or an
 * ancestor, has used up its quota.
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
 * Sets the quota that the running task uses. `index`: the group with the quota; 0: none. Called when a task begins to run, and at
 * each tick. If this CPU still has a portion of another group, returns the rest of that portion. Return: true if the quota is
 * used up.
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

/* Called when the running task is no longer runnable. Returns most of the portion, so that other CPUs can use it. */
static __always_inline void pay_no_more(struct pc_rq *rq)
{
	s64 spare = rq->portion_ns - (s64)PC_PORTION_KEPT_NS;

	if (!rq->paying || spare < (s64)PC_PORTION_KEPT_NS)
		return;
	rq->portion_ns -= spare;
	give_portion(rq, spare);
}

#endif
