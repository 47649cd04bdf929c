/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weighted fairness among ordinary tasks, by virtual time.
 *
 * A task's virtual time grows by the time that the task runs, times 1024 / weight.
 * The task with the least virtual time runs next, so over time each task gets the
 * share of CPU time that its weight entitles it to. The run queue of each CPU has a
 * base, which is the virtual time that the run queue has reached. A task that moves
 * to another run queue keeps its distance from the base, not its absolute virtual
 * time.
 *
 * The weights are the kernel's (sched_prio_to_weight, kernel/sched/core.c). They
 * differ by a factor of 1.25 per nice level.
 */
#ifndef PARACORD_POLICY_FAIR_H
#define PARACORD_POLICY_FAIR_H

#include "budget.h"

#define PC_NICE_LEVELS		40
#define PC_WEIGHT_NICE_0	1024u
#define PC_WEIGHT_IDLE		3u	/* SCHED_IDLE, whatever the nice value */
/*
 * Weights of tasks in groups are in units of 1/64. A task has the least weight, 1/64, if 64 tasks share a weight of 1, or if 192
 * tasks share a group with cpu.idle.
 */
#define PC_FINE_SHIFT		6
#define PC_FINE_NICE_0		(PC_WEIGHT_NICE_0 << PC_FINE_SHIFT)
/* Inverse of a weight: 2^32 / (weight in 64ths). It yields virtual time without a division. The inverse of 1024 is 2^16. */
#define PC_INVERSE(weight)	((u32)((1ull << (32 - PC_FINE_SHIFT)) / (weight)))
#define PC_INVERSE_SHIFT	16

/*
 * Slice on a host with one CPU; equals the kernel's sysctl_sched_base_slice. More CPUs mean longer slices: pc_fair_slice_ns().
 */
#define PC_FAIR_BASE_SLICE_NS	(700 * PC_NSEC_PER_USEC)
/*
 * A task that has waited this long runs next, whatever its weight. Without this limit, a task with nice 19 would wait for 24 s
 * beside a task with nice -20. The kernel ejects a scheduler that lets a runnable task wait for 30 s.
 */
#define PC_FAIR_WAIT_MAX_NS	(8 * PC_NSEC_PER_SEC)
/*
 * Like PC_FAIR_WAIT_MAX_NS, but for a task that was preempted in an RCU read-side critical section. The limit is shorter because
 * the RCU grace period cannot end before this task has run, and other tasks may wait for the end of the grace period. The kernel
 * ejects a scheduler under which a grace period takes 21 s.
 */
#define PC_FAIR_READER_WAIT_MAX_NS	(2 * PC_NSEC_PER_SEC)
/*
 * After a sync wakeup (WF_SYNC: the waker is about to sleep, as with pipes and sockets), the woken task does not preempt the
 * waker until the waker has run for this long. So the waker can wake more tasks first. The rule and the value are the
 * kernel's (preempt_sync(), sysctl_sched_migration_cost).
 */
#define PC_FAIR_BATCH_NS	(500 * PC_NSEC_PER_USEC)
/*
 * Longest time that one charge covers. A longer time means a corrupt time stamp. The product of this time and any inverse is
 * below 2^64.
 */
#define PC_FAIR_CHARGE_MAX_NS	(4 * PC_NSEC_PER_SEC)

/* PC_INVERSE of the weight of a nice value. The nice value is clamped to -20..19. */
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

	return inverse[level < PC_NICE_LEVELS ? level : 0];	/* the verifier does not know the range */
}

/*
 * The effective weight of a task in a control group is the task's weight times the group's weight, divided by the sum of the
 * weights of the runnable tasks and groups in the group. The same rule is applied at each ancestor group. The kernel's hierarchy
 * yields the same shares (calc_group_shares()), but needs a run queue per group and CPU.
 *
 * A group's factor, scaled by 2^20, multiplies the inverse weights of the tasks in the group. If a group of weight 100 (1024 on
 * the scale of task weights) contains one task with nice 0, the factor is 1.
 */
#define PC_FACTOR_SHIFT		20
#define PC_FACTOR_ONE		(1ull << PC_FACTOR_SHIFT)
#define PC_FACTOR_MAX		(1ull << 36)
#define PC_GROUP_WEIGHT_MAX	10000u
#define PC_GROUP_WEIGHT_USUAL	100u

/* A group's cpu.weight (1..10000; 0: the group has cpu.idle) on the scale of task weights. */
PC_INLINE u64 pc_group_weight(u32 weight)
{
	u32 sane = weight > PC_GROUP_WEIGHT_MAX ? PC_GROUP_WEIGHT_MAX : weight;

	if (!sane)
		return PC_WEIGHT_IDLE;
	return (u64)sane * PC_WEIGHT_NICE_0 / 100;
}

/* Factor of the tasks in a group. `active`: sum of the weights of the runnable tasks and groups in the group. */
PC_INLINE u64 pc_group_factor(u64 parents_factor, s64 active, u32 weight)
{
	u64 sum = active > 1 ? pc_min_u64((u64)active, 1ull << 27) : 1;
	u64 factor = pc_min_u64(parents_factor, PC_FACTOR_MAX) * sum / pc_group_weight(weight);

	return factor < 1 ? 1 : pc_min_u64(factor, PC_FACTOR_MAX);
}

/* Inverse of a task's effective weight in a group. A weight below 1/64 counts as 1/64. */
PC_INLINE u32 pc_fair_in_group(u32 inverse, u64 factor)
{
	u64 scaled = inverse * pc_min_u64(factor, PC_FACTOR_MAX) >> PC_FACTOR_SHIFT;

	return scaled < 1 ? 1 : (u32)pc_min_u64(scaled, 0xffffffffu);
}

