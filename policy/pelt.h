/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Per-entity load tracking (PELT). Utilisation is computed exactly as in the kernel
 * (kernel/sched/pelt.c): a geometric series over periods of 1024 units of 1024 ns,
 * with y^32 = 1/2. policy/perf.h derives a task's demand and request from utilisation.
 *
 * The caller supplies the clock. If the clock advances in proportion to the CPU's speed,
 * as the kernel's clock_pelt does, utilisation does not depend on capacity and frequency.
 */
#ifndef PARACORD_POLICY_PELT_H
#define PARACORD_POLICY_PELT_H

#include "budget.h"
#include "pelt_types.h"

#define PC_PELT_UNIT_SHIFT	10	/* 1024 ns */
#define PC_PELT_PERIOD		1024	/* units */
#define PC_PELT_PERIOD_NS	((u64)PC_PELT_PERIOD << PC_PELT_UNIT_SHIFT)
#define PC_PELT_HALF_LIFE	32	/* periods */
#define PC_PELT_SUM_MAX		47742	/* sum of the series, in units: the limit for a task that runs all the time */

/* value * y^periods. */
PC_INLINE u64 pc_pelt_decay(u64 value, u64 periods)
{
	/* 2^32 * y^n, n = 0..31. */
	static const u32 y_n[PC_PELT_HALF_LIFE] = {
		0xffffffff, 0xfa83b2da, 0xf5257d14, 0xefe4b99a, 0xeac0c6e6, 0xe5b906e6, 0xe0ccdeeb, 0xdbfbb796,
		0xd744fcc9, 0xd2a81d91, 0xce248c14, 0xc9b9bd85, 0xc5672a10, 0xc12c4cc9, 0xbd08a39e, 0xb8fbaf46,
		0xb504f333, 0xb123f581, 0xad583ee9, 0xa9a15ab4, 0xa5fed6a9, 0xa2704302, 0x9ef5325f, 0x9b8d39b9,
		0x9837f050, 0x94f4efa8, 0x91c3d373, 0x8ea4398a, 0x8b95c1e3, 0x88980e80, 0x85aac367, 0x82cd8698,
	};
	u64 halvings = periods / PC_PELT_HALF_LIFE;

	if (halvings > 63)
		return 0;
	/* Values here stay below 2^32, so the product of the two factors fits into 64 bits. */
	return (value >> halvings) * y_n[periods % PC_PELT_HALF_LIFE] >> 32;
}

/* Contribution of uninterrupted running: the rest of the old period, the whole periods, and a part of the new period. */
PC_INLINE u32 pc_pelt_segments(u64 periods, u32 rest_of_old, u32 into_new)
{
	return (u32)(pc_pelt_decay(rest_of_old, periods) +
		     (PC_PELT_SUM_MAX - pc_pelt_decay(PC_PELT_SUM_MAX, periods) - PC_PELT_PERIOD) + into_new);
}

/* Return: util_sum divided by the largest possible sum at this point of the period. */
PC_INLINE u32 pc_pelt_average(const struct pc_pelt *pelt)
{
	return pelt->util_sum / (PC_PELT_SUM_MAX - PC_PELT_PERIOD + pelt->period_units);
}

/*
 * Accounts the time since the last update as running or as not running. Return: 1 if a period has ended, so that util_avg was
 * updated.
 */
PC_INLINE int pc_pelt_update(struct pc_pelt *pelt, u64 now_ns, int running)
{
	u64 units = pc_elapsed_ns(now_ns, pelt->last_ns) >> PC_PELT_UNIT_SHIFT;
	u32 in_period = pelt->period_units & (PC_PELT_PERIOD - 1), added;
	u64 periods;

	if (!units) {
		/* If the clock went back, accounting restarts at now_ns. */
		if (pc_elapsed_ns(pelt->last_ns, now_ns))
			pelt->last_ns = now_ns;
		return 0;
	}
	pelt->last_ns += units << PC_PELT_UNIT_SHIFT;
	added = (u32)units;
	units += in_period;
	periods = units / PC_PELT_PERIOD;
	pelt->period_units = (u32)(units % PC_PELT_PERIOD);
	if (periods) {
		pelt->util_sum = (u32)pc_pelt_decay(pelt->util_sum, periods);
		added = pc_pelt_segments(periods, PC_PELT_PERIOD - in_period, pelt->period_units);
	}
	if (running)
		pelt->util_sum += added << PC_CAPACITY_SHIFT;
	if (!periods)
		return 0;
	pelt->util_avg = pc_pelt_average(pelt);
	return 1;
}

#endif
