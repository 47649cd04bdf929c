/* SPDX-License-Identifier: GPL-2.0-only */
/* State of the performance policy (perf.h). Utilisation and requests: 0..1024, the scale of the largest CPU. */
#ifndef PARACORD_POLICY_PERF_TYPES_H
#define PARACORD_POLICY_PERF_TYPES_H

#include "pelt_types.h"

/* What a task may ask for: its clamps. */
struct pc_clamp {
	u32 min;
	u32 max;
};

/* One per task. */
struct pc_perf_task {
	struct pc_pelt demand;		/* time demand, unclamped */
	u32 contribution;		/* its part of its CPU's sum, runnable or decaying */
	u32 carry_level;		/* request that a burst left behind */
	u64 slept_ns;			/* since then, with `contribution`; 0: runnable */
	u64 window_start_ns;		/* of the carry's busy window */
	u64 window_ran_ns;		/* running time in it */
	u8 carry_armed;			/* 0/1: the next long sleep's end uses carry_level */
	u8 carry_in_force;		/* 0/1 */
	u8 carry_due;			/* 0/1: it woke from a long sleep after a burst */
	u8 carry_wasted;		/* 0/1: when that was so last, no burst came */
	u8 confirmed;			/* 0/1: it has filled a window since it woke */
	u8 asked;			/* 0/1: a vCPU; clamp.min is what its guest's governor asks for */
	u8 reserved[2];
};

/* One per CPU. */
struct pc_perf_cpu {
	u32 runnable;			/* sum of the contributions of runnable tasks */
	u32 peak;			/* largest request in the window that began at window_ns */
	u64 window_ns;
	u32 peak_before;		/* of the window before it */
	u32 reserved;
	u64 sleeping;			/* sum of those that sleep, times 1024, as of sleeping_ns */
	u64 sleeping_ns;
};

#endif
