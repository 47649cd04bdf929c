/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Regions in the guest's own memory. The guest announces the address of its region to the host by a call that KVM answers by
 * itself (abi/paracord_abi.h, PARACORD_ANNOUNCE_*). The sensor copies the header of the region, and the daemon checks the copy.
 * The daemon then tells the sensor where the guest lines lie, as guest-physical addresses (pc_vcpu_setup.slot_gpa). The daemon
 * itself never accesses the guest's memory.
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_VMS_MAX);
	__type(key, u32);
	__type(value, struct pc_announcement);
} announcements SEC(".maps");

/* Stores what the guest has announced. `gpa`: 0 withdraws the region. */
static __always_inline void note_announcement(struct pc_announcement *a, u64 gpa, u64 now)
{
	u64 hva = gpa ? gpa_to_hva(gpa) : 0;

	__sync_fetch_and_add(&a->sequence, 1);
	a->announced_ns = now;
	if (gpa && (!hva || bpf_probe_read_user(a->header, sizeof(a->header), (void *)hva))) {
		a->unreadable++;
		gpa = 0;
	}
	a->gpa = gpa;
	__sync_fetch_and_add(&a->sequence, 1);
}

static __noinline int announced(u64 value)
{
	u32 index, cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	u64 gpa = value & PC_ANNOUNCE_ADDRESS, now;
	struct pc_announcement *a;
	struct pc_vcpu *v;

	if (!here || !here->running)
		return 0;
	index = here->running - 1;
	v = bpf_map_lookup_elem(&vcpus, &index);
	/* Before the daemon has set the vCPU up, the record does not say which VM it belongs to. The guest will repeat the call. */
	if (!v || *(volatile u32 *)&v->life != PC_VCPU_READY || v->setup.io)
		return 0;
	a = bpf_map_lookup_elem(&announcements, &v->setup.vm);
	if (!a)
		return 0;
	now = bpf_ktime_get_ns();
	__sync_fetch_and_add(&a->count, 1);
	if (gpa && pc_elapsed_ns(now, *(volatile u64 *)&a->announced_ns) < PC_ANNOUNCE_MIN_NS) {
		__sync_fetch_and_add(&a->ignored, 1);
		return 0;
	}
	if (__sync_lock_test_and_set(&a->lock, 1))
		return 0;
	note_announcement(a, gpa, now);
	*(volatile u32 *)&a->lock = 0;
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