/* The weight that has this inverse, in 64ths. PC_FINE_NICE_0 is the weight of nice 0. */
PC_INLINE u32 pc_fair_weight(u32 inverse)
{
	return inverse ? (u32)pc_min_u64((1ull << 32) / inverse, 0xffffffffu) : 0xffffffffu;
}

/* Virtual time by which a task with this inverse weight advances when it runs for ran_ns. */
PC_INLINE u64 pc_fair_virtual(u64 ran_ns, u32 inverse)
{
	return pc_min_u64(ran_ns, PC_FAIR_CHARGE_MAX_NS) * inverse >> PC_INVERSE_SHIFT;
}

/* Whether virtual time `a` is before `b`. Virtual times wrap, so the sign of their difference gives the order. */
PC_INLINE int pc_fair_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/*
 * The slice: how long a task runs before another task of its CPU gets a turn. `cpus`: number of CPUs of the host, which scales
 * the slice as in the kernel (get_update_sysctl_factor()).
 */
PC_INLINE u32 pc_fair_slice_ns(u32 cpus)
{
	u32 factor = cpus >= 8 ? 4 : cpus >= 4 ? 3 : cpus >= 2 ? 2 : 1;

	return factor * (u32)PC_FAIR_BASE_SLICE_NS;
}

/*
 * Shortest turn. A turn may begin while the task that should have had this turn is still asleep. If that task wakes up during the
 * turn, the turn is cut to this length.
 */
PC_INLINE u32 pc_fair_turn_min_ns(u32 slice_ns)
{
	return slice_ns / 4;
}

/*
 * Running time that a new task owes from the start, if turns end only at ticks. A task that exits never pays what it still owes,
 * which is at most one turn. The debt at the start makes up for this.
 */
#define PC_FAIR_TICK_NS		(4 * PC_NSEC_PER_MSEC)

/* Largest distance by which a task can be ahead of the base of its run queue: 16 times the largest single charge. */
#define PC_FAIR_AHEAD_MAX	(1ull << 52)

/*
 * Virtual time of a task that is enqueued on a run queue with this base. A task that slept is placed at most one slice behind the
 * base, so that even a long sleep earns at most one slice of credit. If a task seems to be ahead by more than PC_FAIR_AHEAD_MAX, it
 * has slept for so long that virtual time has wrapped. With tasks of the lowest weight, virtual time wraps after a day and a half.
 */
PC_INLINE u64 pc_fair_place(u64 vtime, u64 base, u32 slice_ns)
{
	u64 earliest = base - slice_ns;

	return vtime - earliest > PC_FAIR_AHEAD_MAX ? earliest : vtime;
}

/*
 * Virtual time of a task after a change of its weight: the running time that the task owes stays the same, as in the kernel
 * (reweight_entity()). Time that the task is owed is not rescaled, because it is at most one slice (pc_fair_place()).
 */
PC_INLINE u64 pc_fair_rescale(u64 vtime, u64 base, u32 before, u32 after)
{
	u64 ahead = vtime - base;

	if (before == after || !before || pc_fair_before(vtime, base))
		return vtime;
	/* The debt is computed in units of 2^16 / 2^8 = 256 ns of running time, and limited to 4 s. */
	return base + (pc_min_u64((pc_min_u64(ahead, PC_FAIR_AHEAD_MAX) << 8) / before, 1ull << 24) * after >> 8);
}

/*
 * Virtual time of a task after it has run with a boost: at most one slice ahead of the base. Boosted time is already charged to
 * the boost budgets. Without this limit, boosted time could also become a debt of seconds here. The task would then wait for that
 * long after its next wakeup without a boost.
 */
PC_INLINE u64 pc_fair_forgive(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	u64 latest = base + pc_fair_virtual(slice_ns, inverse);

	return pc_fair_before(latest, vtime) ? latest : vtime;
}

/*
 * Whether the target of a directed yield may run next, whatever its position in its run queue. It may do so if it is less than
 * two slices ahead of the base. So tasks that yield to each other get at most two slices more than their share. One slice is what
 * a boost may leave (pc_fair_forgive()): a vCPU whose boost has just ended is often the one for which the others wait. The kernel's
 * own rule is stricter: the target must be owed time.
 */
PC_INLINE int pc_fair_may_be_called(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	return pc_fair_before(vtime, base + pc_fair_virtual(2 * slice_ns, inverse));
}

/* Virtual time of a task that moves to another run queue: the distance from the base stays the same. */
PC_INLINE u64 pc_fair_move(u64 vtime, u64 from_base, u64 to_base)
{
	return vtime - from_base + to_base;
}

/*
 * Whether a task that wakes preempts the running task, whose virtual time up to now is running_vtime. True if the running task's
 * virtual time is ahead of the waking task's by more than one slice, where the slice is converted to virtual time with the waking
 * task's weight. With a smaller threshold, tasks that wake each other would switch all the time: with a third of a slice, hackbench
 * took two to three times as long.
 */
PC_INLINE int pc_fair_preempts(u64 vtime, u32 inverse, u64 running_vtime, u32 slice_ns)
{
	return pc_fair_before(vtime + pc_fair_virtual(slice_ns, inverse), running_vtime);
}

/*
 * Whether a waker that has run for ran_ns keeps its CPU after a sync wakeup. `inverse`, `wakers_inverse`: inverse weights of the
 * woken task and of the waker. A waker does not keep the CPU from a heavier task.
 */
PC_INLINE int pc_fair_batches(u64 ran_ns, u32 inverse, u32 wakers_inverse)
{
	return ran_ns < PC_FAIR_BATCH_NS && inverse >= wakers_inverse;
}

#endif
