/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted fairness among ordinary tasks: virtual time.
 *
 * A task's virtual time grows by the time that it runs, times 1024 / weight: the
 * one that is furthest behind runs next, so over time each gets its weight's
 * share. Every CPU's queue has a base, the virtual time that it has reached; a
 * task that moves takes along its distance from the base, not the number.
 *
 * Weights and their steps of 1.25 per nice level are the kernel's
 * (sched_prio_to_weight, kernel/sched/core.c).
 */
#ifndef PARACORD_POLICY_FAIR_H
#define PARACORD_POLICY_FAIR_H

#include "budget.h"

#define PC_NICE_LEVELS		40
#define PC_WEIGHT_NICE_0	1024u
#define PC_WEIGHT_IDLE		3u	/* SCHED_IDLE, whatever its nice value */
/*
 * Weights of tasks in groups are counted in 64ths: the least is what one of 64 tasks has of weight 1, or one of 192 in a
 * group with cpu.idle.
 */
#define PC_FINE_SHIFT		6
#define PC_FINE_NICE_0		(PC_WEIGHT_NICE_0 << PC_FINE_SHIFT)
/* 2^32 / weight in 64ths: virtual time without a division. For 1024 that is 2^16. */
#define PC_INVERSE(weight)	((u32)((1ull << (32 - PC_FINE_SHIFT)) / (weight)))
#define PC_INVERSE_SHIFT	16

/* Slice on one CPU; more CPUs, longer slices: pc_fair_slice_ns(). The kernel's (sysctl_sched_base_slice). */
#define PC_FAIR_BASE_SLICE_NS	(700 * PC_NSEC_PER_USEC)
/*
 * Who has waited this long runs next, whatever its weight: a task of nice 19 beside one of
 * nice -20 would wait for 24 s, and the kernel ejects a scheduler that lets a task wait for 30.
 */
#define PC_FAIR_WAIT_MAX_NS	(8 * PC_NSEC_PER_SEC)
/*
 * Sooner, who was preempted while it read under RCU: everybody who waits for a grace period waits for it, and the kernel
 * ejects a scheduler under which one takes 21 s.
 */
#define PC_FAIR_READER_WAIT_MAX_NS	(2 * PC_NSEC_PER_SEC)
/*
 * Who wakes another one and says that it is about to sleep (pipes and sockets do) has this long for more of the
 * kind before it is preempted by whom it woke. The kernel's (preempt_sync(), sysctl_sched_migration_cost).
 */
#define PC_FAIR_BATCH_NS	(500 * PC_NSEC_PER_USEC)
/* Longest time charged at once: more is a corrupt stamp. Times the largest inverse: below 2^64. */
#define PC_FAIR_CHARGE_MAX_NS	(4 * PC_NSEC_PER_SEC)

/* PC_INVERSE of a nice level, -20 .. 19; beyond: the nearest. */
PC_INLINE u32 pc_fair_inverse(s32 nice)
{
	static const u32 inverse[PC_NICE_LEVELS] = {
		PC_INVERSE(88761), PC_INVERSE(71755), PC_INVERSE(56483), PC_INVERSE(46273), PC_INVERSE(36291),
		PC_INVERSE(29154), PC_INVERSE(23254), PC_INVERSE(18705), PC_INVERSE(14949), PC_INVERSE(11916),
		PC_INVERSE(9548), PC_INVERSE(7620), PC_INVERSE(6100), PC_INVERSE(4904), PC_INVERSE(3906),
		PC_INVERSE(3121), PC_INVERSE(2501), PC_INVERSE(1991), PC_INVERSE(1586), PC_INVERSE(1277),
		PC_INVERSE(1024), PC_INVERSE(820), PC_INVERSE(655), PC_INVERSE(526), PC_INVERSE(423),
		PC_INVERSE(335), PC_INVERSE(272), PC_INVERSE(215), PC_INVERSE(172), PC_INVERSE(137),
		PC_INVERSE(110), PC_INVERSE(87), PC_INVERSE(70), PC_INVERSE(56), PC_INVERSE(45),
		PC_INVERSE(36), PC_INVERSE(29), PC_INVERSE(23), PC_INVERSE(18), PC_INVERSE(15),
	};
	u32 level = nice < -20 ? 0 : nice > 19 ? PC_NICE_LEVELS - 1 : (u32)(nice + 20);

	return inverse[level < PC_NICE_LEVELS ? level : 0];	/* the verifier does not follow */
}

/*
 * A task in a control group has its weight times its group's share of itself: the group's weight
 * over the sum of the weights of what is runnable in it, tasks and groups; and so on upwards. That is what
 * the kernel's own hierarchy comes to (calc_group_shares()), without a queue per group and CPU.
 *
 * Factor: what the inverse is multiplied with, times 2^20. A group of weight 100 (1024 as a
 * task's) that has one task of nice 0 has the factor 1.
 */
#define PC_FACTOR_SHIFT		20
#define PC_FACTOR_ONE		(1ull << PC_FACTOR_SHIFT)
#define PC_FACTOR_MAX		(1ull << 36)
#define PC_GROUP_WEIGHT_MAX	10000u
#define PC_GROUP_WEIGHT_USUAL	100u

/* A group's weight (1..10000; 0: it has cpu.idle) on the scale of tasks'. */
PC_INLINE u64 pc_group_weight(u32 weight)
{
	u32 sane = weight > PC_GROUP_WEIGHT_MAX ? PC_GROUP_WEIGHT_MAX : weight;

	if (!sane)
		return PC_WEIGHT_IDLE;
	return (u64)sane * PC_WEIGHT_NICE_0 / 100;
}

