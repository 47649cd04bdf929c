// SPDX-License-Identifier: GPL-2.0-only
/*
 * x86: slot index from the APIC ID, per-CPU preempt_count, a hypercall that KVM
 * does not know, NMI handlers, frequency scale.
 */
#include <linux/kvm_para.h>
#include <linux/topology.h>
#include <linux/version.h>
#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/processor.h>

#include "paracord_guest.h"

/*
 * KVM's vcpu_id is the initial APIC ID. CPUID provides it without the kernel's
 * tables, which differ between kernel versions.
 */
u32 pc_arch_slot_index(void)
{
	if (cpuid_eax(0) >= 0xb) {
		u32 eax, ebx, ecx, edx;

		cpuid_count(0xb, 0, &eax, &ebx, &ecx, &edx);
		if (ebx)	/* level 0 exists: EDX has the x2APIC ID */
			return edx;
	}
	return cpuid_ebx(1) >> 24;
}

const void *pc_arch_preempt_count(struct task_struct *task)
{
#if !defined(CONFIG_PREEMPT_COUNT)
	return NULL;
#elif defined(PC_PREEMPT_COUNT_IN_PCPU_HOT)
	return this_cpu_ptr(&pcpu_hot.preempt_count);
#else
	return this_cpu_ptr(&__preempt_count);
#endif
}

bool pc_arch_kick_possible(void)
{
	/* On another hypervisor, the hypercall instruction means something else or is undefined. */
	return hypervisor_is_type(X86_HYPER_KVM) && kvm_para_available() &&
	       kvm_hypercall0(PARACORD_KICK_HYPERCALL) == -KVM_ENOSYS;
}

/* KVM answers the call in the kernel, with -KVM_ENOSYS. */
void pc_arch_kick(void)
{
	kvm_hypercall0(PARACORD_KICK_HYPERCALL);
}

bool pc_arch_announce_possible(void)
{
	return hypervisor_is_type(X86_HYPER_KVM) && kvm_para_available();
}

bool pc_arch_can_announce(u64 gpa)
{
	return true;
}

/* KVM traces the write and refuses it. The _safe variant handles the #GP. */
void pc_arch_announce(u64 gpa)
{
	wrmsr_safe(PARACORD_ANNOUNCE_MSR, lower_32_bits(gpa), upper_32_bits(gpa));
}

/*
 * NMI handlers run in the order of their list. pc_nmi_first() is at the head of the
 * list, pc_nmi_last() at the tail. Both decline the NMI, so the owner of the NMI still
 * handles it.
 */
static int pc_nmi_first(unsigned int type, struct pt_regs *regs)
{
	pc_context_nmi(true);
	return NMI_DONE;
}

static int pc_nmi_last(unsigned int type, struct pt_regs *regs)
{
	pc_context_nmi(false);
	return NMI_DONE;
}

int pc_arch_nmi_start(void)
{
	int err;

	err = register_nmi_handler(NMI_LOCAL, pc_nmi_last, 0, "paracord_last");
	if (err)
		return err;
	err = register_nmi_handler(NMI_LOCAL, pc_nmi_first, NMI_FLAG_FIRST,
				   "paracord_first");
	if (err)
		unregister_nmi_handler(NMI_LOCAL, "paracord_last");
	return err;
}

void pc_arch_nmi_stop(void)
{
	unregister_nmi_handler(NMI_LOCAL, "paracord_first");
	unregister_nmi_handler(NMI_LOCAL, "paracord_last");
}

/*
 * Returns NULL on a vCPU with APERF and MPERF, because the kernel itself writes the
 * scale there. Also returns NULL before 6.8, because schedutil in those kernels
 * does not compute as pc_arch_reference_khz() expects.
 */
unsigned long *pc_arch_freq_scale(int nr)
{
#if defined(PC_FREQ_SCALE_EXPORTED) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	if (!boot_cpu_has(X86_FEATURE_APERFMPERF))
		return &per_cpu(arch_freq_scale, nr);
#endif
	return NULL;
}

unsigned long *pc_arch_cpu_capacity(int nr)
{
	return NULL;
}

int pc_arch_ticks_start(void)
{
	return -EOPNOTSUPP;
}

void pc_arch_ticks_stop(void)
{
}

/* Without a constant TSC, the kernel (tsc.c) scales the TSC's rate with the frequency, or marks the TSC unstable. */
bool pc_arch_clock_is_constant(void)
{
	return boot_cpu_has(X86_FEATURE_CONSTANT_TSC);
}

/*
 * schedutil does not know that utilisation is invariant, because modules cannot set the
 * static key that tells schedutil. So schedutil scales utilisation by 5/4 of
 * policy->cur (get_capacity_ref_freq()). If policy->cur is 4/5 of max_khz, the product
 * is max_khz.
 */
unsigned int pc_arch_reference_khz(unsigned int max_khz)
{
	return max_khz - max_khz / 5;
}
