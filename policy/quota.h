/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cpu.max: a control group may run quota_ns in each period, and burst_ns more of what it left of earlier ones.
 *
 * A group's runtime lies in a pool that all CPUs share. A CPU takes portions of it, and pays what tasks run from its portion:
 * only portions touch the pool. What was run beyond it is the pool's debt, so that over time a group has its quota,
 * however late each overrun was noticed.
 */
#ifndef PARACORD_POLICY_QUOTA_H
#define PARACORD_POLICY_QUOTA_H

#include "budget.h"
#include "quota_types.h"

/* The kernel's "max": no quota. */
#define PC_QUOTA_NONE		0xffffffffffffffffull
/*
 * A portion, as the kernel's (sysctl_sched_cfs_bandwidth_slice); of small quotas an eighth. So many CPUs at once may each run on to a
 * tick: what that comes to is to be less than the deepest debt (below) at 100 Hz.
 */
#define PC_PORTION_NS		(5 * PC_NSEC_PER_MSEC)
#define PC_PORTION_MIN_NS	(1 * PC_NSEC_PER_MSEC)
/* What a CPU keeps of a portion when nothing of the group runs there any more. */
#define PC_PORTION_KEPT_NS	(200 * PC_NSEC_PER_USEC)
/* Longest period and largest quota that are reckoned with: more is garbage (max_cfs_quota_period, max_bw_runtime_us). */
#define PC_QUOTA_PERIOD_MAX_NS	(1 * PC_NSEC_PER_SEC)
#define PC_QUOTA_MAX_NS		(1ull << 44)

/* What tasks may have too much until a tick ends their turn, they may have later as well: periods shorter than this lose nothing. */
#define PC_QUOTA_WINDOW_NS	(4 * PC_NSEC_PER_MSEC)

/* Longest running time charged at once: more is a clock that jumped, or time that the host itself did not have. */
#define PC_QUOTA_PAID_MAX_NS	(100 * PC_NSEC_PER_MSEC)
/* Deepest debt, in quotas and in time. */
#define PC_QUOTA_DEBT_QUOTAS	16
#define PC_QUOTA_DEBT_MIN_NS	(50 * PC_NSEC_PER_MSEC)

/* Whether that is a limit. */
PC_INLINE int pc_quota_is_set(u64 quota_ns, u64 period_ns)
{
	return quota_ns < PC_QUOTA_MAX_NS && period_ns > 0 && period_ns <= PC_QUOTA_PERIOD_MAX_NS;
}

PC_INLINE u64 pc_quota_portion_ns(const struct pc_quota *q)
{
	return pc_max_u64(PC_PORTION_MIN_NS, pc_min_u64(PC_PORTION_NS, q->quota_ns / 8));
}

/* The pool at `now`: each period that has begun since adds a quota, up to what a burst may keep. Any CPU, many at once. */
PC_INLINE void pc_quota_refill(struct pc_quota *q, u64 now)
{
	u64 old = *(volatile u64 *)&q->period_at_ns;
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
	/* What is owed beyond the deepest debt is forgotten: it says more about the host than about the group. */
	had = *(volatile s64 *)&q->left_ns;
	least = -(s64)pc_max_u64(PC_QUOTA_DEBT_QUOTAS * q->quota_ns, PC_QUOTA_DEBT_MIN_NS);
	left = had < least ? least : pc_min_s64(had, (s64)most);
	left += (s64)pc_min_u64(pc_min_u64(periods, PC_REFILL_MAX_PERIODS) * q->quota_ns, most - (u64)left);
	__sync_fetch_and_add(&q->left_ns, left - had);
}

/* As much of `wanted` as the pool has; all of it where the quota was taken away. */
PC_INLINE u64 pc_quota_take(struct pc_quota *q, u64 wanted)
{
	s64 had;
	u64 got;

	if (!*(volatile u64 *)&q->quota_ns)
		return wanted;
	had = __sync_fetch_and_add(&q->left_ns, -(s64)wanted);
	got = had <= 0 ? 0 : pc_min_u64((u64)had, wanted);
	if (got < wanted)
		__sync_fetch_and_add(&q->left_ns, (s64)(wanted - got));
	return got;
}

/* Time that was taken and not used, or a debt. */
PC_INLINE void pc_quota_give(struct pc_quota *q, s64 ns)
{
	__sync_fetch_and_add(&q->left_ns, ns);
}

PC_INLINE int pc_quota_is_spent(const struct pc_quota *q)
{
	return *(volatile s64 *)&q->left_ns <= 0;
}

/* Tasks that may begin to use up what a pool has: one for each portion; any number where the quota was taken away. */
PC_INLINE u64 pc_quota_portions(const struct pc_quota *q)
{
	s64 left = *(volatile s64 *)&q->left_ns;

	if (!*(volatile u64 *)&q->quota_ns)
		return PC_QUOTA_NONE;
	return left <= 0 ? 0 : 1 + (u64)left / pc_quota_portion_ns(q);
}

/* When a pool that is spent has something again: after as many periods as its debt takes. */
PC_INLINE u64 pc_quota_again_ns(const struct pc_quota *q)
{
	s64 left = pc_bucket_clamp(*(volatile s64 *)&q->left_ns, q->quota_ns);
	u64 periods = left > 0 || !q->quota_ns ? 1 : (u64)-left / q->quota_ns + 1;

	return q->period_at_ns + periods * q->period_ns;
}

#endif
