/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PARACORD_POLICY_QUOTA_TYPES_H
#define PARACORD_POLICY_QUOTA_TYPES_H

#include "types.h"

/* cpu.max of a control group (policy/quota.h). */
struct pc_quota {
	u64 quota_ns;		/* 0: no quota */
	u64 period_ns;
	u64 burst_ns;
	s64 left_ns;		/* runtime in the pool; below 0: debt */
	u64 period_at_ns;	/* start of the current period, CLOCK_MONOTONIC */
	u32 above;		/* index of the nearest ancestor group with a quota; 0: none */
	u32 generation;		/* incremented for each group that uses this record; portions of earlier groups are void */
	s32 parked;		/* number of tasks that wait for runtime */
	u32 reserved;
	u64 look_ns;		/* when the scheduler next checks the parked tasks (the structure fills a cache line) */
};

/* Part of a control group's quota that is left for boosts by actuator rt, which makes threads real-time (policy/reserve.h). */
struct pc_reserve {
	s64 left_ns;		/* below 0: the group has used more than its quota allows */
	u32 above;		/* index of the nearest ancestor group with a quota; 0: none */
	u32 reserved;
};

#endif
