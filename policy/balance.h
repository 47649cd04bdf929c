/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between CPUs: which of them takes over a task that waits elsewhere.
 *
 * Fair queueing over several CPUs is a matter of weights: where 1000 waits and 2000, no order within the two queues makes
 * their tasks equal. A CPU's pace is the virtual time that it has made lately: the time in which it ran ordinary tasks, times
 * 1024 over the sum of the weights that share it, forgotten with a time constant. The difference of two paces is what
 * the tasks of the slower CPU have missed. Once that is worth a few slices, the faster CPU takes one of them over, and the
 * account is settled: both paces are equal then. So three loops on two CPUs take turns, and a task that weighs as much as
 * a CPU can do has one for itself.
 *
 * Forgotten, because a difference that no move can settle says nothing about later: a task may weigh more than its share of
 * all CPUs, or be bound to one.
 */
#ifndef PARACORD_POLICY_BALANCE_H
#define PARACORD_POLICY_BALANCE_H

#include "fair.h"

/* Time constant of a pace, 268 ms: a difference of rates of 2 % comes to more than PC_BALANCE_SLICES on a host of few CPUs. */
#define PC_PACE_SHIFT		28
/* Longest time counted at once. */
#define PC_PACE_MAX_NS		(1ull << PC_PACE_SHIFT)
/* Slices of the slower CPU that its tasks have missed before one of them is taken over. */
#define PC_BALANCE_SLICES	3

/*
 * A CPU's pace, ns for nice 0, after another `ns` in which it ran ordinary tasks that weigh `weight` 64ths together; 0: in
 * which it ran none of them.
 */
PC_INLINE u64 pc_pace(u64 pace, u64 ns, u64 weight)
{
	u64 counted = pc_min_u64(ns, PC_PACE_MAX_NS);
	/* At most 2^44 for a task of a 64th, times 2^28. */
	u64 forgotten = (pace >> 10) * counted >> (PC_PACE_SHIFT - 10);

	if (weight)
		pace += counted * PC_FINE_NICE_0 / weight;
	return pace - pc_min_u64(forgotten, pace);
}

/*
 * Whether a CPU takes over a task that waits elsewhere. `ahead`: its pace less the other's. `with`: weight on it, the
 * task's included; `there`: weight on the other CPU as it is, the task's included. The difference that it takes grows by as
 * much again for each eighth by which this CPU would be the slower one afterwards. By more than a half it never is: many
 * CPUs see the same slow one, and would leave it with nothing, and themselves with far too much.
 */
PC_INLINE int pc_balance_takes(s64 ahead, u64 with, u64 there, u32 slice_ns)
{
	u64 step;

	if (ahead <= 0 || !there || with > there + there / 2)
		return 0;
	step = (u64)PC_BALANCE_SLICES * slice_ns * PC_FINE_NICE_0 / there;
	if (with > there)
		step += step * ((with - there) * 8 / there);
	return (u64)ahead > step;
}

#endif
