/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Translates guest-physical addresses to addresses in the VMM, using KVM's memory slots.
 *
 * Addresses are translated only at VM exits, because the kernel offers bpf_find_vma() to tracing programs but not to the
 * scheduler's operations. The results are stored together with the VM and the generation of its memory slots, and are valid as
 * long as both stay the same. If a VMM removes memory from a VM, the generation changes before the VMM can use the addresses for
 * something else.
 */
#ifndef PARACORD_BPF_TRANSLATE_H
#define PARACORD_BPF_TRANSLATE_H

/*
 * Maximum depth of the walk through the tree of memory slots. KVM allows 2^15 slots, and a red-black tree of 2^15 slots is at
 * most 30 deep.
 */
#define PC_MEMSLOT_DEPTH_MAX	40
/*
 * Minimum interval between two translations for a vCPU. Without this limit, a guest could cause any number of translations by
 * changing its addresses.
 */
#define PC_TRANSLATE_MIN_NS	(100 * PC_NSEC_PER_MSEC)
/* kvm_memory_slot.flags (include/uapi/linux/kvm.h): a write by the guest causes an exit to the VMM, as for a ROM */
#define PC_KVM_MEM_READONLY	(1u << 1)
/* vm_area_struct.vm_flags (include/linux/mm.h) */
#define PC_VM_PFNMAP		0x00000400ul
#define PC_VM_IO		0x00004000ul

/* log2 of the host's page size. KVM's memory slots consist of such pages, whatever pages the guest uses. Set before loading. */
const volatile u32 page_shift SEC(".rodata.pages");

/* Return: the vCPU that a thread has loaded; NULL: none. KVM is the only user of preempt notifiers. */
static __always_inline struct kvm_vcpu *task_kvm_vcpu(struct task_struct *task)
{
	struct hlist_node *node;

	if (!bpf_core_type_exists(struct kvm_vcpu) ||
	    !bpf_core_field_exists(task->preempt_notifiers))
		return NULL;
	node = BPF_CORE_READ(task, preempt_notifiers.first);
	if (!node)
		return NULL;
	return (void *)node - bpf_core_field_offset(struct kvm_vcpu, preempt_notifier);
}

/* Gets the VM of this vCPU thread, and the generation of the VM's memory slots. Return: false if they are not known. */
static __always_inline bool slots_now(u64 *kvm, u64 *generation)
{
	struct kvm_vcpu *vcpu = task_kvm_vcpu((void *)bpf_get_current_task());
	struct kvm_memslots *slots;
	struct kvm *vm;

	if (!vcpu || !bpf_core_field_exists(struct kvm_memslots, gfn_tree))
		return false;
	vm = BPF_CORE_READ(vcpu, kvm);
	slots = BPF_CORE_READ(vm, memslots[0]);
	if (!slots)
		return false;
	*kvm = (u64)vm;
	*generation = BPF_CORE_READ(slots, generation);
	return true;
}

/*
 * Whether the translated addresses of this vCPU may be used. If they may not be used, they are translated again at the next VM
 * exit. Must be called by the vCPU's thread.
 */
static __always_inline bool translations_hold(struct pc_vcpu *v)
{
	u64 kvm = 0, generation = 0;

	if (slots_now(&kvm, &generation) && v->slots_kvm == kvm && v->slots_generation == generation)
		return true;
	v->translate = 1;
	return false;
}

/*
 * Return: the address in the VMM that corresponds to a guest-physical address; 0: there is none.
 *
 * The function does not hold KVM's SRCU lock. If the walk races with a change of the slots, the function may return a wrong
 * address. That address is still in the address space of the VMM, so a read from it results only in a wrong hint.
 *
 * `slot_flags`: kvm_memory_slot.flags. Set if the return value is not 0.
 */
