/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the guest line in the context of the vCPU thread, whose address space is that of the VMM. Page faults are disabled there.
 * So if a page is absent, an error is counted, and nothing waits for the page.
 */
#ifndef PARACORD_BPF_GUEST_LINE_H
#define PARACORD_BPF_GUEST_LINE_H

/* Maximum depth of the walk. KVM allows 2^15 slots, and a red-black tree of 2^15 slots is at most 30 deep. */
#define PC_MEMSLOT_DEPTH_MAX	40
/* Minimum interval of the walks for a vCPU, because a guest may change preempt_count_gpa as often as it likes. */
#define PC_TRANSLATE_MIN_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_PAGE_SHIFT		12
/* Interval of the looks at the header of an announced region. */
#define PC_HEADER_LOOK_NS	(1000 * PC_NSEC_PER_MSEC)
/* Length of a guest line that includes preempt_count_mask. */
#define PC_LINE_WITH_COUNT_BYTES \
	(__builtin_offsetof(struct paracord_guest_line, preempt_count_mask) + sizeof(u32))

/* The start of struct paracord_guest_line, copied with one read. */
struct guest_words {
	struct paracord_context context;
	u64 preempt_count_gpa;
	u32 preempt_count_mask;
	u32 asks;	/* perf_request, perf_limit */
};

_Static_assert(__builtin_offsetof(struct paracord_guest_line, preempt_count_gpa) == 8, "layout");
_Static_assert(__builtin_offsetof(struct paracord_guest_line, preempt_count_mask) == 16, "layout");
_Static_assert(__builtin_offsetof(struct paracord_guest_line, perf_request) == 20, "layout");
_Static_assert(__builtin_offsetof(struct paracord_guest_line, perf_limit) == 22, "layout");

/* The vCPU that this thread has loaded; NULL: none. KVM is the only user of preempt notifiers. */
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

/*
 * Translates a guest-physical address to an address of the VMM, with the memory slots of KVM. Return: 0 if there is no
 * translation.
 *
 * The function does not hold KVM's SRCU lock. If a walk races with a change of the slots, it may return a wrong address. That
 * address is still in the address space of the VMM, so the result is only a wrong hint.
 */
static __noinline u64 gpa_to_hva(u64 gpa)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct kvm_vcpu *vcpu = task_kvm_vcpu(task);
	struct kvm_memslots *slots;
	struct rb_node *node;
	u64 gfn = gpa >> PC_PAGE_SHIFT;
	u64 node_offset;
	int i;

	if (!vcpu || (gpa & 3) || !bpf_core_field_exists(struct kvm_memslots, gfn_tree))
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

			return start ? start + ((gfn - base) << PC_PAGE_SHIFT) +
				       (gpa & ((1 << PC_PAGE_SHIFT) - 1)) : 0;
		}
	}
	return 0;
}

/* The generation of the memory slots of KVM for this vCPU thread; 0: not known. */
static __always_inline u64 slots_generation(void)
{
	struct kvm_vcpu *vcpu = task_kvm_vcpu((void *)bpf_get_current_task());
	struct kvm_memslots *slots;

	if (!vcpu || !bpf_core_field_exists(struct kvm_memslots, generation))
		return 0;
	slots = BPF_CORE_READ(vcpu, kvm, memslots[0]);
	return slots ? BPF_CORE_READ(slots, generation) : 0;
}

/* Whether the header of the region that the guest has announced is still there, and its driver too. */
static __always_inline bool header_is_there(u64 region_gpa)
{
	u64 hva = gpa_to_hva(region_gpa), magic = 0;
	u32 features = 0;

	return hva &&
	       !bpf_probe_read_user(&magic, sizeof(magic), (void *)hva) && magic == PARACORD_MAGIC &&
	       !bpf_probe_read_user(&features, sizeof(features),
				    (void *)hva + __builtin_offsetof(struct paracord_header, guest_features)) &&
	       features;
}

/*
 * The address in the VMM of the guest line in an announced region; 0: none.
 *
 * The address is kept with the generation of KVM's memory slots. Once a second the region's header is looked at, because a guest
 * that crashes does not withdraw its region, and the next kernel uses that memory for something else.
 */
