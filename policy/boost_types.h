/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boost policy: configuration, state, observation and decision. Fixed-width,
 * no pointers, so that BPF maps, the daemon and tests share the same bytes.
 * Units are in the names; times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef PARACORD_POLICY_BOOST_TYPES_H
#define PARACORD_POLICY_BOOST_TYPES_H

#include "types.h"		/* u8..u64 for BPF, native and bindgen builds */

/* Reasons are PARACORD_REASON_*: WAKE, IRQ, RT, CRITICAL. */
#define PC_REASONS 4

/* Modes. */
#define PC_MODE_OFF	0	/* nothing is decided */
#define PC_MODE_OBSERVE	1	/* decided and counted, not carried out */
#define PC_MODE_ON	2

/* Periods that can be configured; the host's tick (1 to 10 ms) is the resolution. */
#define PC_PERIOD_MIN_MS	10
#define PC_PERIOD_MAX_MS	10000

/* Per reason: on/off, longest continuous grant, budget per period of one vCPU. */
struct pc_reason_config {
	u32 enabled;
	u32 reserved;
	u64 grant_max_ns;	/* running time; 0: no grant */
	u64 budget_ns;		/* running time per period */
};

/*
 * One per VM. Written by the daemon, read by BPF; each field valid alone.
 * period_ns and cpu_kept_ns describe the host: the daemon writes the same value
 * into every VM's configuration, since a CPU's bucket is shared by all of them.
 */
struct pc_boost_config {
	u32 mode;			/* PC_MODE_* */
	u32 penalty_max_periods;	/* upper bound of the growing throttle */
	u32 hints_at_exit;		/* 1: a hint also boosts at a VM exit, not only at preemption */
	u32 reserved;
	u64 period_ns;
	u64 vcpu_budget_ns;		/* all reasons together, per period */
	u64 vm_budget_ns;		/* all vCPUs together, or all other threads of the VMM; per period */
	u64 cpu_kept_ns;		/* per period and host CPU: kept for unboosted work */
	u64 actuation_min_ns;		/* from one boost to the next, on average: pc_boost_may_begin() */
	struct pc_reason_config reason[PC_REASONS];
};

/* A token bucket that refills at period starts and may go into debt. */
struct pc_bucket {
	u64 period_start_ns;
	s64 left_ns;			/* negative: debt, carried into the next period */
};

/* One per vCPU. Only policy functions write it. */
struct pc_boost_state {
	u8  boosted;			/* decision in force: 0/1 */
	u8  reasons;			/* mask of why */
	u8  throttled;			/* 0/1 */
	u8  throttle_cause;		/* PC_THROTTLE_* */
	u32 strikes;			/* exhaustions in a row */
	u8  charging;			/* 0/1: it runs, last_charge_ns is valid */
	u8  irq_wanted;			/* 0/1: last_irq_ns is valid */
	u8  has_boosted;		/* 0/1: boosts_due_ns is valid */
	u8  reserved[5];
	u64 throttled_until_ns;
	u64 grant_used_ns[PC_REASONS];	/* running time of the current grant */
	u64 last_charge_ns;		/* start of the uncharged running time */
	u64 quiet_ns;			/* that much of it cannot end the boost: pc_boost_is_quiet() */
	u64 last_irq_ns;		/* last interrupt or kick wanted for the vCPU */
	u64 boosts_due_ns;		/* when the boosts so far are paid for */
	struct pc_bucket vcpu;
	struct pc_bucket reason[PC_REASONS];
	u64 scratch;		/* pc_forget() */
};

/* Boosts of a vCPU that may follow each other at once. */
#define PC_BOOSTS_AT_ONCE	8

#define PC_THROTTLE_NONE	0
#define PC_THROTTLE_REASON	1	/* a reason's budget */
#define PC_THROTTLE_VCPU	2
#define PC_THROTTLE_VM		3
#define PC_THROTTLE_CPU		4	/* the host CPU's kept share; no strike */

/* Events: a mask, several may be observed at once. */
#define PC_EV_EXIT	(1u << 0)	/* VM exit of the running vCPU */
#define PC_EV_PREEMPT	(1u << 1)	/* switched out while runnable */
#define PC_EV_SLEEP	(1u << 2)	/* switched out to sleep (halt) */
#define PC_EV_RUN	(1u << 3)	/* switched in */
#define PC_EV_WAKEUP	(1u << 4)	/* made runnable, or about to be */
#define PC_EV_IRQ	(1u << 5)	/* an interrupt or kick is wanted for the vCPU */
#define PC_EV_TICK	(1u << 6)	/* housekeeping while boosted */
#define PC_EV_CONFIG	(1u << 7)	/* configuration changed, or daemon asks for unboost */

/* What the guest says: a checked copy. valid = 0 for an unmodified guest. */
struct pc_guest_view {
	u8 valid;
	u8 rt;			/* RT or deadline task runs */
	u8 irq;			/* hardirq, softirq or NMI */
	u8 critical;		/* preemption off */
	u8 halting;
	u8 reserved[3];
};

struct pc_boost_obs {
	u32 events;		/* PC_EV_* */
	u32 running;		/* the vCPU thread is on a CPU now */
	u32 alone;		/* it waits, and no normal task is before it or may come before it */
	u32 refused;		/* 0/1: it is not boosted, whatever holds: a boost would get past a limit of the host's */
	struct pc_guest_view guest;
};

/* How far a boost goes: pc_boost_level(). */
#define PC_LEVEL_NONE	0
#define PC_LEVEL_IRQ	1	/* before normal tasks, behind other boosts */
#define PC_LEVEL_FULL	2

/* Decisions. */
#define PC_KEEP		0
#define PC_BOOST	1
#define PC_UNBOOST	2

struct pc_boost_decision {
	u8 action;		/* PC_KEEP, PC_BOOST, PC_UNBOOST */
	u8 reasons;		/* mask */
	u8 forced;		/* unboost by a budget or grant limit */
	u8 cause;		/* PC_THROTTLE_* when forced by a budget */
	u8 throttled;		/* a throttle begins with this decision */
	u8 suppressed;		/* a boost was wanted, the actuation rate limit held it back */
	u8 reserved[2];
	u64 charged_ns;		/* boosted running time charged by this step */
};

#endif
