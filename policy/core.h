/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling (PR_SCHED_CORE): which task runs next on an SMT core whose CPUs must not run tasks with different cookies at
 * the same time. The kernel lets one CPU of the core run its task and forces the other CPUs of the core idle, unless they have
 * a task with the same cookie.
 *
 * The tasks of a core's CPUs take turns by virtual time, as the tasks of one CPU do. But each CPU's run queue has a virtual time
 * of its own, so the virtual times of two CPUs cannot be compared directly. As in the kernel (cfs_prio_less(),
 * kernel/sched/fair.c), two tasks are compared by how far their virtual times have advanced since the CPUs began to take turns.
 * The virtual time of a task that waits for the core does not advance, even while tasks with another cookie run from the same run
 * queue.
 */
#ifndef PARACORD_POLICY_CORE_H
#define PARACORD_POLICY_CORE_H

#include "fair.h"

/*
 * If the tasks of two CPUs have not been compared for this long, the CPUs did not have to take turns. At the next comparison, the
 * two CPUs start as equals. The value exceeds two ticks, even with the longest tick period, 10 ms.
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
 * The running task keeps the core until it is ahead of the waiting task by this much running time. Without this margin, each
 * comparison would cause a switch.
 */
#define PC_CORE_LEAST_NS	(1 * PC_NSEC_PER_MSEC)

struct pc_core {
	u64 zero;		/* the advance of the CPU's tasks is measured from this virtual time */
	u64 compared_ns;	/* when a task of this CPU was last compared with a task of another CPU */
};

/*
 * The advance that counts for a task in a comparison. `come`: how far the task has advanced. `other`: how far the task of the
 * other CPU has advanced. Return: `come`, but not less than `other` - `most`.
 */
PC_INLINE u64 pc_core_beside(u64 come, u64 other, u64 most)
{
	return (s64)(other - come) > (s64)most ? other - most : come;
}

/*
 * Whether a task must run after a task on another CPU of the same core. `vtime`, `other_vtime`: virtual times of the two tasks up
 * to now, each in the run queue of its own CPU. However often a task sleeps, the other task owes it at most one turn.
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
