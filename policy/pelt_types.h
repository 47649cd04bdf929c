/* SPDX-License-Identifier: GPL-2.0-only */
/* State of load tracking (pelt.h). */
#ifndef PARACORD_POLICY_PELT_TYPES_H
#define PARACORD_POLICY_PELT_TYPES_H

#include "types.h"

/* Scale of utilisation, requests and clamps: 1024 is the largest CPU at its highest frequency. */
#define PC_CAPACITY_SHIFT	10
#define PC_CAPACITY		1024u

struct pc_pelt {
	u64 last_ns;		/* time up to which running time is accounted; advances in whole units */
	u32 util_sum;		/* decayed sum of running time, in units times 1024 */
	u32 util_avg;		/* utilisation at the end of the last period, 0..1024 */
	u32 period_units;	/* units of the current period that have passed */
	u32 reserved;
};

#endif
