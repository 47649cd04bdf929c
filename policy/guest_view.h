/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Converts the guest's bytes into the checked copy that the policy uses. The
 * caller has copied the bytes once. The bytes may be hostile: any bytes yield a
 * view whose fields are 0 or 1.
 */
#ifndef PARACORD_POLICY_GUEST_VIEW_H
#define PARACORD_POLICY_GUEST_VIEW_H

#include "budget.h"
#include "../abi/paracord_abi.h"

/*
 * Bits of preempt_count that are set in an NMI, hardirq or softirq handler, but not where softirqs are merely disabled. hardirq and
 * NMI lie in bits 16 to 23, since 7.3 in bits 24 to 31 (include/linux/preempt.h). The guest's mask has the bits of its own layout
 * only: since 7.3, bits 16 to 23 count how often interrupts are disabled, and the mask leaves them out.
 */
#define PC_PREEMPT_COUNT_IRQ	0xffff0100u

/*
 * task_prio of nice -20: the kernel's workers of high priority (kernel/workqueue.c, HIGHPRI_NICE_LEVEL), for example kblockd, which
 * gives requests to disks. A privileged user of the guest can give it to any task.
 */
#define PC_PRIO_HIGHEST_NICE	100

/*
 * preempt_count: the value at preempt_count_gpa; 0 if it was not read. The idle task always runs with preemption off. This does
 * not count as a critical section.
 */
PC_INLINE struct pc_guest_view pc_guest_view_of(struct paracord_context context, u32 preempt_count,
						u32 preempt_count_mask)
{
	struct pc_guest_view view = { .valid = 0 };

	if (context.task_class == PARACORD_TASK_UNKNOWN || context.task_class > PARACORD_TASK_STOP)
		return view;
	view.valid = 1;
	view.rt = context.task_class >= PARACORD_TASK_RT;
	view.irq = context.hardirq || context.softirq || context.nmi ||
		   (preempt_count & preempt_count_mask & PC_PREEMPT_COUNT_IRQ);
	view.urgent = context.task_class == PARACORD_TASK_NORMAL && context.task_prio == PC_PRIO_HIGHEST_NICE;
	view.halting = context.halting != 0;
	view.critical = context.task_class != PARACORD_TASK_IDLE &&
			(context.critical || (preempt_count & preempt_count_mask));
	return view;
}

#endif
