/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The reserve: the part of a control group's CPU quota that the group has not used. Actuator rt makes threads real-time, and the
 * kernel's quota does not throttle real-time threads. So the boosts in a group are limited to the group's reserve.
 *
 * The sensor subtracts boosted time from the reserve immediately. From time to time, the daemon corrects the reserve with the
 * kernel's count of the group's CPU time (cpu.stat), which covers fair threads, boosted threads and threads of other classes. The
 * reserve never exceeds the quota of one period plus the burst, which is also the most that the kernel's own quota can save up.
 * So over any interval, a group gets at most its quota for the interval, plus this maximum once.
 */
#ifndef PARACORD_POLICY_RESERVE_H
#define PARACORD_POLICY_RESERVE_H

#include "budget.h"
#include "quota_types.h"

/* Longest accepted time. A longer time is invalid. */
#define PC_RESERVE_MAX_NS	(1ull << 44)
/*
 * Deepest debt, in multiples of the largest reserve. It limits the debt of a group whose threads another program has made
 * real-time.
 */
#define PC_RESERVE_DEBTS	16

/*
 * The reserve after a new reading of cpu.stat, in ns. left_ns: the reserve after the previous reading, before the sensor
 * subtracted any boosted time. granted_ns: runtime that the quota has granted since the previous reading. used_ns: CPU time that
 * all threads of the group have used since the previous reading, including boosted time. most_ns: quota plus burst.
 */
PC_INLINE s64 pc_reserve_next(s64 left_ns, u64 granted_ns, u64 used_ns, u64 most_ns)
{
	s64 most = (s64)pc_min_u64(most_ns, PC_RESERVE_MAX_NS), least = -PC_RESERVE_DEBTS * most;
	s64 left = left_ns > most ? most : left_ns < least ? least : left_ns;

	left += (s64)pc_min_u64(granted_ns, PC_RESERVE_MAX_NS) - (s64)pc_min_u64(used_ns, PC_RESERVE_MAX_NS);
	return left > most ? most : left < least ? least : left;
}

#endif
