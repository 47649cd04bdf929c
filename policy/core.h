/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling (PR_SCHED_CORE): which task runs next on an SMT core whose CPUs must not run tasks with different cookies at
 * the same time. The kernel lets one CPU of the core run its task and forces the other CPUs of the core idle, unless they have
 * a task with the same cookie.
 *
 * The tasks of a core's CPUs take turns by virtual time, as the tasks of one CPU do. Each CPU's run queue has a virtual time of
 * its own. The comparison therefore uses how far the virtual time of each task has advanced since the CPUs began to take turns,
 * as the kernel does (cfs_prio_less(), kernel/sched/fair.c). The virtual time of a task that waits for the core does not
 * advance, even while tasks with another cookie run from the same run queue.
 */
#ifndef PARACORD_POLICY_CORE_H
#define PARACORD_POLICY_CORE_H

#include "fair.h"

/*
 * If the tasks of two CPUs were not compared for this long, the CPUs did not have to take turns, and they start as equal at the
 * next comparison. The value exceeds two of the longest ticks, 10 ms each.
 */
#define PC_CORE_APART_NS	(24 * PC_NSEC_PER_MSEC)
/*
 * A task that has been the next task of its CPU for this long gets the core, whatever its weight, because all other tasks of
 * that CPU wait behind it.
 */
#define PC_CORE_LATE_NS		(100 * PC_NSEC_PER_MSEC)
/* A turn on the core ends at the first tick after this time. */
#define PC_CORE_TURN_NS		(5 * PC_NSEC_PER_MSEC)
/*
 * The running task keeps the core until it is ahead of the waiting task by this much running time. Otherwise each comparison
 * would cause a switch.
 */
#define PC_CORE_LEAST_NS	(1 * PC_NSEC_PER_MSEC)

struct pc_core {
	u64 zero;		/* the advance of the CPU's tasks is measured from this virtual time */
	u64 compared_ns;	/* when a task of this CPU was last compared */
};

/*
 * The advance with which a task is compared. `come`: how far the task has advanced. `other`: how far the task of the other CPU
 * has advanced. Return: `come`, but at most `most` behind `other`.
 */
PC_INLINE u64 pc_core_beside(u64 come, u64 other, u64 most)
{
	return (s64)(other - come) > (s64)most ? other - most : come;
}

/*
 * Whether a task runs after the task of another CPU of its core. `vtime`, `other_vtime`: virtual times of the two tasks up to
 * now, each in the run queue of its own CPU. However often a task sleeps, it is owed at most what the other task runs in one
 * turn.
 */
PC_INLINE int pc_core_comes_after(struct pc_core *core, u64 vtime, u32 inverse, struct pc_core *other, u64 other_vtime,
				  u32 other_inverse, u64 now)
{
	u64 since = pc_max_u64(pc_elapsed_ns(now, core->compared_ns), pc_elapsed_ns(now, other->compared_ns));
	u64 come = vtime - core->zero, other_come = other_vtime - other->zero;
	u64 most = 0, other_most = 0, counts, other_counts;

	if (since <= PC_CORE_APART_NS) {
		most = pc_fair_virtual(PC_CORE_TURN_NS, other_inverse);
		other_most = pc_fair_virtual(PC_CORE_TURN_NS, inverse);
	}
	counts = pc_core_beside(come, other_come, most);
	other_counts = pc_core_beside(other_come, counts, other_most);
	core->zero -= counts - come;
	other->zero -= other_counts - other_come;
	core->compared_ns = other->compared_ns = now;
	return (s64)(counts - other_counts) > 0;
}

#endif
