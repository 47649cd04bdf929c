/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of a vCPU's pool of perf events (pmu_pool.h). All zeroes is an empty pool, keyed, without lazy release.
 * Events and counters in it are named by 1 + their index, so that 0 is none.
 */
#ifndef PARACORD_POLICY_PMU_POOL_TYPES_H
#define PARACORD_POLICY_PMU_POOL_TYPES_H

#include "boost_types.h"

#define PC_PMU_COUNTERS	16	/* of a guest's vCPU: what its perf may have on at once */
#define PC_PMU_EVENTS	32	/* of the host: bits of a mask, and file descriptors per vCPU */

/* A slice of a thread that is never switched out. */
#define PC_PMU_SLICE_NS	10000000

/* What makes an event another one for perf. */
struct pc_pmu_key {
	u64 config;		/* perf_event_attr.config */
	u32 type;		/* perf_event_attr.type */
	u32 flags;		/* PC_PMU_* */
};

#define PC_PMU_EXCLUDE_USER	(1u << 0)
#define PC_PMU_EXCLUDE_KERNEL	(1u << 1)
#define PC_PMU_EXCLUDE_HOST	(1u << 2)
#define PC_PMU_SAMPLES		(1u << 3)	/* it has a period */

struct pc_pmu_event {
	struct pc_pmu_key key;
	u64 turn;		/* pc_pmu_pool.turn when it was taken or given back last */
	u32 idle_slices;	/* slices that ended since a counter had it */
	u8 open;		/* 0/1 */
	u8 counter;		/* that has it */
	u8 had_by;		/* the counter that had it last */
	u8 reserved;
};

/* Modes. The other two are there to be measured against. */
#define PC_PMU_KEYED	0	/* any counter uses any event with its key again */
#define PC_PMU_LAST	1	/* a counter uses its own last event again (seed 001) */
#define PC_PMU_RECREATE	2	/* an event is closed when it is given back */

/* One per vCPU; one writer. */
struct pc_pmu_pool {
	u32 mode;		/* PC_PMU_KEYED, _LAST, _RECREATE */
	u32 release_slices;	/* an event that was idle for more slices is closed; 0: never */
	u64 turn;
	struct pc_pmu_event event[PC_PMU_EVENTS];
};

/* Decisions. */
#define PC_PMU_NOTHING	0	/* refused, or nothing to do */
#define PC_PMU_USE	1	/* the event is open and paused: set its period, go on */
#define PC_PMU_OPEN	2	/* its place is free: open one there */
#define PC_PMU_REPLACE	3	/* close what is there, then open */
#define PC_PMU_PAUSE	4	/* it stays */
#define PC_PMU_CLOSE	5

/* Why a counter is refused. */
#define PC_PMU_NO_SUCH_COUNTER	1
#define PC_PMU_BUSY		2	/* it has an event with another key: give that back first */
#define PC_PMU_NO_PLACE		3	/* counters have all events */
#define PC_PMU_NO_BUDGET	4	/* until the next period */

struct pc_pmu_decision {
	u8 action;
	u8 event;		/* its index */
	u8 cause;		/* when refused */
	u8 reserved;
};

/* What a VM may cause. */
struct pc_pmu_quota {
	u64 calls_ns_per_sec;	/* time in system calls */
	u32 opens_per_sec;
	u32 reserved;
};

/* One per VM, shared by its vCPUs. */
struct pc_pmu_budget {
	struct pc_bucket calls;
	struct pc_bucket opens;	/* in time: one costs its share of a second */
};

/* What a budget has left for. */
#define PC_PMU_ALLOW_NOTHING	0
#define PC_PMU_ALLOW_REUSE	1
#define PC_PMU_ALLOW_OPEN	2

#endif
