/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the guest line in the context of the vCPU thread, whose address space is that of the VMM. Page faults are disabled during
 * the read. So if a page is absent, the sensor counts an error and does not wait for the page.
 */
#ifndef PARACORD_BPF_GUEST_LINE_H
#define PARACORD_BPF_GUEST_LINE_H

#include "translate.h"

/*
 * If a vCPU has run for this long since the last announcement of its VM's region, its guest line is ignored. The guest repeats
 * the announcement every second.
 */
#define PC_ANNOUNCED_MAX_NS	(5000 * PC_NSEC_PER_MSEC)
/*
 * Minimum interval between two reads of the guest's performance request if the guest line lies in the guest's own memory. By
 * default, the guest's governor does not change its request more often than this.
 */
#define PC_REQUEST_LOOK_NS	PC_NSEC_PER_MSEC
/* Size of the shortest guest line that includes preempt_count_mask. */
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

/*
 * Whether the region of this vCPU's VM is still announced. A guest that crashes or reboots does not withdraw its region, and its
 * last hints stay in memory. So an announcement is valid only until the vCPU has run for `max_ns` after the announcement. A
 * running guest repeats its announcement before this time has passed.
 */
static __always_inline bool is_announced(struct pc_vcpu *v, u64 now, u64 max_ns)
{
	struct pc_announcement *a = bpf_map_lookup_elem(&announcements, &v->setup.vm);
	u64 ran = v->counters.running_ns, announced_ns;

	if (!a || READ_ONCE(a->gpa) != v->setup.region_gpa || a->kvm != v->slots_kvm)
		return false;
	if (v->on_cpu)
		ran += pc_elapsed_ns(now, v->run_since_ns);
	announced_ns = READ_ONCE(a->announced_ns);
	if (announced_ns != v->announced_ns) {
		v->announced_ns = announced_ns;
		v->announced_ran_ns = ran;
	}
	return ran - v->announced_ran_ns < max_ns;
}

/* Return: the address of the guest line in the VMM; 0: none. Must be called by the vCPU's thread. */
static __always_inline u64 line_address(struct pc_vcpu *v, u64 now)
{
	if (v->setup.slot_hva || !v->setup.slot_gpa)
		return v->setup.slot_hva;
	if (v->line_gpa != v->setup.slot_gpa || !translations_hold(v) || !is_announced(v, now, PC_ANNOUNCED_MAX_NS))
		return 0;
	return v->line_hva;
}

static __always_inline u32 read_preempt_count(struct pc_vcpu *v, u64 gpa)
{
	u32 count = 0;

	if (!gpa)
		return 0;
	if (gpa != v->preempt_count_gpa) {
		v->preempt_count_gpa = gpa;
		v->preempt_count_hva = 0;
		v->translate = 1;
	}
	if (!v->preempt_count_hva || !translations_hold(v))
		return 0;
	if (bpf_probe_read_user(&count, sizeof(count), (void *)v->preempt_count_hva)) {
		v->preempt_count_hva = 0;	/* not present: translate again */
		v->translate = 1;
		return 0;
	}
	return count;
}

/*
 * Stores the guest's performance request. The scheduler reads the request at each switch and tick (sched_queue.h), and accepts
 * any value.
 */
static __always_inline void note_request(struct pc_vcpu *v, u32 asks)
{
	if (asks == v->asks)
		return;
	WRITE_ONCE(v->asks, asks);
	v->counters.requests++;
}

/*
 * Reads the guest's performance request at an exit at which nothing else in the guest line is needed. If the line cannot be read,
 * the guest counts as a guest without a request.
 */
static __always_inline void read_request(struct pc_vcpu *v)
{
	u64 line = v->setup.slot_hva, at, now;
	u32 asks = 0;

	if (!line) {
		if (!v->setup.slot_gpa)
			return;
		/* It would cost too much to check the address at each exit. */
		now = bpf_ktime_get_ns();
		if (pc_elapsed_ns(now, v->requested_ns) < PC_REQUEST_LOOK_NS)
			return;
		v->requested_ns = now;
		line = line_address(v, now);
		if (!line) {
			note_request(v, 0);
			return;
		}
	}
	at = line + __builtin_offsetof(struct paracord_guest_line, perf_request);
	if (bpf_probe_read_user(&asks, sizeof(asks), (void *)at)) {
		asks = 0;
		v->counters.guest_read_errors++;
	}
	note_request(v, asks);
}

/* Refreshes v->guest. Must be called in the context of the vCPU thread. */
static __always_inline void read_guest_line(struct pc_vcpu *v, u64 now)
{
	struct guest_words words = {};
	u64 line = 0;
	u32 count = 0;

	if (v->setup.guest_line_bytes >= sizeof(words.context))
		line = line_address(v, now);
	if (!line) {
		v->guest = (struct pc_guest_view){};
		if (v->setup.guest_requests)
			read_request(v);
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
		count = read_preempt_count(v, words.preempt_count_gpa);
	v->guest = pc_guest_view_of(words.context, count, words.preempt_count_mask);
}

#endif
