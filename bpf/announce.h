/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions in the guest's own memory. The guest announces the address of its region to the host by a call that KVM answers by
 * itself (abi/paracord_abi.h, PARACORD_ANNOUNCE_*). The sensor copies the header of the region, and the daemon checks the copy.
 * The daemon then tells the sensor where the guest lines lie, as guest-physical addresses (pc_vcpu_setup.slot_gpa). The daemon
 * itself never accesses the guest's memory. host_line.h writes the host lines there.
 *
 * All programs here run in the context of a vCPU thread. A read of user memory therefore reads the memory of this VMM and of no
 * other process, and page faults are disabled there.
 */
#ifndef PARACORD_BPF_ANNOUNCE_H
#define PARACORD_BPF_ANNOUNCE_H

/* Minimum interval between two announcements of a VM that are looked at. A withdrawal is always looked at. */
#define PC_ANNOUNCE_MIN_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_ANNOUNCE_ADDRESS	(~0xfffull)

_Static_assert(sizeof(struct paracord_header) == PC_HEADER_BYTES, "header");

/* Stores what the guest has announced. The header has been copied. */
static __always_inline void note_announcement(struct pc_announcement *a, u64 gpa, u64 kvm, const struct paracord_header *header,
					      u64 now)
{
	/*
	 * Since 7.0 a program at a tracepoint may be preempted. The exchanges are full barriers on all architectures, which an
	 * addition whose result is not used is not.
	 */
	preempt_off();
	if (__sync_lock_test_and_set(&a->lock, 1)) {
		preempt_on();
		__sync_fetch_and_add(&a->ignored, 1);
		return;
	}
	__sync_lock_test_and_set(&a->sequence, a->sequence + 1);
	a->announced_ns = now;
	a->kvm = kvm;
	__builtin_memcpy(a->header, header, sizeof(a->header));
	*(volatile u64 *)&a->gpa = gpa;
	__sync_lock_test_and_set(&a->sequence, a->sequence + 1);
	__sync_lock_test_and_set(&a->lock, 0);
	preempt_on();
}

/* The record of the announcements of this vCPU's VM; NULL: none are looked at. */
static __always_inline struct pc_announcement *announcement_of(struct pc_vcpu *v)
{
	struct pc_vm *vm;

	/* Before the daemon has set the vCPU up, the record does not say which VM it belongs to. The guest will repeat the call. */
	if (*(volatile u32 *)&v->life != PC_VCPU_READY || !v->setup.may_announce)
		return NULL;
	vm = bpf_map_lookup_elem(&vms, &v->setup.vm);
	if (!vm || vm->tgid != v->tgid)
		return NULL;
	return bpf_map_lookup_elem(&announcements, &v->setup.vm);
}

static __noinline int announced(u64 value)
{
	u32 index, cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	u64 gpa = value & PC_ANNOUNCE_ADDRESS, now, hva, kvm = 0, generation = 0;
	u32 slot_flags = 0;
	struct paracord_header header;
	struct pc_announcement *a;
	struct pc_vcpu *v;

	if (!here || !here->running)
		return 0;
	index = here->running - 1;
	v = bpf_map_lookup_elem(&vcpus, &index);
	/* Since 7.0 a program at this tracepoint may be preempted, and the thread may meanwhile have moved to another CPU. */
	if (!v || v->task != bpf_get_current_task())
		return 0;
	a = announcement_of(v);
	if (!a)
		return 0;
	__sync_fetch_and_add(&a->count, 1);
	if (!gpa) {
		/* Not under the lock: no withdrawal may be lost. */
		*(volatile u64 *)&a->gpa = 0;
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (pc_elapsed_ns(now, *(volatile u64 *)&a->looked_ns) < PC_ANNOUNCE_MIN_NS) {
		__sync_fetch_and_add(&a->ignored, 1);
		return 0;
	}
	*(volatile u64 *)&a->looked_ns = now;
	/* The generation first: if the slots change meanwhile, the address is never used with the new generation. */
	hva = slots_now(&kvm, &generation) ? memory_at(gpa, &slot_flags) : 0;
	if (!hva || bpf_probe_read_user(&header, sizeof(header), (void *)hva)) {
		/* A page that is not present now, for example because it was swapped out, does not end what was announced before. */
		__sync_fetch_and_add(&a->unreadable, 1);
		if (a->gpa != gpa)
			*(volatile u64 *)&a->gpa = 0;
		return 0;
	}
	note_announcement(a, gpa, kvm, &header, now);
	/* The next exit of this vCPU answers in its host line. */
	v->line.announcement = header.guest_announcements;
	v->line.written = PC_HOST_LINE_AGAIN;
	/* The daemon has checked the region at region_gpa only. */
	if (writes_guests && v->setup.writes & PC_WRITE_DOMAINS && gpa == v->setup.region_gpa &&
	    !(slot_flags & PC_KVM_MEM_READONLY))
		start_domain_pass(v, hva, kvm, generation, header.guest_announcements, now);
	return 0;
}

/*
 * x86: an attempt to write an MSR, at privilege level 0. Arguments of the tracepoint: write, ecx, data, exception. VMMs that ask
 * KVM for all unknown MSRs take the exit themselves, and nothing is traced.
 */
SEC("raw_tp/kvm_msr")
int sensor_announce_msr(u64 *ctx)
{
	if (!(u32)ctx[0] || (u32)ctx[1] != PARACORD_ANNOUNCE_MSR)
		return 0;
	return announced(ctx[2]);
}

/* arm64: a hypervisor call of the guest's kernel. Arguments: program counter, x0, immediate. */
SEC("raw_tp/kvm_hvc_arm64")
int sensor_announce_hvc(u64 *ctx)
{
	u64 x0 = ctx[1];

	if ((u32)x0 != PARACORD_ANNOUNCE_HVC)
		return 0;
	return announced(x0 >> 32 << PC_PAGE_SHIFT);
}

#endif
