/* SPDX-License-Identifier: GPL-2.0-only */
/* State of the performance policy (perf.h). Utilisation and requests are 0..1024, on the scale of the largest CPU. */
#ifndef PARACORD_POLICY_PERF_TYPES_H
#define PARACORD_POLICY_PERF_TYPES_H

#include "pelt_types.h"

/* The clamps of a task: the range of its request. */
struct pc_clamp {
	u32 min;
	u32 max;
};

/* One per task. */
struct pc_perf_task {
	struct pc_pelt demand;		/* demand for CPU time, unclamped */
	u32 contribution;		/* the task's part of its CPU's sum, runnable or decaying */
	u32 carry_level;		/* request at the end of the last burst */
	u64 slept_ns;			/* start of the sleep, with `contribution` at that time; 0: runnable */
	u64 window_start_ns;		/* start of the window in which the carry is checked */
	u64 window_ran_ns;		/* running time in this window */
	u8 carry_armed;			/* 0/1: the wakeup from the next long sleep uses carry_level */
	u8 carry_in_force;		/* 0/1: carry_level is a lower bound of the request */
	u8 carry_due;			/* 0/1: the task woke from a long sleep after a burst */
	u8 carry_wasted;		/* 0/1: after the last such wakeup, no burst came */
	u8 confirmed;			/* 0/1: a window since the wakeup was busy enough */
	u8 asked;			/* 0/1: a vCPU; clamp.min is the request of its guest's governor */
	u8 reserved[2];
};

/* One per CPU. */
struct pc_perf_cpu {
	u32 runnable;			/* sum of the contributions of runnable tasks */
	u32 peak;			/* largest request in the window that began at window_ns */
	u64 window_ns;
	u32 peak_before;		/* largest request in the window before */
	u32 reserved;
	u64 sleeping;			/* sum of the parts of sleeping tasks, times 1024, as of sleeping_ns */
	u64 sleeping_ns;
};

#endif
