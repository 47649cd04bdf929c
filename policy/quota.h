/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max: a control group may run for quota_ns in each period, plus up to burst_ns that it left unused in earlier periods.
 *
 * A group's runtime is kept in a pool that all CPUs share. A CPU takes portions from the pool and charges running time to its
 * portion, so it accesses the pool only once per portion. Running time beyond a portion becomes a debt of the pool. So over time
 * a group gets its quota, no matter how late each overrun is noticed.
 */
#ifndef PARACORD_POLICY_QUOTA_H
#define PARACORD_POLICY_QUOTA_H

#include "budget.h"
#include "quota_types.h"

/* "max" in cpu.max: no quota. */
#define PC_QUOTA_NONE		0xffffffffffffffffull
/*
 * Size of a portion: as the kernel's sysctl_sched_cfs_bandwidth_slice, but at most 1/8 of the quota and at least
 * PC_PORTION_MIN_NS. Each CPU that holds a portion may overrun it until the next tick. Even if the tick rate is 100 Hz, the sum
 * of these overruns must be smaller than the deepest debt (PC_QUOTA_DEBT_QUOTAS).
 */
#define PC_PORTION_NS		(5 * PC_NSEC_PER_MSEC)
#define PC_PORTION_MIN_NS	(1 * PC_NSEC_PER_MSEC)
/* How much of its portion a CPU keeps when it no longer runs a task of the group. */
#define PC_PORTION_KEPT_NS	(200 * PC_NSEC_PER_USEC)
/*
 * Longest accepted period and largest accepted quota. Larger values are invalid, as in the kernel (max_cfs_quota_period,
 * max_bw_runtime_us).
 */
#define PC_QUOTA_PERIOD_MAX_NS	(1 * PC_NSEC_PER_SEC)
#define PC_QUOTA_MAX_NS		(1ull << 44)

/*
 * The pool may hold the quotas of as many periods as are needed to cover this window. A tick may end a task's turn late, so the
 * task runs too long. To make up for this, the group's tasks may use the quota of a period up to one window late. Without this
 * rule, a group whose period is shorter than the window would lose runtime.
 */
#define PC_QUOTA_WINDOW_NS	(4 * PC_NSEC_PER_MSEC)

/*
 * Longest running time that is charged in one step. A longer time means that the clock has jumped, or that the host itself did
 * not run.
 */
#define PC_QUOTA_PAID_MAX_NS	(100 * PC_NSEC_PER_MSEC)
/* Deepest debt: PC_QUOTA_DEBT_QUOTAS times the quota, but at least PC_QUOTA_DEBT_MIN_NS. */
#define PC_QUOTA_DEBT_QUOTAS	16
#define PC_QUOTA_DEBT_MIN_NS	(50 * PC_NSEC_PER_MSEC)

/* Whether these values of cpu.max limit the group. */
PC_INLINE int pc_quota_is_set(u64 quota_ns, u64 period_ns)
{
	return quota_ns < PC_QUOTA_MAX_NS && period_ns > 0 && period_ns <= PC_QUOTA_PERIOD_MAX_NS;
}

PC_INLINE u64 pc_quota_portion_ns(const struct pc_quota *q)
{
	return pc_max_u64(PC_PORTION_MIN_NS, pc_min_u64(PC_PORTION_NS, q->quota_ns / 8));
}

/*
 * Refills the pool up to `now`. Each period that has begun since the last refill adds one quota. The pool never holds more than
 * the burst plus the quotas of as many periods as cover PC_QUOTA_WINDOW_NS. Any number of CPUs may call this function
 * concurrently.
 */
PC_INLINE void pc_quota_refill(struct pc_quota *q, u64 now)
{
	u64 old = READ_ONCE(q->period_at_ns);
	u64 start, periods, most;
	s64 had, least, left;

	if (!q->period_ns)
		return;
	start = pc_period_start(old, q->period_ns, now);
	if (start == old || __sync_val_compare_and_swap(&q->period_at_ns, old, start) != old)
		return;
	periods = (PC_QUOTA_WINDOW_NS + q->period_ns - 1) / q->period_ns;
	most = periods * q->quota_ns + pc_min_u64(q->burst_ns, PC_QUOTA_MAX_NS);
	periods = pc_elapsed_ns(start, old) / q->period_ns;
	/* A debt larger than -least is cut to that limit: the host caused the excess, not the group. */
	had = READ_ONCE(q->left_ns);
	least = -(s64)pc_max_u64(PC_QUOTA_DEBT_QUOTAS * q->quota_ns, PC_QUOTA_DEBT_MIN_NS);
	left = had < least ? least : pc_min_s64(had, (s64)most);
	left += (s64)pc_min_u64(pc_min_u64(periods, PC_REFILL_MAX_PERIODS) * q->quota_ns, most - (u64)left);
	__sync_fetch_and_add(&q->left_ns, left - had);
}

/*
 * Takes runtime from the pool. Return: as much of `wanted` as the pool has; all of `wanted` if the group no longer has a quota.
 */
PC_INLINE u64 pc_quota_take(struct pc_quota *q, u64 wanted)
{
	s64 had;
	u64 got;

	if (!READ_ONCE(q->quota_ns))
		return wanted;
	had = __sync_fetch_and_add(&q->left_ns, -(s64)wanted);
	got = had <= 0 ? 0 : pc_min_u64((u64)had, wanted);
	if (got < wanted)
		__sync_fetch_and_add(&q->left_ns, (s64)(wanted - got));
	return got;
}

/* Returns unused runtime to the pool. A negative `ns` adds a debt. */
PC_INLINE void pc_quota_give(struct pc_quota *q, s64 ns)
{
	__sync_fetch_and_add(&q->left_ns, ns);
}

PC_INLINE int pc_quota_is_spent(const struct pc_quota *q)
{
	return READ_ONCE(q->left_ns) <= 0;
}

/* Number of tasks that may begin to use the pool: one task per portion; PC_QUOTA_NONE if the group no longer has a quota. */
PC_INLINE u64 pc_quota_portions(const struct pc_quota *q)
{
	s64 left = READ_ONCE(q->left_ns);

	if (!READ_ONCE(q->quota_ns))
		return PC_QUOTA_NONE;
	return left <= 0 ? 0 : 1 + (u64)left / pc_quota_portion_ns(q);
}

/* Time (CLOCK_MONOTONIC) at which an empty pool has runtime again: after the periods whose quotas pay for its debt. */
PC_INLINE u64 pc_quota_again_ns(const struct pc_quota *q)
{
	s64 left = pc_bucket_clamp(READ_ONCE(q->left_ns), q->quota_ns);
	u64 periods = left > 0 || !q->quota_ns ? 1 : (u64)-left / q->quota_ns + 1;

	return q->period_at_ns + periods * q->period_ns;
}

#endif
