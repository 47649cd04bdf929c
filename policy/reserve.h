/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reserve: what a control group leaves unused of its CPU quota. Actuator rt makes threads real-time, and no quota throttles a
 * real-time thread. So the boosts of a group are limited to the runtime that all threads of the group have not used.
 *
 * The sensor subtracts boosted time from the reserve at once. From time to time, the daemon corrects the reserve by the kernel's
 * count of the group's CPU time (cpu.stat), which covers fair threads, boosted threads and threads of other classes. The reserve
 * holds at most what the kernel's own quota would keep: the quota of one period and the burst. So over any time, a group gets its
 * quota plus this amount once.
 */
#ifndef PARACORD_POLICY_RESERVE_H
#define PARACORD_POLICY_RESERVE_H

#include "budget.h"
#include "quota_types.h"

/* Longest times that are accepted: more is garbage. */
#define PC_RESERVE_MAX_NS	(1ull << 44)
/* Deepest debt, in multiples of the largest reserve: a group whose threads another program makes real-time owes no more. */
#define PC_RESERVE_DEBTS	16

/*
 * The reserve after cpu.stat was read again, in ns. left_ns: the reserve after the previous reading, before the sensor has
 * subtracted any boosted time. granted_ns: runtime that the quota has granted since that reading. used_ns: CPU time that all
 * threads have used since that reading, boosted time included. most_ns: quota plus burst.
 */
PC_INLINE s64 pc_reserve_next(s64 left_ns, u64 granted_ns, u64 used_ns, u64 most_ns)
{
	s64 most = (s64)pc_min_u64(most_ns, PC_RESERVE_MAX_NS), least = -PC_RESERVE_DEBTS * most;
	s64 left = left_ns > most ? most : left_ns < least ? least : left_ns;

	left += (s64)pc_min_u64(granted_ns, PC_RESERVE_MAX_NS) - (s64)pc_min_u64(used_ns, PC_RESERVE_MAX_NS);
	return left > most ? most : left < least ? least : left;
}

#endif