static __noinline u64 gpa_to_hva(u64 gpa, u32 *slot_flags)
{
	struct kvm_vcpu *vcpu = task_kvm_vcpu((void *)bpf_get_current_task());
	struct kvm_memslots *slots;
	struct rb_node *node;
	u64 gfn = gpa >> page_shift;
	u64 node_offset;
	int i;

	if (!page_shift || !vcpu || (gpa & 3) || !bpf_core_field_exists(struct kvm_memslots, gfn_tree))
		return 0;
	slots = BPF_CORE_READ(vcpu, kvm, memslots[0]);
	if (!slots)
		return 0;
	node_offset = bpf_core_field_offset(struct kvm_memory_slot, gfn_node) +
		      (BPF_CORE_READ(slots, node_idx) & 1) * bpf_core_type_size(struct rb_node);
	node = BPF_CORE_READ(slots, gfn_tree.rb_node);

	for (i = 0; i < PC_MEMSLOT_DEPTH_MAX && node; i++) {
		struct kvm_memory_slot *slot = (void *)node - node_offset;
		u64 base = BPF_CORE_READ(slot, base_gfn);

		if (gfn < base) {
			node = BPF_CORE_READ(node, rb_left);
		} else if (gfn - base >= BPF_CORE_READ(slot, npages)) {
			node = BPF_CORE_READ(node, rb_right);
		} else {
			u64 start = BPF_CORE_READ(slot, userspace_addr);

			*slot_flags = BPF_CORE_READ(slot, flags);
			return start ? start + gpa - (base << page_shift) : 0;
		}
	}
	return 0;
}

struct pc_vma_look {
	u64 flags;
	u32 found;
};

static long note_vma(struct task_struct *task, struct vm_area_struct *vma, struct pc_vma_look *look)
{
	look->flags = BPF_CORE_READ(vma, vm_flags);
	look->found = 1;
	return 0;
}

/*
 * Like gpa_to_hva(), but only for ordinary memory. If the VMM passes a device through to the guest, memory slots also contain the
 * registers of the device. A read of a device register may have side effects. On some arm64 machines, such a read causes an error
 * that the kernel does not survive.
 */
static __always_inline u64 memory_at(u64 gpa, u32 *slot_flags)
{
	struct pc_vma_look look = {};
	u64 hva = gpa_to_hva(gpa, slot_flags);

	if (!hva || !bpf_core_field_exists(struct kvm_memslots, gfn_tree))
		return 0;
	if (bpf_find_vma(bpf_get_current_task_btf(), hva, note_vma, &look, 0) || !look.found)
		return 0;
	return look.flags & (PC_VM_IO | PC_VM_PFNMAP) ? 0 : hva;
}

/*
 * Called if the content of the host line is no longer known. If the sensor has written the line before, it does not write the
 * line again until the next announcement.
 */
static __always_inline void leave_line(struct pc_vcpu *v)
{
	if (v->line.known)
		v->line.left_ns = v->announced_ns;
	v->line.known = 0;
}

/* Translates the addresses of a vCPU again. Must be called at a VM exit of the vCPU's thread. Return: 0. */
static __noinline int translate(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	u64 now = bpf_ktime_get_ns(), kvm = 0, generation = 0;
	u64 before = v ? v->line_gpa : 0, gpa;
	u32 flags = 0;

	if (!v || pc_elapsed_ns(now, v->translate_ns) < PC_TRANSLATE_MIN_NS)
		return 0;
	v->translate_ns = now;
	v->translate = 0;
	v->line_gpa = 0;
	v->line_writable = 0;
	v->preempt_count_hva = 0;
	if (!slots_now(&kvm, &generation))
		return 0;
	/* See host_line.h. A line at another address, or in other memory slots, may contain anything. */
	v->line.written = PC_HOST_LINE_AGAIN;
	/* The daemon may change the setup at any time, so read the address only once. */
	gpa = READ_ONCE(v->setup.slot_gpa);
	if (gpa != before || v->slots_kvm != kvm || v->slots_generation != generation)
		leave_line(v);
	v->slots_kvm = kvm;
	v->slots_generation = generation;
	if (gpa) {
		v->line_hva = memory_at(gpa, &flags);
		v->line_gpa = v->line_hva ? gpa : 0;
		/*
		 * The host line follows the guest line. Both must lie in the same page, because the VMM may keep anything in the
		 * next page.
		 */
		v->line_writable = v->line_hva && !(flags & PC_KVM_MEM_READONLY) &&
				   !(v->line_hva & (2 * PARACORD_LINE_BYTES - 1));
	}
	if (v->preempt_count_gpa)
		v->preempt_count_hva = memory_at(v->preempt_count_gpa, &flags);
	return 0;
}

#endif
