/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes host lines into the guest's own memory. The sensor itself knows the boost state of each vCPU. The daemon keeps the rest of
 * the line in the record of the vCPU. If one of the two has changed, the sensor writes the line into the guest's memory at the next
 * exit of the vCPU.
 *
 * A read from a wrong address only yields a wrong hint, and a wrong hint costs the guest part of its own budget. In contrast, a
 * store to a wrong address destroys data. There are two dangers:
 *
 * - If the VMM has removed the memory from the VM, the address of the line may now belong to the VMM's heap. But the generation
 *   of the memory slots changes before the VMM can reuse the address. So the sensor checks immediately before the store that the
 *   generation has not changed. On x86, interrupts are off between this check and the store, and neither a change of the slots
 *   nor munmap(2) can complete before this CPU has answered an interrupt.
 *
 * - If the guest was reset and did not withdraw the region, another guest kernel may now use the memory for something else.
 *   Therefore the sensor writes a line for the first time only within PC_HOST_LINE_FRESH_NS after an announcement. Later, it
 *   writes the line only if the line still contains what the sensor last wrote. If the line contains something else, or if the
 *   memory slots have changed, the sensor does not write the line until the next announcement.
 *
 * Page faults are disabled during the accesses. So an access to a page that is swapped out, write-protected or not yet present
 * (postcopy migration) fails, and nothing waits for the page. The sensor then tries to write the line again after the next
 * translation of the line's address, at most ten times a second.
 */
#ifndef PARACORD_BPF_HOST_LINE_H
#define PARACORD_BPF_HOST_LINE_H

/* Longest time from an announcement to the first store to a line. A reset of any machine takes longer. */
#define PC_HOST_LINE_FRESH_NS	(100 * PC_NSEC_PER_MSEC)
/* If a vCPU has run for this long since the last announcement of its VM's region, its host line is no longer written. */
#define PC_HOST_LINE_RUN_NS	(2500 * PC_NSEC_PER_MSEC)

union pc_line_image {
	struct paracord_host_line line;
	u64 words[PC_HOST_LINE_WORDS];
};

_Static_assert(sizeof(struct paracord_host_line) == PC_HOST_LINE_WORDS * sizeof(u64), "host line");

/*
 * 1: the kernel lets this program use bpf_probe_write_user(). Set before loading, so that the kernel removes the calls if the value
 * is 0.
 */
const volatile u32 writes_guests SEC(".rodata.writes");

static __always_inline bool host_line_is_due(struct pc_vcpu *v)
{
	return writes_guests && v->setup.writes & PC_WRITE_LINE &&
	       (READ_ONCE(v->line.sequence) != v->line.written || READ_ONCE(v->line.changes) != v->line.changes_written);
}

/* Adds what the sensor itself knows to a line: the boost state, and the number of the announcement that the line answers. */
static __always_inline void compose_line(struct paracord_host_line *line, struct pc_vcpu *v)
{
	u32 level = READ_ONCE(v->level);

	line->boost_state = level ? PARACORD_BOOST_ON :
			    READ_ONCE(v->state.throttled) ? PARACORD_BOOST_THROTTLED : PARACORD_BOOST_OFF;
	line->boost_reasons = level ? READ_ONCE(v->state.reasons) : 0;
	line->host_flags = v->setup.counts ? PARACORD_HOST_COUNTS : 0;
	line->boosts = READ_ONCE(v->line.boosts);
	line->throttles = (u32)v->counters.throttles;
	line->announcement = v->line.announcement;
}

/* Called by the evaluator after it has changed the boost state of a vCPU. The exchange is a barrier on all architectures. */
static __always_inline void host_line_changes(struct pc_vcpu *v, bool begins)
{
	v->line.boosts += begins;
	__sync_lock_test_and_set(&v->line.changes, v->line.changes + 1);
}

/* Whether the guest has announced its slot lately, and may itself write to it. Both are needed for any store to the slot. */
static __always_inline bool may_write_slot(struct pc_vcpu *v, u64 now)
{
	return v->line_writable && v->line_gpa == v->setup.slot_gpa && is_announced(v, now, PC_HOST_LINE_RUN_NS);
}

/* Whether a line with the content `there` still contains what the sensor has written into it. */
static __always_inline bool is_as_written(const struct pc_vcpu *v, const u64 *there)
{
	bool same = true;
	int i;

#pragma unroll
	for (i = 0; i < PC_HOST_LINE_WORDS; i++)
		same = same && there[i] == v->line.there[i];
	return same;
}

/* Whether the host line may be written now. `there`: current content of the line. */
static __always_inline bool may_write_line(struct pc_vcpu *v, const u64 *there, u64 now)
{
	if (!v->line.known)
		return v->announced_ns != v->line.left_ns &&
		       pc_elapsed_ns(now, v->announced_ns) < PC_HOST_LINE_FRESH_NS;
	if (is_as_written(v, there))
		return true;
	leave_line(v);
	v->line.changed++;
	return false;
}

/* Writes the vCPU's host line. Called at an exit of the vCPU if host_line_is_due(). Return: 0. */
static __noinline int write_host_line(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	u64 now = bpf_ktime_get_ns(), there[PC_HOST_LINE_WORDS];
	union pc_line_image image;
	u32 sequence, changes;
	void *at;

	if (!v || !may_write_slot(v, now))
		return 0;
	sequence = READ_ONCE(v->line.sequence);
	changes = READ_ONCE(v->line.changes);
	if (!sequence || sequence & 1)
		return 0;
	/* An exchange is a barrier on all architectures. */
	__sync_lock_test_and_set(&v->line.barrier, 0);
	__builtin_memcpy(image.words, v->line.image, sizeof(image.words));
	__sync_lock_test_and_set(&v->line.barrier, 0);
	if (READ_ONCE(v->line.sequence) != sequence)
		return 0;
	compose_line(&image.line, v);

	at = (void *)v->line_hva + sizeof(struct paracord_guest_line);
	if (!translations_hold(v))
		return 0;
	if (bpf_probe_read_user(there, sizeof(there), at))
		goto failed;
	if (!may_write_line(v, there, now))
		return 0;
	if (bpf_probe_write_user(at, &image, sizeof(image)))
		goto failed;
	__builtin_memcpy(v->line.there, image.words, sizeof(image.words));
	v->line.known = 1;
	v->line.writes++;
	goto tried;

failed:
	v->line.write_errors++;
	v->translate = 1;
tried:
	v->line.written = sequence;
	v->line.changes_written = changes;
	return 0;
}

#endif
