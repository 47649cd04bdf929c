// SPDX-License-Identifier: GPL-2.0-only
/* arm64: slot index from MPIDR, preempt_count in the task, frequency scale at ticks. There are no NMI handlers. */
#include <linux/arch_topology.h>
#include <linux/arm-smccc.h>
#include <linux/of.h>
#include <linux/thread_info.h>
#include <asm/cputype.h>
#include <asm/hypervisor.h>

#include "paracord_guest.h"

/*
 * KVM derives MPIDR from vcpu_id: Aff0 has bits 3..0, Aff1 has bits 11..4,
 * Aff2 has bits 19..12 (reset_mpidr() in arch/arm64/kvm/sys_regs.c).
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
	/* KVM handles calls in its own range of function numbers only if it has advertised this range at the guest's boot. */
	return kvm_arm_hyp_service_available(ARM_SMCCC_KVM_FUNC_FEATURES);
}

/* The cheapest call without a side effect: KVM lists its services (kvm_smccc_call_handler()). */
void pc_arch_kick(void)
{
	struct arm_smccc_res unused;

	BUILD_BUG_ON(ARM_SMCCC_VENDOR_HYP_KVM_FEATURES_FUNC_ID != PARACORD_KICK_HVC);
	arm_smccc_1_1_hvc(PARACORD_KICK_HVC, &unused);
}

bool pc_arch_announce_possible(void)
{
	return pc_arch_kick_possible();
}

/* The call has room for 32 bits of the shifted address, enough for 16 TiB. */
bool pc_arch_can_announce(u64 gpa)
{
	return !(gpa >> PARACORD_ANNOUNCE_SHIFT >> 32);
}

/* Does not use arm_smccc_1_1_hvc(), which may reduce the function number to its lower 32 bits. */
void pc_arch_announce(u64 gpa)
{
	struct arm_smccc_res unused;

	arm_smccc_hvc(PARACORD_ANNOUNCE_HVC | gpa >> PARACORD_ANNOUNCE_SHIFT << 32, 0, 0, 0, 0, 0, 0, 0, &unused);
}

int pc_arch_nmi_start(void)
{
	return -EOPNOTSUPP;
}

void pc_arch_nmi_stop(void)
{
}

/*
 * Kernels before 6.13 have no SCALE_FREQ_SOURCE_VIRT. On these kernels, the driver uses the
 * source for CPPC firmware, which is free unless a cpufreq driver for CPPC is loaded.
 */
#ifdef PC_SCALE_FREQ_SOURCE_VIRT
#define PC_SCALE_FREQ_SOURCE	SCALE_FREQ_SOURCE_VIRT
#else
#define PC_SCALE_FREQ_SOURCE	SCALE_FREQ_SOURCE_CPPC
#endif

static struct scale_freq_data pc_scale_freq = {
	.source = PC_SCALE_FREQ_SOURCE,
	.set_freq_scale = pc_invariance_look,
};

unsigned long *pc_arch_freq_scale(int nr)
{
	return &per_cpu(arch_freq_scale, nr);
}

unsigned long *pc_arch_cpu_capacity(int nr)
{
	struct device_node *node = of_get_cpu_node(nr, NULL);
	bool told = of_find_property(node, "capacity-dmips-mhz", NULL);

	of_node_put(node);
	return told ? NULL : &per_cpu(cpu_scale, nr);
}

int pc_arch_ticks_start(void)
{
	topology_set_scale_freq_source(&pc_scale_freq, cpu_possible_mask);
	return 0;
}

void pc_arch_ticks_stop(void)
{
	topology_clear_scale_freq_source(PC_SCALE_FREQ_SOURCE, cpu_possible_mask);
}

bool pc_arch_clock_is_constant(void)
{
	return true;
}

unsigned int pc_arch_reference_khz(unsigned int max_khz)
{
	return 0;
}
