/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between CPUs: which CPU pulls a task that waits on another CPU.
 *
 * Fairness across several CPUs depends on the total weight of the tasks on each CPU. For example, if the tasks on one CPU have a
 * total weight of 1000 and those on another CPU a total weight of 2000, the latter get only half as much CPU time per unit of
 * weight. The order in which each CPU runs its own tasks cannot change this.
 *
 * A CPU's pace is the virtual time by which the CPU has recently advanced: the time in which it ran ordinary tasks, times 1024,
 * divided by the sum of the weights of the tasks that share the CPU. The pace decays exponentially (PC_PACE_SHIFT). The
 * difference between the paces of two CPUs is the service that the tasks of the slower CPU have missed. Once this difference is
 * worth a few slices, the faster CPU pulls a task from the slower CPU, and sets its own pace to the pace of the slower CPU. So
 * three busy loops take turns on two CPUs, and a task whose weight is worth a whole CPU has a CPU to itself.
 *
 * The pace decays because a difference that no migration can remove says nothing about the future. Such a difference remains if a
 * task's weight is worth more than one CPU, or if a task's affinity binds it to one CPU.
 */
#ifndef PARACORD_POLICY_BALANCE_H
#define PARACORD_POLICY_BALANCE_H

#include "fair.h"

/*
 * Time constant of a pace: 2^28 ns = 268 ms. On a host with few CPUs, slices are short. If two CPUs of such a host advance at rates
 * that differ by 2 %, the difference grows over this time to more than PC_BALANCE_SLICES slices.
 */
#define PC_PACE_SHIFT		28
/* Longest time that one call of pc_pace() adds to a pace. */
#define PC_PACE_MAX_NS		(1ull << PC_PACE_SHIFT)
/* The faster CPU pulls a task once the slower CPU's tasks have missed this many slices. */
#define PC_BALANCE_SLICES	3

#define PC_NO_HOME		(~0u)
/*
 * How long a task waits before an idle CPU of another NUMA node pulls it. A longer wait for a CPU of its own node would cost the
 * task more than the migration.
 */
#define PC_CROSS_WAIT_NS	(1 * PC_NSEC_PER_MSEC)
/* How long a vCPU waits in its VM's home node, where the VM's memory is, before an idle CPU of another node pulls it. */
#define PC_CROSS_HOME_NS	(4 * PC_NSEC_PER_MSEC)
/*
 * Between CPUs that do not share a last-level cache, a pull needs this many times the pace difference that it needs between
 * CPUs that share one.
 */
#define PC_CROSS_CACHE		4
/*
 * A busy CPU usually searches for a task to pull only among the CPUs that share its last-level cache. Every PC_LOOKS_IN_NODE-th
 * search goes beyond this cache, and every PC_LOOKS_EVERYWHERE-th search goes beyond the node.
 */
#define PC_LOOKS_IN_NODE	4
#define PC_LOOKS_EVERYWHERE	8
/* Each time a CPU searches beyond its node, the node's pace moves towards the CPU's pace by 1/32 of the difference. */
#define PC_NODE_PACE_SHIFT	5
/*
 * When a CPU's pace is averaged into its node's pace, the CPU's pace counts as at most this value plus twice the node's pace.
 * Without this limit, one CPU with a single busy loop of the lowest weight would outweigh all other CPUs.
 */
#define PC_NODE_PACE_LEAST	(1ull << 20)

PC_INLINE u64 pc_node_pace(u64 node, u64 cpu)
{
	u64 counted = pc_min_u64(cpu, 2 * node + PC_NODE_PACE_LEAST);

	return node + ((s64)(counted - node) >> PC_NODE_PACE_SHIFT);
}

/* Two nodes count as equal if their paces differ by less than this many 1024ths of the faster pace (3 %). */
#define PC_CROSS_LEAST		32
/*
 * If the paces of two nodes differ by PC_CROSS_LEAST, the busy CPUs of the faster node together pull one task from the other node
 * in each interval of this length. At a larger difference, the interval is shorter: it is inversely proportional to the square of
 * the difference.
 */
#define PC_CROSS_EVERY_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_CROSS_NEVER		(~0ull)

/*
 * Interval at which the busy CPUs of a node together pull a task from another node. `ours`, `theirs`: the paces of the two
 * nodes. Return: ns, or PC_CROSS_NEVER.
 */
PC_INLINE u64 pc_cross_every_ns(u64 ours, u64 theirs)
{
	/* A pace is below 2^52, so the product fits into 64 bits. */
	u64 ahead = ours > theirs ? (ours - theirs) * 1024 / ours : 0;

	if (ahead < PC_CROSS_LEAST)
		return PC_CROSS_NEVER;
	return PC_CROSS_EVERY_NS * (PC_CROSS_LEAST * PC_CROSS_LEAST) / (ahead * ahead);
}

/*
 * How long a task waits before an idle CPU pulls it, in ns. `home`: 1 + home node of the task's VM; PC_NO_HOME if the VM has none
 * or if the task does not belong to a VM. `from`: 1 + node of the CPU on which the task waits. `to`: 1 + node of the idle CPU; 0:
 * any other node.
 */
PC_INLINE u64 pc_cross_wait_ns(u32 home, u32 from, u32 to)
{
	if (from == to || home == to)
		return 0;
	return home == from ? PC_CROSS_HOME_NS : PC_CROSS_WAIT_NS;
}

/*
 * A CPU's pace, in ns of virtual time at nice 0, after a further `ns` nanoseconds. `weight`: sum of the weights of the ordinary
 * tasks that shared the CPU during this time, in 64ths; 0: the CPU ran no ordinary task.
 */
PC_INLINE u64 pc_pace(u64 pace, u64 ns, u64 weight)
{
	u64 counted = pc_min_u64(ns, PC_PACE_MAX_NS);
	/* A pace is at most 2^44, for a task of weight 1/64; `counted` is at most 2^28. */
	u64 forgotten = (pace >> 10) * counted >> (PC_PACE_SHIFT - 10);

	if (weight)
		pace += counted * PC_FINE_NICE_0 / weight;
	return pace - pc_min_u64(forgotten, pace);
}

/*
 * Whether a CPU pulls a task that waits on another CPU. `ahead`: pace of this CPU minus the pace of the other CPU. `with`:
 * weight on this CPU after the pull, including the task. `there`: weight on the other CPU before the pull, including the task.
 *
 * If the weight `with` exceeds the weight `there`, this CPU would be the slower one after the pull. The pull then needs a larger
 * difference between the paces: the basic difference (PC_BALANCE_SLICES slices, scaled by `there`), and the same amount again for
 * each whole eighth of `there` by which `with` exceeds `there`. A pull is refused if `with` exceeds `there` by more than half of
 * `there`. Without this rule, the many CPUs that see the same slow CPU could together pull all of its tasks.
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
