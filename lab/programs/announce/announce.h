/* SPDX-License-Identifier: GPL-2.0-only */
/* The announcement of a region in the guest's own memory (abi/paracord_abi.h), for modules that attack. */
#ifndef PC_ANNOUNCE_H
#define PC_ANNOUNCE_H

#ifdef CONFIG_X86
#include <asm/msr.h>
#else
#include <linux/arm-smccc.h>
#endif

#include "paracord_abi.h"

/* @gpa: address of the region; 0 withdraws it. */
static inline void announce(u64 gpa)
{
#ifdef CONFIG_X86
	wrmsr_safe(PARACORD_ANNOUNCE_MSR, lower_32_bits(gpa), upper_32_bits(gpa));
#else
	struct arm_smccc_res unused;

	arm_smccc_hvc(PARACORD_ANNOUNCE_HVC | gpa >> 12 << 32, 0, 0, 0, 0, 0, 0, 0, &unused);
#endif
}

#endif