/* Of the tasks in a group; `active`: sum of the weights of what is runnable in it. */
PC_INLINE u64 pc_group_factor(u64 parents_factor, s64 active, u32 weight)
{
	u64 sum = active > 1 ? pc_min_u64((u64)active, 1ull << 27) : 1;
	u64 factor = pc_min_u64(parents_factor, PC_FACTOR_MAX) * sum / pc_group_weight(weight);

	return factor < 1 ? 1 : pc_min_u64(factor, PC_FACTOR_MAX);
}

/* Inverse of a task's weight in a group. A weight below a 64th counts as that. */
PC_INLINE u32 pc_fair_in_group(u32 inverse, u64 factor)
{
	u64 scaled = inverse * pc_min_u64(factor, PC_FACTOR_MAX) >> PC_FACTOR_SHIFT;

	return scaled < 1 ? 1 : (u32)pc_min_u64(scaled, 0xffffffffu);
}

/* Weight with this inverse, in 64ths; PC_FINE_NICE_0: that of nice 0. */
PC_INLINE u32 pc_fair_weight(u32 inverse)
{
	return inverse ? (u32)pc_min_u64((1ull << 32) / inverse, 0xffffffffu) : 0xffffffffu;
}

/* Virtual time of ran_ns with this inverse weight. */
PC_INLINE u64 pc_fair_virtual(u64 ran_ns, u32 inverse)
{
	return pc_min_u64(ran_ns, PC_FAIR_CHARGE_MAX_NS) * inverse >> PC_INVERSE_SHIFT;
}

/* Virtual times wrap: order is the sign of the difference. */
PC_INLINE int pc_fair_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* How long a task runs before another one of its CPU may, on a host with that many CPUs (get_update_sysctl_factor()). */
PC_INLINE u32 pc_fair_slice_ns(u32 cpus)
{
	u32 factor = cpus >= 8 ? 4 : cpus >= 4 ? 3 : cpus >= 2 ? 2 : 1;

	return factor * (u32)PC_FAIR_BASE_SLICE_NS;
}

/* How long it runs at least, if somebody wakes who would have had the turn. */
PC_INLINE u32 pc_fair_turn_min_ns(u32 slice_ns)
{
	return slice_ns / 4;
}

/*
 * Running time that a new task waits for first, where turns end at ticks: what it owes when it ends vanishes with it, and
 * that is a turn at most.
 */
#define PC_FAIR_TICK_NS		(4 * PC_NSEC_PER_MSEC)

/* Farthest that a task can be ahead of its queue: 16 of the largest charges. */
#define PC_FAIR_AHEAD_MAX	(1ull << 52)

/*
 * Where a task's virtual time lies when it comes to a queue with this base: a sleeper comes back at most
 * one slice behind it, so that sleep is no savings account. Who seems farther ahead than anybody can be has slept for so
 * long that the numbers have come around: at the least weight that is a day.
 */
PC_INLINE u64 pc_fair_place(u64 vtime, u64 base, u32 slice_ns)
{
	u64 earliest = base - slice_ns;

	return vtime - earliest > PC_FAIR_AHEAD_MAX ? earliest : vtime;
}

/*
 * Where a task's virtual time lies after a change of its weight: what it owes is the same running time. What it is owed is a
 * slice at most (pc_fair_place()). As the kernel does it (reweight_entity()).
 */
PC_INLINE u64 pc_fair_rescale(u64 vtime, u64 base, u32 before, u32 after)
{
	u64 ahead = vtime - base;

	if (before == after || !before || pc_fair_before(vtime, base))
		return vtime;
	/* At most 4 s of running time, in units of 2^16 / 2^8 ns. */
	return base + (pc_min_u64((pc_min_u64(ahead, PC_FAIR_AHEAD_MAX) << 8) / before, 1ull << 24) * after >> 8);
}

/*
 * Where a task's virtual time lies after it has run with a boost: at most a slice ahead. What a boost takes, its budgets
 * pay for; charged as well, it is a debt of seconds that the next wakeup without a boost waits for.
 */
PC_INLINE u64 pc_fair_forgive(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	u64 latest = base + pc_fair_virtual(slice_ns, inverse);

	return pc_fair_before(latest, vtime) ? latest : vtime;
}

/*
 * Whether a task that is called may run next, whatever its place in its queue: while it has had no more than a slice beyond the
 * queue's base: tasks that call each other have their share and a slice. (The kernel takes one that is owed something.)
 */
PC_INLINE int pc_fair_may_be_called(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	return pc_fair_before(vtime, base + pc_fair_virtual(slice_ns, inverse));
}

/* The same distance from the base of another queue. */
PC_INLINE u64 pc_fair_move(u64 vtime, u64 from_base, u64 to_base)
{
	return vtime - from_base + to_base;
}

/*
 * Whether a task that wakes takes the CPU from the one that runs at running_vtime now: if that is ahead of it
 * by more than a slice, in the virtual time of the one that wakes. Less, and tasks that wake each other switch all the
 * time: at a third of a slice hackbench took two to three times as long.
 */
PC_INLINE int pc_fair_preempts(u64 vtime, u32 inverse, u64 running_vtime, u32 slice_ns)
{
	return pc_fair_before(vtime + pc_fair_virtual(slice_ns, inverse), running_vtime);
}

/* Whether a task that has run for ran_ns keeps its CPU from one that it woke synchronously: not from a heavier one. */
PC_INLINE int pc_fair_batches(u64 ran_ns, u32 inverse, u32 wakers_inverse)
{
	return ran_ns < PC_FAIR_BATCH_NS && inverse >= wakers_inverse;
}

#endif
