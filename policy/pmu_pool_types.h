/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * State of a vCPU's pool of perf events (pmu_pool.h). A pool whose bytes are all 0 is empty, is in mode PC_PMU_KEYED, and never
 * closes idle events. The pool refers to a counter by 1 + the counter's index, so that 0 means none.
 */
#ifndef PARACORD_POLICY_PMU_POOL_TYPES_H
#define PARACORD_POLICY_PMU_POOL_TYPES_H

#include "boost_types.h"

#define PC_PMU_COUNTERS	16	/* number of counters per vCPU: perf in the guest may count this many events at the same time */
#define PC_PMU_EVENTS	32	/* largest number of host events per vCPU; each event has a bit in a mask and a file descriptor */

/* Idle events age in slices. This is the longest slice. A slice also ends when the vCPU thread is switched out and in again. */
#define PC_PMU_SLICE_NS	10000000

/* The attributes by which perf distinguishes events. */
struct pc_pmu_key {
	u64 config;		/* perf_event_attr.config */
	u32 type;		/* perf_event_attr.type */
	u32 flags;		/* PC_PMU_* */
};

#define PC_PMU_EXCLUDE_USER	(1u << 0)
#define PC_PMU_EXCLUDE_KERNEL	(1u << 1)
#define PC_PMU_EXCLUDE_HOST	(1u << 2)
#define PC_PMU_SAMPLES		(1u << 3)	/* the event has a period */

struct pc_pmu_event {
	struct pc_pmu_key key;
	u64 turn;		/* value of pc_pmu_pool.turn when a counter last took the event or gave it back */
	u32 idle_slices;	/* number of slices that have ended since a counter last held the event */
	u8 open;		/* 0/1 */
	u8 counter;		/* 1 + index of the counter that holds the event; 0: none */
	u8 had_by;		/* 1 + index of the counter that held the event last */
	u8 reserved;
};

/* Modes. PC_PMU_LAST and PC_PMU_RECREATE exist for comparison in measurements. */
#define PC_PMU_KEYED	0	/* a counter may reuse any event that has the requested key */
#define PC_PMU_LAST	1	/* a counter may reuse only its own last event, as in KVM */
#define PC_PMU_RECREATE	2	/* an event is closed when a counter gives it back */

/* Pool of one vCPU. It has one writer. */
struct pc_pmu_pool {
	u32 mode;		/* PC_PMU_KEYED, _LAST, _RECREATE */
	u32 release_slices;	/* an event is closed once it has been idle for more than this many slices; 0: never */
	u64 turn;
	struct pc_pmu_event event[PC_PMU_EVENTS];
};

/* Decisions. */
#define PC_PMU_NOTHING	0	/* the counter is refused, or there is nothing to do */
#define PC_PMU_USE	1	/* the event is open and paused: set its period and enable it */
#define PC_PMU_OPEN	2	/* the event's place in the pool is free: open an event there */
#define PC_PMU_REPLACE	3	/* close the event in this place, then open one there */
#define PC_PMU_PAUSE	4	/* disable the event; it stays open */
#define PC_PMU_CLOSE	5

/* Why a counter is refused. */
#define PC_PMU_NO_SUCH_COUNTER	1
#define PC_PMU_BUSY		2	/* the counter holds an event with another key: give it back first */
#define PC_PMU_NO_PLACE		3	/* every event of the pool is held by a counter */
#define PC_PMU_NO_BUDGET	4	/* the VM's budget is used up until the next budget period */

struct pc_pmu_decision {
	u8 action;
	u8 event;		/* index of the event */
	u8 cause;		/* if the counter is refused: the reason, PC_PMU_* above */
	u8 reserved;
};

/* Limits of the work that a VM may cause. */
struct pc_pmu_quota {
	u64 calls_ns_per_sec;	/* time in system calls, per second */
	u32 opens_per_sec;
	u32 reserved;
};

/* Budget of one VM, shared by its vCPUs. */
struct pc_pmu_budget {
	struct pc_bucket calls;
	struct pc_bucket opens;	/* in ns: each opening costs 1 s / opens_per_sec */
};

/* What a VM may still do with its budget. */
#define PC_PMU_ALLOW_NOTHING	0
#define PC_PMU_ALLOW_REUSE	1
#define PC_PMU_ALLOW_OPEN	2

#endif
