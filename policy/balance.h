/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness between CPUs: which CPU takes over a task that waits on another CPU.
 *
 * Fairness over several CPUs depends on the weight on each CPU. If one run queue holds weight 1000 and another one holds weight
 * 2000, no order within the two run queues gives their tasks equal shares.
 *
 * A CPU's pace is the virtual time by which the CPU has advanced lately: the time in which it ran ordinary tasks, times 1024
 * over the sum of the weights that share the CPU. The pace decays with a time constant. The difference of two paces is the
 * service that the tasks of the slower CPU have missed. Once this difference is worth a few slices, the faster CPU takes over
 * one of these tasks. That settles the account: both paces are equal afterwards. So three busy loops take turns on two CPUs,
 * and a task whose weight is worth a whole CPU has a CPU for itself.
 *
 * The pace decays because a difference that no migration can settle says nothing about the future: a task may have more weight
 * than its share of all CPUs, or its affinity may bind it to one CPU.
 */
#ifndef PARACORD_POLICY_BALANCE_H
#define PARACORD_POLICY_BALANCE_H

#include "fair.h"

/*
 * Time constant of a pace: 2^28 ns = 268 ms. With it, rates that differ by 2 % add up to more than PC_BALANCE_SLICES on a host
 * with few CPUs.
 */
#define PC_PACE_SHIFT		28
/* Longest time that is added to a pace at once. */
#define PC_PACE_MAX_NS		(1ull << PC_PACE_SHIFT)
/* Number of slices that the tasks of the slower CPU have missed before the faster CPU takes over one of them. */
#define PC_BALANCE_SLICES	3

#define PC_NO_HOME		(~0u)
/*
 * How long a task waits before an idle CPU of another node takes it. From then on, waiting for a CPU of its own node costs more
 * than the migration.
 */
#define PC_CROSS_WAIT_NS	(1 * PC_NSEC_PER_MSEC)
/* The same for a vCPU in its home node, which holds all of the VM's memory. */
#define PC_CROSS_HOME_NS	(4 * PC_NSEC_PER_MSEC)
/*
 * Between CPUs of two last-level caches, the difference that leads to a migration is this many times the difference between
 * CPUs of one cache.
 */
#define PC_CROSS_CACHE		4
/* One of PC_LOOKS_IN_NODE searches of a busy CPU goes beyond its cache, one of PC_LOOKS_EVERYWHERE beyond its node. */
#define PC_LOOKS_IN_NODE	4
#define PC_LOOKS_EVERYWHERE	8
/*
 * Each time a CPU searches beyond its node, the node's pace moves towards that CPU's pace by this much: 1/32 of the difference.
 */
#define PC_NODE_PACE_SHIFT	5
/*
 * A CPU's pace counts for at most twice its node's pace, plus this value. Otherwise a single busy loop of the least weight would
 * outweigh all other CPUs.
 */
#define PC_NODE_PACE_LEAST	(1ull << 20)

PC_INLINE u64 pc_node_pace(u64 node, u64 cpu)
{
	u64 counted = pc_min_u64(cpu, 2 * node + PC_NODE_PACE_LEAST);

	return node + ((s64)(counted - node) >> PC_NODE_PACE_SHIFT);
}

/* Two nodes count as equal if their paces differ by less than this, in 1/1024 of the faster pace: 3 %. */
#define PC_CROSS_LEAST		32
/*
 * At a difference of PC_CROSS_LEAST, the busy CPUs of the faster node take a task from the other node at this interval. At twice
 * the difference, they do so four times as often.
 */
#define PC_CROSS_EVERY_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_CROSS_NEVER		(~0ull)

/*
 * Interval at which all busy CPUs of a node together take a task from another node. `ours`, `theirs`: the paces of the two nodes.
 * Return: ns, or PC_CROSS_NEVER.
 */
PC_INLINE u64 pc_cross_every_ns(u64 ours, u64 theirs)
{
	/* A pace is below 2^52. */
	u64 ahead = ours > theirs ? (ours - theirs) * 1024 / ours : 0;

	if (ahead < PC_CROSS_LEAST)
		return PC_CROSS_NEVER;
	return PC_CROSS_EVERY_NS * (PC_CROSS_LEAST * PC_CROSS_LEAST) / (ahead * ahead);
}

/*
 * How long a task waits before an idle CPU takes it, in ns. `home`: home node of the task's VM, PC_NO_HOME if the VM has none or
 * the task is not a vCPU. `from`, `to`: nodes of the two CPUs; 0: any node.
 */
PC_INLINE u64 pc_cross_wait_ns(u32 home, u32 from, u32 to)
{
	if (from == to || home == to)
		return 0;
	return home == from ? PC_CROSS_HOME_NS : PC_CROSS_WAIT_NS;
}

/*
 * A CPU's pace, in ns of virtual time at nice 0, after another `ns` in which the CPU ran ordinary tasks. `weight`: sum of the
 * weights of these tasks, in 64ths; 0: the CPU ran no ordinary task.
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
 * Whether a CPU takes over a task that waits on another CPU. `ahead`: pace of this CPU less the pace of the other CPU. `with`:
 * weight on this CPU after the move, with the task. `there`: weight on the other CPU before the move, with the task.
 *
 * The difference of paces that a move needs grows by its own size for each eighth by which `with` exceeds `there`, because this
 * CPU is then the slower one. A move never makes `with` larger than `there` by more than a half: many CPUs see the same slow
 * CPU, and together they would leave it with nothing and take far too much themselves.
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
