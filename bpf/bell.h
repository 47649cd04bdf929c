/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wakes the worker threads that serve guests' counters. If a guest has a request for its counters, it causes a VM exit (a kick).
 * If a counter overflows, an interrupt causes a VM exit. In both cases, the sensor wakes the worker of the CPU on which the vCPU
 * runs. The priority of the worker is higher than that of the vCPU, so the worker runs before the vCPU can enter the guest again.
 */
#ifndef PARACORD_BPF_BELL_H
#define PARACORD_BPF_BELL_H

/*
 * One ring buffer per CPU. The CPU's worker waits for entries in this ring buffer. Each entry is the index of a vCPU. The map is
 * a ring buffer because a BPF program can wake the task that waits for the entries of a ring buffer.
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
 * Wakes the worker if the guest has a new request for its counters. Called in the context of the vCPU thread. Called at every
 * exit and not only at kicks, because kernels and architectures differ in how they report the reason for an exit.
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
	/*
	 * If the ring buffer is full, or if no worker waits for its entries, the guest notices that its request was not served.
	 */
	if (ring && !bpf_ringbuf_output(ring, &index, sizeof(index), BPF_RB_FORCE_WAKEUP))
		v->asked = asked;
	return 0;
}

/*
 * Perf runs this program, possibly in an NMI, when a counter of the vCPU that runs on this CPU has overflowed. The worker
 * notifies the guest before the vCPU enters the guest again. Return: 1, so that perf writes a sample. The sample tells the worker
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
