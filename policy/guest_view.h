/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From the guest's bytes to the checked copy that the policy looks at. The
 * bytes were copied once by the caller and are hostile: every value of every
 * byte gives a view, and the view holds only 0 and 1.
 */
#ifndef PARACORD_POLICY_GUEST_VIEW_H
#define PARACORD_POLICY_GUEST_VIEW_H

#include "budget.h"
#include "../abi/paracord_abi.h"

/* In a handler of an NMI, of a hard interrupt, of a softirq (not: softirqs off). */
#define PC_PREEMPT_COUNT_IRQ	0x00ff0100u

/*
 * preempt_count: what *preempt_count_gpa held, 0 when it was not read.
 * The idle task runs with preemption off: that is not a critical section.
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
	view.halting = context.halting != 0;
	view.critical = context.task_class != PARACORD_TASK_IDLE &&
			(context.critical || (preempt_count & preempt_count_mask));
	return view;
}

#endif
