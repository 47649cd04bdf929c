/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reports where vCPUs run and how fast their CPUs are. The daemon's thread that writes host lines runs this program when it needs
 * this information. The program has no hook, so no hot path pays for it.
 *
 * The reported frequency is the one that the kernel uses for its own load tracking. If load tracking uses no frequency (x86
 * without APERF and MPERF), the reported frequency is the one that cpufreq has set last.
 */
#ifndef PARACORD_BPF_WHEREABOUTS_H
#define PARACORD_BPF_WHEREABOUTS_H

/*
 * Current frequency of each CPU relative to its highest frequency, scaled to 0..1024. Defined in drivers/base/arch_topology.c and
 * arch/x86/kernel/cpu/aperfmperf.c.
 */
extern const unsigned long arch_freq_scale __ksym __weak;
/* The cpufreq policy of each CPU: drivers/cpufreq/cpufreq.c. */
extern struct cpufreq_policy *cpufreq_cpu_data __ksym __weak;

#ifdef __TARGET_ARCH_x86
/*
 * Whether the kernel updates arch_freq_scale. `key`: address of a static key whose first word is nonzero if the kernel does so.
 */
static __always_inline bool is_frequency_invariant(u64 key)
{
	u32 enabled = 0;

	if (!key || !&arch_freq_scale)
		return false;
	bpf_probe_read_kernel(&enabled, sizeof(enabled), (void *)key);
	return enabled != 0;
}
#else
static __always_inline bool is_frequency_invariant(u64 key)
{
	return &arch_freq_scale;
}
#endif

/* The frequency of a CPU as a share of the CPU's highest frequency, 1..1024; 0: not known. */
static __noinline u32 frequency_of(u32 cpu, u64 key)
{
	u64 now_khz, max_khz, scale = 0;

	if (is_frequency_invariant(key)) {
		const unsigned long *current = bpf_per_cpu_ptr(&arch_freq_scale, cpu);

		if (current)
			scale = *current;
	} else if (&cpufreq_cpu_data) {
		struct cpufreq_policy *const *policy = bpf_per_cpu_ptr(&cpufreq_cpu_data, cpu);

		/* The kernel may free the policy at the same time. The values may then be wrong, but reading them is safe. */
		if (!policy || !*policy)
			return 0;
		now_khz = BPF_CORE_READ(*policy, cur);
		max_khz = BPF_CORE_READ(*policy, cpuinfo.max_freq);
		if (max_khz)
			scale = (now_khz << PC_CAPACITY_SHIFT) / max_khz;
	}
	return scale < PC_CAPACITY ? (u32)scale : PC_CAPACITY;
}

static __always_inline void look_for(struct pc_where_one *one, u64 key)
{
	u32 index = one->vcpu;
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	struct task_struct *task;

	if (!v)
		return;
	one->cpu = v->cpu;
	one->frequency = frequency_of(one->cpu, key);
	task = (void *)v->task;
	if (task && bpf_core_field_exists(task->sched_info))
		one->waited_ns = BPF_CORE_READ(task, sched_info.run_delay);
}

SEC("syscall")
int sensor_where(struct pc_where *call)
{
	u32 i;

#pragma unroll
	for (i = 0; i < PC_WHERE_MAX; i++)
		if (i < call->count)
			look_for(&call->of[i], call->invariance_key);
	return 0;
}

#endif
