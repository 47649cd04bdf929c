/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a control group with a CPU quota leaves of it. Actuator rt makes threads real-time, and no quota stops those; so a
 * group's boosts come out of what all of its threads have not used.
 *
 * The sensor takes boosted time off at once. The daemon sets that right from time to time, by what the kernel has counted
 * for the group (cpu.stat): its fair threads, boosted ones, threads of other classes. What may lie there is what the
 * kernel's own quota would keep: one period's, and its burst. So over any time a group has its quota, and that once more.
 */
#ifndef PARACORD_POLICY_RESERVE_H
#define PARACORD_POLICY_RESERVE_H

#include "budget.h"
#include "quota_types.h"

/* Longest times that are reckoned with: more is garbage. */
#define PC_RESERVE_MAX_NS	(1ull << 44)
/* Deepest debt, in what may lie there: a group that others make real-time owes no more. */
#define PC_RESERVE_DEBTS	16

/*
 * What there is after a look. left_ns: after the look before, without what was taken off since. granted_ns: of the quota, used_ns:
 * by all threads, both since that look. most_ns: quota and burst.
 */
PC_INLINE s64 pc_reserve_next(s64 left_ns, u64 granted_ns, u64 used_ns, u64 most_ns)
{
	s64 most = (s64)pc_min_u64(most_ns, PC_RESERVE_MAX_NS), least = -PC_RESERVE_DEBTS * most;
	s64 left = left_ns > most ? most : left_ns < least ? least : left_ns;

	left += (s64)pc_min_u64(granted_ns, PC_RESERVE_MAX_NS) - (s64)pc_min_u64(used_ns, PC_RESERVE_MAX_NS);
	return left > most ? most : left < least ? least : left;
}

#endif
