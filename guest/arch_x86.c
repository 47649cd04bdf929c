// SPDX-License-Identifier: GPL-2.0-only
/*
 * x86: APIC ID, per-CPU preempt_count, the hypercall that KVM does not know,
 * NMI handlers, frequency scale.
 */
#include <linux/kvm_para.h>
#include <linux/topology.h>
#include <linux/version.h>
#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/nmi.h>
#include <asm/processor.h>

#include "paracord_guest.h"

/*
 * No hypercall has this number: KVM answers -KVM_ENOSYS in the kernel, and the
 * VM exit is all that is wanted.
 */
#define PC_KICK_HYPERCALL	0x50434b	/* "PCK" */

/*
 * KVM's vcpu_id is the initial APIC ID. CPUID tells it without the kernel's
 * tables, which have moved between versions.
 */
u32 pc_arch_slot_index(void)
{
	if (cpuid_eax(0) >= 0xb) {
		u32 eax, ebx, ecx, edx;

		cpuid_count(0xb, 0, &eax, &ebx, &ecx, &edx);
		if (ebx)	/* level 0 exists: x2APIC ID in EDX */
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
	/* Elsewhere the instruction means something else, or is undefined. */
	return hypervisor_is_type(X86_HYPER_KVM) && kvm_para_available() &&
	       kvm_hypercall0(PC_KICK_HYPERCALL) == -KVM_ENOSYS;
}

void pc_arch_kick(void)
{
	kvm_hypercall0(PC_KICK_HYPERCALL);
}

/*
 * Handlers run in the order of the list: one sits at its head, the other at
 * its tail. Both decline the NMI, so whoever owns it still gets it.
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
 * A vCPU with APERF and MPERF has the kernel's own writer. 6.8 is where schedutil
 * became what pc_arch_reference_khz() counts on.
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

/* Else tsc.c scales the TSC's rate with the frequency, or takes it for unstable. */
bool pc_arch_clock_is_constant(void)
{
	return boot_cpu_has(X86_FEATURE_CONSTANT_TSC);
}

/*
 * What runs at policy->cur is taken for a share of it, and a quarter added for not being
 * sure of it (get_capacity_ref_freq()). Nobody but the kernel can set the key that says otherwise.
 */
unsigned int pc_arch_reference_khz(unsigned int max_khz)
{
	return max_khz - max_khz / 5;
}
