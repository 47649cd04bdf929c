/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/*
 * The program of pc_vms's guests. It asks the process, with an exit, whether to announce. If so, it announces, and loops
 * for a while, so that the memory can be taken before the exit at which the host would answer. A guest that counts then
 * kicks twice, and loops between the two kicks: at the first kick, the host copies the request, and at the second one it
 * writes the answer. Then the program begins anew.
 */
#ifndef PC_VMS_GUEST_H
#define PC_VMS_GUEST_H

#include <errno.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "paracord_abi.h"

#define PAGE		4096u
#define CODE_BYTES	(4 * PAGE)

static int need(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "pc_vms: %s: %s\n", what, strerror(errno));
		exit(1);
	}
	return result;
}

#if defined(__x86_64__)
#define CODE_GPA	0
#define REGION_GPA	0x100000ull
#define START		0x1000
#define FAULT		0x2000
#define VECTOR_GP	13

static void load_guest(int vm, int vcpu, uint8_t *code, bool kicks)
{
	static const uint8_t announce[] = {
		0xe4, 0x10,			/* in al, 0x10 */
		0x84, 0xc0, 0x74, 0xfa,		/* nothing to announce: begin anew */
		0x66, 0xb9, 0, 0, 0, 0,		/* mov ecx, PARACORD_ANNOUNCE_MSR */
		0x66, 0xb8, 0, 0, 0, 0,		/* mov eax, REGION_GPA */
		0x66, 0x31, 0xd2, 0x0f, 0x30,	/* xor edx, edx; wrmsr */
		0x66, 0xb9, 0, 0, 8, 0,		/* mov ecx, 0x80000 */
		0x67, 0xe2, 0xfd,		/* loop */
	};
	static const uint8_t kick_twice[] = {
		0x66, 0xb8, 0, 0, 0, 0,		/* mov eax, PARACORD_KICK_HYPERCALL */
		0x0f, 0x01, 0xd9,		/* vmmcall; KVM replaces it on Intel's CPUs */
		0x66, 0xb9, 0, 0, 8, 0,		/* mov ecx, 0x80000 */
		0x67, 0xe2, 0xfd,		/* loop */
		0x66, 0xb8, 0, 0, 0, 0,		/* mov eax, PARACORD_KICK_HYPERCALL */
		0x0f, 0x01, 0xd9,		/* vmmcall */
	};
	static const uint8_t begin_anew[] = { 0xe9, 0, 0 };
	/* KVM refuses the MSR: continue behind the instruction. */
	static const uint8_t fault[] = { 0x55, 0x89, 0xe5, 0x83, 0x46, 0x02, 0x02, 0x5d, 0xcf };
	const uint32_t msr = PARACORD_ANNOUNCE_MSR, gpa = REGION_GPA, kick = PARACORD_KICK_HYPERCALL;
	const uint16_t vector[] = { FAULT, 0 };
	struct kvm_sregs system;
	struct kvm_regs regs = { .rip = START, .rsp = 0x3f00, .rflags = 2 };
	uint8_t *at = code + START;
	int16_t back;

	memcpy(at, announce, sizeof(announce));
	memcpy(at + 8, &msr, sizeof(msr));
	memcpy(at + 14, &gpa, sizeof(gpa));
	at += sizeof(announce);
	if (kicks) {
		memcpy(at, kick_twice, sizeof(kick_twice));
		memcpy(at + 2, &kick, sizeof(kick));
		memcpy(at + 20, &kick, sizeof(kick));
		at += sizeof(kick_twice);
	}
	memcpy(at, begin_anew, sizeof(begin_anew));
	back = (int16_t)(code + START - (at + sizeof(begin_anew)));
	memcpy(at + 1, &back, sizeof(back));
	memcpy(code + FAULT, fault, sizeof(fault));
	memcpy(code + 4 * VECTOR_GP, vector, sizeof(vector));
	need(ioctl(vcpu, KVM_GET_SREGS, &system), "KVM_GET_SREGS");
	system.cs.base = 0;
	system.cs.selector = 0;
	need(ioctl(vcpu, KVM_SET_SREGS, &system), "KVM_SET_SREGS");
	need(ioctl(vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	(void)vm;
}

/* Gives the program the answer to its exit. Return: false if it made another exit. */
static bool answer_guest(struct kvm_run *run, uint8_t what)
{
	if (run->exit_reason != KVM_EXIT_IO)
		return false;
	*((uint8_t *)run + run->io.data_offset) = what;
	return true;
}
#else
#define CODE_GPA	0x40000000ull
#define REGION_GPA	0x50000000ull
#define DEVICE_GPA	0x9000000ull

static void set_register(int vcpu, uint64_t number, uint64_t value)
{
	struct kvm_one_reg reg = {
		.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | number, .addr = (uintptr_t)&value,
	};

	need(ioctl(vcpu, KVM_SET_ONE_REG, &reg), "KVM_SET_ONE_REG");
}

static void load_guest(int vm, int vcpu, uint8_t *code, bool kicks)
{
	static const uint32_t announce[] = {
		0x39400264,	/* ldrb w4, [x19] */
		0x34ffffe4,	/* nothing to announce: begin anew */
		0xaa1403e0,	/* mov x0, x20 */
		0xd4000002,	/* hvc #0 */
		0x52a00105,	/* mov w5, 0x80000 */
		0x710004a5,	/* subs w5, w5, 1 */
		0x54ffffe1,	/* loop */
	};
	static const uint32_t kick_twice[] = {
		0xaa1503e0,	/* mov x0, x21 */
		0xd4000002,	/* hvc #0 */
		0x52a00105,	/* mov w5, 0x80000 */
		0x710004a5,	/* subs w5, w5, 1 */
		0x54ffffe1,	/* loop */
		0xaa1503e0,	/* mov x0, x21 */
		0xd4000002,	/* hvc #0 */
	};
	uint8_t *at = code;
	struct kvm_vcpu_init init;
	uint32_t begin_anew;

	memcpy(at, announce, sizeof(announce));
	at += sizeof(announce);
	if (kicks) {
		memcpy(at, kick_twice, sizeof(kick_twice));
		at += sizeof(kick_twice);
	}
	/* A branch; the lower bits have its distance in instructions. */
	begin_anew = 0x14000000 | ((uint32_t)((code - at) / 4) & 0x3ffffff);
	memcpy(at, &begin_anew, sizeof(begin_anew));
	need(ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init), "KVM_ARM_PREFERRED_TARGET");
	need(ioctl(vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT");
	set_register(vcpu, KVM_REG_ARM_CORE_REG(regs.regs[19]), DEVICE_GPA);
	set_register(vcpu, KVM_REG_ARM_CORE_REG(regs.regs[20]), PARACORD_ANNOUNCE_HVC | REGION_GPA >> 12 << 32);
	set_register(vcpu, KVM_REG_ARM_CORE_REG(regs.regs[21]), PARACORD_KICK_HVC);
	set_register(vcpu, KVM_REG_ARM_CORE_REG(regs.pc), CODE_GPA);
}

/* Gives the program the answer to its exit. Return: false if it made another exit. */
static bool answer_guest(struct kvm_run *run, uint8_t what)
{
	if (run->exit_reason != KVM_EXIT_MMIO)
		return false;
	run->mmio.data[0] = what;
	return true;
}
#endif

#endif
