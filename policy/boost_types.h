/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boost policy: configuration, state, observation and decision. The types have
 * fixed widths and no pointers, so their layout is the same in BPF maps, in the
 * daemon and in the tests. The name of a quantity ends in its unit. Times are
 * nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef PARACORD_POLICY_BOOST_TYPES_H
#define PARACORD_POLICY_BOOST_TYPES_H

#include "types.h"		/* u8..u64 for BPF, native and bindgen builds */
#include "../abi/paracord_abi.h"

/* The reasons are PARACORD_REASON_*. */
#define PC_REASONS PARACORD_REASONS

/* Modes. */
#define PC_MODE_OFF	0	/* no vCPU is boosted */
#define PC_MODE_OBSERVE	1	/* decisions are made and counted, but not carried out */
#define PC_MODE_ON	2

/* Range of the configurable period. The policy may charge boosted time up to one host tick (1 to 10 ms) late (see budget.h). */
#define PC_PERIOD_MIN_MS	10
#define PC_PERIOD_MAX_MS	10000
/* Upper limit of pc_boost_config.penalty_max_periods. Larger values count as this one. */
#define PC_PENALTY_MAX_PERIODS	65536

/* Configuration of one reason. */
struct pc_reason_config {
	u32 enabled;
	u32 reserved;
	u64 grant_max_ns;	/* longest running time of one grant; 0: no grant */
	u64 budget_ns;		/* boosted running time of one vCPU per period */
};

/*
 * Configuration of one VM. The daemon writes it and BPF reads it. Each field is
 * valid independently of the other fields. period_ns and cpu_kept_ns describe
 * the host. The daemon writes the same two values into the configuration of
 * every VM, because all VMs share the bucket of a CPU.
 */
struct pc_boost_config {
	u32 mode;			/* PC_MODE_* */
	u32 penalty_max_periods;	/* longest throttle, in periods; the length of a throttle grows with each strike */
	u32 hints_at_exit;		/* 1: a hint also boosts at a VM exit, not only at preemption */
	u32 reserved;
	u64 period_ns;
	u64 vcpu_budget_ns;		/* budget of one vCPU for all reasons together, per period */
	u64 vm_budget_ns;		/* per period: budget of all vCPUs; in pc_boost_io_defaults(): of all other VMM threads */
	u64 cpu_kept_ns;		/* time of each host CPU that is reserved for unboosted work, per period */
	u64 actuation_min_ns;		/* shortest average time between two boosts of a vCPU: pc_boost_may_begin() */
	struct pc_reason_config reason[PC_REASONS];
};

/* A token bucket that refills at the start of each period and may go into debt. */
struct pc_bucket {
	u64 period_start_ns;
	s64 left_ns;			/* negative: debt, which is carried into the next period */
};

/* State of one vCPU. Only policy functions write it. */
struct pc_boost_state {
	u8  boosted;			/* 0/1: the current decision */
	u8  reasons;			/* mask of the reasons for which the vCPU is boosted */
	u8  throttled;			/* 0/1 */
	u8  throttle_cause;		/* PC_THROTTLE_* */
	u32 strikes;			/* number of exhausted budgets that are not forgiven yet */
	u8  charging;			/* 0/1: the vCPU runs, so last_charge_ns is valid */
	u8  irq_wanted;			/* 0/1: last_irq_ns is valid */
	u8  has_boosted;		/* 0/1: boosts_due_ns is valid */
	u8  reserved[5];
	u64 throttled_until_ns;
	u64 grant_used_ns[PC_REASONS];	/* running time that the current grant has used */
	u64 last_charge_ns;		/* start of the running time that is not charged yet */
	u64 quiet_ns;			/* running time for which the boost is certain to last: pc_boost_is_quiet() */
	u64 last_irq_ns;		/* when an interrupt was last raised for the vCPU, or the vCPU was last kicked */
	u64 boosts_due_ns;		/* when the next boost is due at the average rate: pc_boost_may_begin() */
	struct pc_bucket vcpu;
	struct pc_bucket reason[PC_REASONS];
	u64 scratch;		/* memory for pc_forget() */
};

/* Burst of the rate limit: number of boosts of a vCPU that may follow one another without a delay. */
#define PC_BOOSTS_AT_ONCE	8

#define PC_THROTTLE_NONE	0
#define PC_THROTTLE_REASON	1	/* the budget of a reason */
#define PC_THROTTLE_VCPU	2
#define PC_THROTTLE_VM		3
#define PC_THROTTLE_CPU		4	/* the boost budget of the host CPU; adds no strike */

/* Events: a mask, because one observation may contain several events. */
#define PC_EV_EXIT	(1u << 0)	/* VM exit of the running vCPU */
#define PC_EV_PREEMPT	(1u << 1)	/* switched out while runnable */
#define PC_EV_SLEEP	(1u << 2)	/* switched out to sleep (halt) */
#define PC_EV_RUN	(1u << 3)	/* switched in */
#define PC_EV_WAKEUP	(1u << 4)	/* made runnable, or about to be */
#define PC_EV_IRQ	(1u << 5)	/* an interrupt is raised for the vCPU, or the vCPU is kicked */
#define PC_EV_TICK	(1u << 6)	/* periodic check while the vCPU is boosted */
#define PC_EV_CONFIG	(1u << 7)	/* the configuration has changed, or the daemon requests an unboost */

/* Checked copy of the guest's hints. valid = 0: the guest is unmodified, or its hints were not read. */
struct pc_guest_view {
	u8 valid;
	u8 rt;			/* the guest runs a task of a class above SCHED_OTHER */
	u8 irq;			/* the guest is in a hardirq, softirq or NMI handler */
	u8 critical;		/* preemption is off in the guest */
	u8 halting;		/* the vCPU is idle and about to halt */
	u8 urgent;		/* the guest runs a normal task of nice -20 */
	u8 reserved[2];
};

struct pc_boost_obs {
	u32 events;		/* PC_EV_* */
	u32 running;		/* the vCPU thread is on a CPU now */
	u32 alone;		/* the thread waits, and no other normal task runs or waits on its CPU */
	u32 refused;		/* 0/1: the vCPU must not be boosted, because a boost would bypass a limit that the host has set */
	struct pc_guest_view guest;
};

/* Strength of a boost: pc_boost_level(). */
#define PC_LEVEL_NONE	0
#define PC_LEVEL_IRQ	1	/* ahead of normal tasks, behind full boosts */
#define PC_LEVEL_FULL	2

/* Decisions. */
#define PC_KEEP		0
#define PC_BOOST	1
#define PC_UNBOOST	2

struct pc_boost_decision {
	u8 action;		/* PC_KEEP, PC_BOOST, PC_UNBOOST */
	u8 reasons;		/* mask */
	u8 forced;		/* a budget or a grant limit forces the unboost */
	u8 cause;		/* PC_THROTTLE_* of the budget that forces the unboost */
	u8 throttled;		/* a throttle begins with this decision */
	u8 suppressed;		/* the actuation rate limit held back a boost */
	u8 reserved[2];
	u64 charged_ns;		/* boosted running time that this step has charged */
};

#endif
