/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling: whose turn it is on a core whose threads tasks of different cookies do not share (PR_SCHED_CORE). The kernel
 * has one CPU of the core run its task and keeps the others idle beside it, unless they have one of the same cookie.
 *
 * The tasks of a core's CPUs take turns as those of one CPU do, by virtual times. Each CPU's queue has its own: what is compared
 * is how far each has come since the CPUs were first kept apart, as the kernel does (cfs_prio_less(), kernel/sched/fair.c).
 * Who waits for the core does not come further, also where tasks of another cookie run in its CPU's queue meanwhile.
 */
#ifndef PARACORD_POLICY_CORE_H
#define PARACORD_POLICY_CORE_H

#include "fair.h"

/* CPUs that were not compared for that long begin equal: nothing kept them apart. A tick is 10 ms at most. */
#define PC_CORE_APART_NS	(24 * PC_NSEC_PER_MSEC)
/* Who is next on its CPU has the core after that time, whatever its weight: all others of its CPU stand behind it. */
#define PC_CORE_LATE_NS		(100 * PC_NSEC_PER_MSEC)
/* A turn on the core lasts as long as that, until the next tick. */
#define PC_CORE_TURN_NS		(5 * PC_NSEC_PER_MSEC)
/* Who runs goes on until it is that much further, or each look at the core would be a switch. */
#define PC_CORE_LEAST_NS	(1 * PC_NSEC_PER_MSEC)

struct pc_core {
	u64 zero;		/* of the queue's virtual time: where the CPUs were equal */
	u64 compared_ns;	/* when one of its tasks was compared last */
};

/* How far a task counts as having come, beside that of another CPU: it is behind by `most` at most. */
PC_INLINE u64 pc_core_beside(u64 come, u64 other, u64 most)
{
	return (s64)(other - come) > (s64)most ? other - most : come;
}

/*
 * Whether a task comes after one of another CPU of its core. `vtime`, `other_vtime`: their virtual times, each of its CPU's queue,
 * up to now. A task is owed no more than a turn of the other one, however often it sleeps.
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
