// SPDX-License-Identifier: GPL-2.0-only
/* arm64: MPIDR, preempt_count in the task; no kick yet, no NMI handlers. */
#include <linux/thread_info.h>
#include <asm/cputype.h>

#include "paracord_guest.h"

/*
 * KVM makes MPIDR out of vcpu_id: Aff0 has bits 3..0, Aff1 bits 11..4,
 * Aff2 bits 19..12 (reset_mpidr() in arch/arm64/kvm/sys_regs.c).
 */
u32 pc_arch_slot_index(void)
{
	u64 mpidr = read_cpuid_mpidr();

	return MPIDR_AFFINITY_LEVEL(mpidr, 0) |
	       MPIDR_AFFINITY_LEVEL(mpidr, 1) << 4 |
	       MPIDR_AFFINITY_LEVEL(mpidr, 2) << 12;
}

const void *pc_arch_preempt_count(struct task_struct *task)
{
#ifdef CONFIG_PREEMPT_COUNT
	return &task_thread_info(task)->preempt.count;
#else
	return NULL;
#endif
}

bool pc_arch_kick_possible(void)
{
	return false;
}

void pc_arch_kick(void)
{
}

int pc_arch_nmi_start(void)
{
	return -EOPNOTSUPP;
}

void pc_arch_nmi_stop(void)
{
}
