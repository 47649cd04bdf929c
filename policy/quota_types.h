/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PARACORD_POLICY_QUOTA_TYPES_H
#define PARACORD_POLICY_QUOTA_TYPES_H

#include "types.h"

/* cpu.max of a control group (policy/quota.h). */
struct pc_quota {
	u64 quota_ns;		/* 0: none */
	u64 period_ns;
	u64 burst_ns;
	s64 left_ns;		/* the pool; below 0: debt */
	u64 period_at_ns;	/* begin of the present period, CLOCK_MONOTONIC */
	u32 above;		/* index of the next group above that has a quota; 0: none */
	u32 generation;		/* of quotas that this record has had: a portion of an earlier one is worth nothing */
	s32 parked;		/* tasks that wait for it */
	u32 reserved;
	u64 look_ns;		/* when the scheduler looks at them again; a cache line */
};

/* What a control group with a quota leaves for boosts that make threads real-time (policy/reserve.h). */
struct pc_reserve {
	s64 left_ns;		/* below 0: more was used than the quota allows */
	u32 above;		/* index of the next group above that has a quota; 0: none */
	u32 reserved;
};

#endif
