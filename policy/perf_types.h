/* SPDX-License-Identifier: GPL-2.0-only */
/* State of the performance policy (perf.h). Utilisation and requests are in 0..1024; 1024 is the capacity of the largest CPU. */
#ifndef PARACORD_POLICY_PERF_TYPES_H
#define PARACORD_POLICY_PERF_TYPES_H

#include "pelt_types.h"

/* The clamps of a task: the range of its request. */
struct pc_clamp {
	u32 min;
	u32 max;
};

/* State of one task. */
struct pc_perf_task {
	struct pc_pelt demand;		/* demand for CPU time, unclamped */
	u32 contribution;		/* what the task adds to its CPU's `runnable`, or, while it sleeps, to `sleeping` */
	u32 carry_level;		/* request at the end of the last burst */
	u64 slept_ns;			/* start of the sleep, when `contribution` was last set; 0: the task is runnable */
	u64 window_start_ns;		/* start of the window in which the carry is checked */
	u64 window_ran_ns;		/* the task's running time in this window */
	u8 carry_armed;			/* 0/1: the wakeup from the next long sleep may use carry_level */
	u8 carry_in_force;		/* 0/1: carry_level is a lower bound of the request */
	u8 carry_due;			/* 0/1: the task woke from a long sleep after a burst */
	u8 carry_wasted;		/* 0/1: no burst followed the last wakeup that set carry_due */
	u8 confirmed;			/* 0/1: since the wakeup, at least one window was busy: pc_carry_window() */
	u8 asked;			/* 0/1: the task is a vCPU, and clamp.min is the request of its guest's governor */
	u8 reserved[2];
};

/* State of one CPU. */
struct pc_perf_cpu {
	u32 runnable;			/* sum of the contributions of runnable tasks */
	u32 peak;			/* largest request in the window that began at window_ns */
	u64 window_ns;
	u32 peak_before;		/* largest request in the previous window */
	u32 reserved;
	u64 sleeping;			/* sum of the contributions of sleeping tasks, times 1024, decayed up to sleeping_ns */
	u64 sleeping_ns;
};

#endif
