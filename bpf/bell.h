/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest that wants its counters changed causes a VM exit by a kick. A guest whose counters overflow causes one by an
 * interrupt. The worker of this CPU is woken, and runs before the vCPU can enter the guest again: the priority of the
 * worker is above that of the vCPU.
 */
#ifndef PARACORD_BPF_BELL_H
#define PARACORD_BPF_BELL_H

/*
 * One ring buffer per CPU, because a BPF program can wake the task that waits for a ring buffer. An entry is the index of
 * a vCPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, 4096);
	});
} bells SEC(".maps");

/*
 * Runs in the context of the vCPU thread, at any kind of exit: kernels and architectures differ in how they report the
 * exit reason.
 */
static __noinline int ring_bell(u32 index, u32 cpu)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	u32 asked = 0;
	void *ring;

	if (!v)
		return 0;
	if (bpf_probe_read_user(&asked, sizeof(asked), (void *)v->setup.asked_hva)) {
		v->counters.guest_read_errors++;
		return 0;
	}
	if (asked == v->asked || (v->deaf_until_ns && bpf_ktime_get_ns() < v->deaf_until_ns))
		return 0;
	ring = bpf_map_lookup_elem(&bells, &cpu);
	/* If the ring buffer is full, or no worker waits for it, the guest notices that it was not served. */
	if (ring && !bpf_ringbuf_output(ring, &index, sizeof(index), BPF_RB_FORCE_WAKEUP))
		v->asked = asked;
	return 0;
}

/*
 * Perf runs this program when a counter of the vCPU that runs on this CPU has overflowed, possibly in an NMI. The worker
 * notifies the guest before the guest goes on. Return: 1, so that perf writes the sample from which the worker learns
 * which event has overflowed.
 */
SEC("perf_event")
int overflow(void *ctx)
{
	u32 index, cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	void *ring = bpf_map_lookup_elem(&bells, &cpu);

	if (!here || !ring || !here->running)
		return 1;
	index = here->running - 1;
	bpf_ringbuf_output(ring, &index, sizeof(index), BPF_RB_FORCE_WAKEUP);
	return 1;
}

#endif
