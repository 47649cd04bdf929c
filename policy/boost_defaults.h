/* SPDX-License-Identifier: GPL-2.0-only */
/* The default boost configuration. The numbers are defined only here. docs/policy.md gives the reason for each of them. */
#ifndef PARACORD_POLICY_BOOST_DEFAULTS_H
#define PARACORD_POLICY_BOOST_DEFAULTS_H

#include "budget.h"
#include "../abi/paracord_abi.h"

PC_INLINE struct pc_boost_config pc_boost_defaults(void)
{
	struct pc_boost_config cfg = {
		.mode = PC_MODE_ON,
		.penalty_max_periods = 64,
		.period_ns = 100 * PC_NSEC_PER_MSEC,
		.vcpu_budget_ns = 75 * PC_NSEC_PER_MSEC,
		.vm_budget_ns = 300 * PC_NSEC_PER_MSEC,
		.cpu_kept_ns = 25 * PC_NSEC_PER_MSEC,
		.actuation_min_ns = 200 * PC_NSEC_PER_USEC,
		.reason = {
			[PARACORD_REASON_WAKE] = {
				.enabled = 1,
				.grant_max_ns = 1 * PC_NSEC_PER_MSEC,
				.budget_ns = 75 * PC_NSEC_PER_MSEC,
			},
			[PARACORD_REASON_IRQ] = {
				.enabled = 1,
				.grant_max_ns = 500 * PC_NSEC_PER_USEC,
				.budget_ns = 10 * PC_NSEC_PER_MSEC,
			},
			[PARACORD_REASON_RT] = {
				.enabled = 1,
				.grant_max_ns = 50 * PC_NSEC_PER_MSEC,
				.budget_ns = 75 * PC_NSEC_PER_MSEC,
			},
			[PARACORD_REASON_CRITICAL] = {
				.enabled = 1,
				.grant_max_ns = 2 * PC_NSEC_PER_MSEC,
				.budget_ns = 10 * PC_NSEC_PER_MSEC,
			},
		},
	};

	return cfg;
}

/*
 * Defaults for the threads of a VMM that are not vCPUs. All such threads of a VM share one budget, which is smaller than the
 * budget of one vCPU.
 */
PC_INLINE struct pc_boost_config pc_boost_io_defaults(void)
{
	struct pc_boost_config cfg = pc_boost_defaults();

	cfg.vm_budget_ns = 20 * PC_NSEC_PER_MSEC;
	/*
	 * One thread can use up the shared budget. With a longer penalty, a thread that plays audio could get no boost for
	 * seconds because another thread reads from a disk.
	 */
	cfg.penalty_max_periods = 4;
	return cfg;
}

#endif
