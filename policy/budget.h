/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Token buckets of running time. At the start of each period, a bucket is refilled by
 * its budget, but never above its budget. A bucket may go into debt. The policy
 * charges boosted time at the next event, at worst one host tick late, so a vCPU may
 * overrun its budget. The debt carries the overrun into the following periods. So in
 * any n periods a bucket pays at most (n + 1) * budget plus ONE overrun, no matter how
 * late each overrun is noticed.
 *
 * The buckets of a vCPU have one writer at a time, because the policy steps of a vCPU (`pc_boost_step()`) are serialised. The
 * buckets of a VM and of a CPU are shared between CPUs. The _shared functions use one atomic add and let exactly one CPU refill a
 * bucket in each period. One race is tolerated: CPU A reads the bucket to compute a refill, and CPU B charges the bucket before CPU
 * A adds the refill. The refill is then too small by the amount of this charge. The guest loses this time; the host never loses
 * any.
 */
#ifndef PARACORD_POLICY_BUDGET_H
#define PARACORD_POLICY_BUDGET_H

#include "boost_types.h"

#define PC_INLINE static inline __attribute__((always_inline, unused))

/*
 * For BPF, makes a function global. This pays off if the function has a loop and many callers. The verifier checks a global
 * function once, for any arguments. It checks a static function again for each state of each caller. A global function must check
 * its pointer arguments for NULL.
 */
#ifdef __bpf__
#define PC_VERIFIED_ALONE __attribute__((noinline))
#else
#define PC_VERIFIED_ALONE PC_INLINE
#endif

#define PC_NSEC_PER_USEC	1000ULL
#define PC_NSEC_PER_MSEC	1000000ULL
#define PC_NSEC_PER_SEC		1000000000ULL

/* Range into which the configured period is clamped. */
#define PC_PERIOD_MIN_NS	(PC_PERIOD_MIN_MS * PC_NSEC_PER_MSEC)
#define PC_PERIOD_MAX_NS	(PC_PERIOD_MAX_MS * PC_NSEC_PER_MSEC)
/* Largest budget. The budget of a VM may exceed the period: it is at most 4096 CPUs times the longest period. */
#define PC_BUDGET_MAX_NS	(4096 * PC_PERIOD_MAX_NS)
/*
 * Longest running time that one step charges, and deepest debt. A tick ends a boost within milliseconds, so a longer time means a
 * corrupt time stamp.
 */
#define PC_DEBT_MAX_NS		(10 * PC_NSEC_PER_SEC)
/* Largest number of periods that one refill covers: more than any debt needs. This limit keeps periods * budget within 63 bits. */
#define PC_REFILL_MAX_PERIODS	65536ULL

PC_INLINE u64 pc_min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

PC_INLINE s64 pc_min_s64(s64 a, s64 b)
{
	return a < b ? a : b;
}

PC_INLINE u64 pc_max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/*
 * Time from since_ns to now_ns, modulo 2^64, because time stamps may wrap. A
 * negative difference counts as 0, because the clocks of CPUs may differ a
 * little.
 */
PC_INLINE u64 pc_elapsed_ns(u64 now_ns, u64 since_ns)
{
	s64 d = (s64)(now_ns - since_ns);

	return d > 0 ? (u64)d : 0;
}

PC_INLINE u64 pc_period_ns(const struct pc_boost_config *cfg)
{
	return pc_max_u64(PC_PERIOD_MIN_NS, pc_min_u64(cfg->period_ns, PC_PERIOD_MAX_NS));
}

/* Clamps left_ns into [-PC_DEBT_MAX_NS, budget_ns]: the value may be garbage, or date from a time when the budget was larger. */
PC_INLINE s64 pc_bucket_clamp(s64 left_ns, u64 budget_ns)
{
	if (left_ns > (s64)budget_ns)
		return (s64)budget_ns;
	if (left_ns < -(s64)PC_DEBT_MAX_NS)
		return -(s64)PC_DEBT_MAX_NS;
	return left_ns;
}

/*
 * Start of the period that contains now_ns. If start_ns is more than one period in the future, it is corrupt; a new period then
 * starts at now_ns.
 */
PC_INLINE u64 pc_period_start(u64 start_ns, u64 period_ns, u64 now_ns)
{
	u64 past = pc_elapsed_ns(now_ns, start_ns);

	if (pc_elapsed_ns(start_ns, now_ns) > period_ns)
		return now_ns;
	if (past < period_ns)	/* the usual case needs no division */
		return start_ns;
	return start_ns + past / period_ns * period_ns;
}

/* Runtime that a refill adds to a bucket with left_ns, if the last refill was `periods` periods ago. */
PC_INLINE u64 pc_refill_ns(s64 left_ns, u64 periods, u64 budget_ns)
{
	u64 room = (u64)((s64)budget_ns - left_ns);

	return pc_min_u64(pc_min_u64(periods, PC_REFILL_MAX_PERIODS) * budget_ns, room);
}

/* Charges a bucket that has one writer. */
PC_INLINE void pc_bucket_charge(struct pc_bucket *b, u64 used_ns)
{
	s64 left = pc_bucket_clamp(b->left_ns, PC_BUDGET_MAX_NS);

	b->left_ns = pc_bucket_clamp(left - (s64)used_ns, PC_BUDGET_MAX_NS);
}

PC_INLINE void pc_bucket_refill(struct pc_bucket *b, u64 budget_ns, u64 period_ns, u64 now_ns)
{
	u64 start = pc_period_start(b->period_start_ns, period_ns, now_ns);
	s64 left = pc_bucket_clamp(b->left_ns, budget_ns);

	if (start != b->period_start_ns)
		left += (s64)pc_refill_ns(left, pc_elapsed_ns(start, b->period_start_ns) / period_ns,
					  budget_ns);
	b->left_ns = left;
	b->period_start_ns = start;
}

/* Charges a bucket that has many writers: see the top of this file. */
PC_INLINE void pc_bucket_charge_shared(struct pc_bucket *b, u64 used_ns)
{
	__sync_fetch_and_add(&b->left_ns, -(s64)used_ns);
}

PC_INLINE void pc_bucket_refill_shared(struct pc_bucket *b, u64 budget_ns, u64 period_ns, u64 now_ns)
{
	u64 old = READ_ONCE(b->period_start_ns);
	u64 start = pc_period_start(old, period_ns, now_ns);
	s64 left = READ_ONCE(b->left_ns);
	s64 sane = pc_bucket_clamp(left, budget_ns);

	/*
	 * `sane` and `left` differ only if the budget has shrunk, if the bucket held garbage, or if the debt exceeds its limit.
	 * The store may lose a concurrent charge. This is tolerated, because these cases are rare.
	 */
	if (sane != left)
		WRITE_ONCE(b->left_ns, sane);
	if (start == old || __sync_val_compare_and_swap(&b->period_start_ns, old, start) != old)
		return;
	__sync_fetch_and_add(&b->left_ns,
			     (s64)pc_refill_ns(sane, pc_elapsed_ns(start, old) / period_ns, budget_ns));
}

#endif
