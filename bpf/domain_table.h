/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes the host's table of performance domains into a region in the guest's own memory. The table is the same for all VMs. In
 * the region, the table lies in the page of the region's header (PARACORD_DOMAIN_OFFSET_BYTES).
 *
 * Each announcement starts a pass over the table. The sensor makes this pass at the next exits of the vCPU that made the
 * announcement. At each of these exits, the sensor compares one domain in the region with the host's domain, and overwrites the
 * domain in the region if it differs. A pass ends when it reaches the end of the table, when PC_HOST_LINE_FRESH_NS have passed
 * since the announcement, or when the region is withdrawn. The vCPU's next announcement starts another pass. Shortly before each
 * store, the sensor checks that the page still contains the header with the number of the announcement, and that the memory slots
 * have not changed (host_line.h). So the sensor does not have to remember what it has written before.
 */
#ifndef PARACORD_BPF_DOMAIN_TABLE_H
#define PARACORD_BPF_DOMAIN_TABLE_H

_Static_assert(sizeof(struct paracord_domain) == sizeof(struct pc_domain_image), "domain");
_Static_assert(!__builtin_offsetof(struct paracord_domain, max_khz), "max_khz is in the first word");
_Static_assert(__builtin_offsetof(struct paracord_domain, table) / sizeof(u64) == 1, "table is in the second word");

/* The host's table, written by the daemon. The first domain whose max_khz is 0 ends the table. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PARACORD_DOMAINS_MAX);
	__type(key, u32);
	__type(value, struct pc_domain_image);
} domain_images SEC(".maps");

/*
 * Starts a pass. If the previous pass did not reach the end of the table in time, the new pass continues where that pass ended.
 * `hva`: address of the page that the guest has just announced. `kvm`, `generation`: the VM, and the generation of its memory
 * slots, when this address was translated. `announcement`: the number of the announcement.
 */
static __always_inline void start_domain_pass(struct pc_vcpu *v, u64 hva, u64 kvm, u64 generation, u32 announcement,
					      u64 now)
{
	v->domains.hva = hva;
	v->domains.kvm = kvm;
	v->domains.generation = generation;
	v->domains.announcement = announcement;
	v->domains.announced_ns = now;
	v->domains.is_due = 1;
}

/*
 * Writes a domain into the region. If a reader finds the same max_khz before and after it copies the domain, and this max_khz is
 * not 0, the copy is consistent. Return: 0, or a negative error.
 */
static __always_inline long store_domain(struct pc_vcpu *v, void *at, struct pc_domain_image *image)
{
	const u32 khz_bytes = sizeof(u32);
	u64 first = READ_ONCE(image->words[0]), second = READ_ONCE(image->words[1]);
	u32 khz = (u32)first, none = 0;

	if (bpf_probe_write_user(at, &none, khz_bytes))
		return -1;
	/* An exchange is a barrier on all architectures. */
	__sync_lock_test_and_set(&v->line.barrier, 0);
	if (bpf_probe_write_user(at + khz_bytes, (void *)image + khz_bytes, sizeof(*image) - khz_bytes))
		return -1;
	__sync_lock_test_and_set(&v->line.barrier, 0);
	/*
	 * If one of these words has changed, the daemon has begun to replace the domain in `image`, or has already replaced it.
	 * The second word contains the ID of the table.
	 */
	if (READ_ONCE(image->words[0]) != first || READ_ONCE(image->words[1]) != second)
		return 0;
	return bpf_probe_write_user(at, &khz, khz_bytes);
}

/*
 * Whether the table may be written: the region that the daemon has checked is still announced, the announcement is recent, and
 * the memory slots have not changed since the announcement.
 */
static __always_inline bool may_write_domains(struct pc_vcpu *v)
{
	struct pc_announcement *a = bpf_map_lookup_elem(&announcements, &v->setup.vm);
	u64 kvm = 0, generation = 0;

	if (!a || !v->setup.region_gpa || READ_ONCE(a->gpa) != v->setup.region_gpa || a->kvm != v->domains.kvm)
		return false;
	if (pc_elapsed_ns(bpf_ktime_get_ns(), v->domains.announced_ns) >= PC_HOST_LINE_FRESH_NS)
		return false;
	return slots_now(&kvm, &generation) && v->domains.kvm == kvm && v->domains.generation == generation;
}

/* Whether the page still begins with the header that was announced. */
static __always_inline bool has_header(struct pc_vcpu *v)
{
	void *header = (void *)v->domains.hva;
	u64 magic = 0;
	u32 number = 0;

	if (bpf_probe_read_user(&magic, sizeof(magic), header))
		return false;
	header += __builtin_offsetof(struct paracord_header, guest_announcements);
	if (bpf_probe_read_user(&number, sizeof(number), header))
		return false;
	return magic == PARACORD_MAGIC && number == v->domains.announcement;
}

static __always_inline bool domain_is_due(const struct pc_vcpu *v)
{
	return writes_guests && v->setup.writes & PC_WRITE_DOMAINS && v->domains.is_due;
}

/*
 * Compares the next domain of the pass with the host's domain, and overwrites it if it differs. Called at an exit of the vCPU if
 * domain_is_due(). Return: 0.
 */
static __noinline int write_domain(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	struct pc_domain_image there, *image;
	bool same = true;
	u32 number;
	void *at;
	int i;

	if (!v)
		return 0;
	number = v->domains.next;
	image = bpf_map_lookup_elem(&domain_images, &number);
	if (!image || !(u32)image->words[0]) {
		v->domains.is_due = 0;
		v->domains.next = 0;
		return 0;
	}
	if (!may_write_domains(v)) {
		v->domains.is_due = 0;
		return 0;
	}
	v->domains.next = number + 1;
	at = (void *)v->domains.hva + PARACORD_DOMAIN_OFFSET_BYTES + number * sizeof(*image);
	if (bpf_probe_read_user(&there, sizeof(there), at)) {
		v->line.write_errors++;
		return 0;
	}
	for (i = 0; i < PC_DOMAIN_WORDS; i++)
		same = same && there.words[i] == image->words[i];
	if (same || !has_header(v))
		return 0;
	if (store_domain(v, at, image))
		v->line.write_errors++;
	else
		v->line.writes++;
	return 0;
}

#endif