static __noinline u64 announced_line(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	u64 now = bpf_ktime_get_ns(), generation = slots_generation();

	if (!v || !generation)
		return 0;
	if (v->line_gpa == v->setup.slot_gpa && v->line_generation == generation &&
	    pc_elapsed_ns(now, v->line_checked_ns) < PC_HEADER_LOOK_NS)
		return v->line_hva;
	if (v->line_gpa == v->setup.slot_gpa && pc_elapsed_ns(now, v->line_translate_ns) < PC_TRANSLATE_MIN_NS)
		return 0;
	v->line_translate_ns = now;
	v->line_gpa = v->setup.slot_gpa;
	v->line_generation = 0;
	if (!header_is_there(v->setup.region_gpa))
		return 0;
	v->line_hva = gpa_to_hva(v->line_gpa);
	v->line_checked_ns = now;
	v->line_generation = generation;
	return v->line_hva;
}

/* The address of the guest line in the VMM; 0: none. */
static __always_inline u64 line_address(struct pc_vcpu *v, u32 index)
{
	if (v->setup.slot_hva || !v->setup.slot_gpa)
		return v->setup.slot_hva;
	return announced_line(index);
}

static __always_inline u32 read_preempt_count(struct pc_vcpu *v, u64 gpa, u64 now)
{
	u32 count = 0;

	if (!gpa)
		return 0;
	if (gpa != v->preempt_count_gpa || !v->preempt_count_hva) {
		if (pc_elapsed_ns(now, v->translate_ns) < PC_TRANSLATE_MIN_NS)
			return 0;
		v->translate_ns = now;
		v->preempt_count_gpa = gpa;
		v->preempt_count_hva = gpa_to_hva(gpa);
		if (!v->preempt_count_hva)
			return 0;
	}
	if (bpf_probe_read_user(&count, sizeof(count), (void *)v->preempt_count_hva)) {
		v->preempt_count_hva = 0;	/* moved or not present: translate again next time */
		return 0;
	}
	return count;
}

/* Stores the guest's request. The scheduler reads it at each switch and tick (sched_queue.h), and handles any value. */
static __always_inline void note_request(struct pc_vcpu *v, u32 asks)
{
	if (asks == v->asks)
		return;
	*(volatile u32 *)&v->asks = asks;
	v->counters.requests++;
}

/*
 * Reads the guest's request at an exit that needs nothing else from the line. If the line cannot be read, the guest requests
 * nothing.
 */
static __always_inline void read_request(struct pc_vcpu *v, u32 index)
{
	u64 line = line_address(v, index);
	u32 asks = 0;

	if (!line)
		return;
	if (bpf_probe_read_user(&asks, sizeof(asks),
				(void *)line + __builtin_offsetof(struct paracord_guest_line, perf_request))) {
		asks = 0;
		v->counters.guest_read_errors++;
	}
	note_request(v, asks);
}

/* Refreshes v->guest. Must be called in the context of the vCPU thread. */
static __always_inline void read_guest_line(struct pc_vcpu *v, u32 index, u64 now)
{
	struct guest_words words = {};
	u64 line = 0;
	u32 count = 0;

	if (v->setup.guest_line_bytes >= sizeof(words.context))
		line = line_address(v, index);
	if (!line) {
		v->guest = (struct pc_guest_view){};
		if (v->setup.guest_requests)
			read_request(v, index);
		return;
	}
	if (bpf_probe_read_user(&words, sizeof(words), (void *)line)) {
		v->counters.guest_read_errors++;
		v->guest = (struct pc_guest_view){};
		note_request(v, 0);
		return;
	}
	if (v->setup.guest_requests)
		note_request(v, words.asks);
	if ((v->setup.guest_features & PARACORD_F_PREEMPT_COUNT) &&
	    v->setup.guest_line_bytes >= PC_LINE_WITH_COUNT_BYTES && words.preempt_count_mask)
		count = read_preempt_count(v, words.preempt_count_gpa, now);
	v->guest = pc_guest_view_of(words.context, count, words.preempt_count_mask);
}

#endif
