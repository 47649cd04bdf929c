/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions in the guest's own memory. The guest announces the address of its region to the host by an MSR write or a hypervisor
 * call, which KVM itself answers (abi/paracord_abi.h, PARACORD_ANNOUNCE_*). The sensor copies the header of the region, and the
 * daemon checks the copy. The daemon then tells the sensor where the guest lines lie, as guest-physical addresses
 * (pc_vcpu_setup.slot_gpa). The daemon itself never accesses the guest's memory. The functions in host_line.h write the host
 * lines into the region.
 *
 * All programs in this file run in the context of a vCPU thread. When they read user memory, they therefore read the memory of
 * this thread's VMM, and never that of another process. Page faults are disabled during such a read.
 */
#ifndef PARACORD_BPF_ANNOUNCE_H
#define PARACORD_BPF_ANNOUNCE_H

/* Minimum interval between two processed announcements of a VM. A withdrawal is always processed. */
#define PC_ANNOUNCE_MIN_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_ANNOUNCE_ADDRESS	(~0ull << PARACORD_ANNOUNCE_SHIFT)
/* KVM_ARM_VCPU_HAS_EL2 (arch/arm64/include/uapi/asm/kvm.h) */
#define PC_KVM_ARM_HAS_EL2	(1ul << 7)

_Static_assert(sizeof(struct paracord_header) == PC_HEADER_BYTES, "header");

/* Stores an announcement in the record `a`. `header`: copy of the header of the announced region. */
static __always_inline void note_announcement(struct pc_announcement *a, u64 gpa, u64 kvm, const struct paracord_header *header,
					      u64 now)
{
	/*
	 * Disable preemption, because since Linux 7.0, a program at a tracepoint may be preempted. Use atomic exchanges: they are
	 * full barriers on all architectures. An atomic addition whose result is not used is not always a barrier.
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
	WRITE_ONCE(a->gpa, gpa);
	__sync_lock_test_and_set(&a->sequence, a->sequence + 1);
	__sync_lock_test_and_set(&a->lock, 0);
	preempt_on();
}

/* Return: the record of the announcements of this vCPU's VM; NULL if announcements of this VM are ignored. */
static __always_inline struct pc_announcement *announcement_of(struct pc_vcpu *v)
{
	struct pc_vm *vm;

	/*
	 * Until the daemon has set up the vCPU, the record of the vCPU does not show to which VM the vCPU belongs. Until then,
	 * ignore announcements. The guest will repeat them.
	 */
	if (READ_ONCE(v->life) != PC_VCPU_READY || !v->setup.may_announce)
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
	/* Since Linux 7.0, a program at this tracepoint may be preempted, so the thread may have moved to another CPU. */
	if (!v || v->task != bpf_get_current_task())
		return 0;
	a = announcement_of(v);
	if (!a)
		return 0;
	__sync_fetch_and_add(&a->count, 1);
	if (!gpa) {
		/* Do not take the lock. If another vCPU held the lock, the withdrawal would be lost. */
		WRITE_ONCE(a->gpa, 0);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (pc_elapsed_ns(now, READ_ONCE(a->looked_ns)) < PC_ANNOUNCE_MIN_NS) {
		__sync_fetch_and_add(&a->ignored, 1);
		return 0;
	}
	WRITE_ONCE(a->looked_ns, now);
	/*
	 * Read the generation of the memory slots before translating the address. If the slots change in between, the translated
	 * address is stored with the old generation, and is therefore never used.
	 */
	hva = slots_now(&kvm, &generation) ? memory_at(gpa, &slot_flags) : 0;
	if (!hva || bpf_probe_read_user(&header, sizeof(header), (void *)hva)) {
		/*
		 * If the page is not present, for example because it was swapped out, an earlier announcement of the same address
		 * remains valid.
		 */
		__sync_fetch_and_add(&a->unreadable, 1);
		if (a->gpa != gpa)
			WRITE_ONCE(a->gpa, 0);
		return 0;
	}
	note_announcement(a, gpa, kvm, &header, now);
	/*
	 * The host answers the announcement with the number of the announcement. At the vCPU's next exit, the sensor writes this
	 * number into the vCPU's host line, which is the part of the vCPU's slot that only the host writes.
	 */
	v->line.announcement = header.guest_announcements;
	v->line.written = PC_HOST_LINE_AGAIN;
	/* Write domains only into the region at region_gpa, because the daemon has checked no other region. */
	if (writes_guests && v->setup.writes & PC_WRITE_DOMAINS && gpa == v->setup.region_gpa &&
	    !(slot_flags & PC_KVM_MEM_READONLY))
		start_domain_pass(v, hva, kvm, generation, header.guest_announcements, now);
	return 0;
}

/*
 * x86: the guest's kernel has read or written an MSR, or has tried to. Arguments of the tracepoint: write, ecx, data, exception.
 * If a VMM has asked KVM to forward accesses to unknown MSRs, the VMM handles the exit itself, and KVM does not trace the access.
 */
SEC("raw_tp/kvm_msr")
int sensor_announce_msr(u64 *ctx)
{
	if (!(u32)ctx[0] || (u32)ctx[1] != PARACORD_ANNOUNCE_MSR)
		return 0;
	return announced(ctx[2]);
}

/*
 * arm64: whether the vCPU has EL2, and can therefore run guests of its own. KVM traces the hypervisor calls of these nested guests
 * like those of the vCPU's own kernel, and hands both to that kernel. So a nested guest could announce any address in the memory of
 * the guest that runs it.
 */
static __always_inline bool has_el2(void)
{
	struct kvm_vcpu *vcpu = task_kvm_vcpu((void *)bpf_get_current_task());

	return vcpu && bpf_core_field_exists(struct kvm_arch, vcpu_features) &&
	       BPF_CORE_READ(vcpu, kvm, arch.vcpu_features[0]) & PC_KVM_ARM_HAS_EL2;
}

/* arm64: the guest's kernel has made a hypervisor call. Arguments of the tracepoint: program counter, x0, immediate. */
SEC("raw_tp/kvm_hvc_arm64")
int sensor_announce_hvc(u64 *ctx)
{
	u64 x0 = ctx[1];

	if ((u32)x0 != PARACORD_ANNOUNCE_HVC || has_el2())
		return 0;
	return announced(x0 >> 32 << PARACORD_ANNOUNCE_SHIFT);
}

#endif
