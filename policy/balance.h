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

#define PC_NO_HOME		(~0u)
/* How long a task waits before an idle CPU of another node takes it: to wait for its own is dearer from here on. */
#define PC_CROSS_WAIT_NS	(1 * PC_NSEC_PER_MSEC)
/* The same of a vCPU at home, whose memory all lies there. */
#define PC_CROSS_HOME_NS	(4 * PC_NSEC_PER_MSEC)
/* That many times the difference that is settled between CPUs of a cache is settled between those of two. */
#define PC_CROSS_CACHE		4
/* One in so many looks of a busy CPU goes beyond its cache, beyond its node. */
#define PC_LOOKS_IN_NODE	4
#define PC_LOOKS_EVERYWHERE	8
/* A node's pace follows its CPUs' by that much, a 32nd, at each look beyond the node. */
#define PC_NODE_PACE_SHIFT	5
/* No CPU counts for more than twice its node's pace: one loop of least weight would outweigh all others. */
#define PC_NODE_PACE_LEAST	(1ull << 20)

PC_INLINE u64 pc_node_pace(u64 node, u64 cpu)
{
	u64 counted = pc_min_u64(cpu, 2 * node + PC_NODE_PACE_LEAST);

	return node + ((s64)(counted - node) >> PC_NODE_PACE_SHIFT);
}

/* Nodes whose paces differ by less, of 1024, are equal: 3 %. */
#define PC_CROSS_LEAST		32
/* With that difference busy CPUs of the faster node take a task from the other one so often; with twice that, four times as often. */
#define PC_CROSS_EVERY_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_CROSS_NEVER		(~0ull)

/* How often the busy CPUs of a node together take a task from another one. `ours`, `theirs`: the paces of the two nodes. */
PC_INLINE u64 pc_cross_every_ns(u64 ours, u64 theirs)
{
	/* Paces are below 2^52. */
	u64 ahead = ours > theirs ? (ours - theirs) * 1024 / ours : 0;

	if (ahead < PC_CROSS_LEAST)
		return PC_CROSS_NEVER;
	return PC_CROSS_EVERY_NS * (PC_CROSS_LEAST * PC_CROSS_LEAST) / (ahead * ahead);
}

/*
 * How long a task waits before an idle CPU takes it. `home`: the node where its VM is at home, PC_NO_HOME if it has none or is
 * no vCPU. `from`, `to`: nodes of the two CPUs; 0: any.
 */
PC_INLINE u64 pc_cross_wait_ns(u32 home, u32 from, u32 to)
{
	if (from == to || home == to)
		return 0;
	return home == from ? PC_CROSS_HOME_NS : PC_CROSS_WAIT_NS;
}

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
