// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: load tracking, performance and fairness. */
#include "policy/fair.h"
#include "policy/perf.h"

int paracord_pelt_update(struct pc_pelt *pelt, u64 now_ns, int running);
u64 paracord_pelt_decay(u64 value, u64 periods);
u32 paracord_fair_inverse(s32 nice);
u64 paracord_fair_virtual(u64 ran_ns, u32 inverse);
u32 paracord_fair_slice_ns(u32 cpus);
u64 paracord_fair_place(u64 vtime, u64 base, u32 slice_ns);
u64 paracord_fair_forgive(u64 vtime, u64 base, u32 inverse, u32 slice_ns);
u64 paracord_fair_rescale(u64 vtime, u64 base, u32 before, u32 after);
int paracord_fair_may_be_called(u64 vtime, u64 base, u32 inverse, u32 slice_ns);
int paracord_fair_preempts(u64 vtime, u32 inverse, u64 running_vtime, u32 slice_ns);
int paracord_fair_batches(u64 ran_ns, u32 inverse, u32 wakers_inverse);
u64 paracord_group_factor(u64 parents_factor, s64 active, u32 weight);
u32 paracord_fair_in_group(u32 inverse, u64 factor);

u64 paracord_group_factor(u64 parents_factor, s64 active, u32 weight)
{
	return pc_group_factor(parents_factor, active, weight);
}

u32 paracord_fair_in_group(u32 inverse, u64 factor)
{
	return pc_fair_in_group(inverse, factor);
}

u64 paracord_fair_rescale(u64 vtime, u64 base, u32 before, u32 after)
{
	return pc_fair_rescale(vtime, base, before, after);
}

u64 paracord_fair_forgive(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	return pc_fair_forgive(vtime, base, inverse, slice_ns);
}

void paracord_perf_wake(struct pc_perf_cpu *cpu, struct pc_perf_cpu *home, struct pc_perf_task *t,
			const struct pc_clamp *clamp, u64 now_ns);
void paracord_perf_account(struct pc_perf_cpu *cpu, struct pc_perf_task *t, const struct pc_clamp *clamp,
			   int running, u64 now_ns);
void paracord_perf_sleep(struct pc_perf_cpu *cpu, struct pc_perf_task *t, const struct pc_clamp *clamp, u64 now_ns);
u32 paracord_perf_hold(struct pc_perf_cpu *cpu, u32 request, u64 now_ns);
u32 paracord_perf_cpu_request(struct pc_perf_cpu *cpu, u32 pressure, u64 now_ns);
u64 paracord_perf_capped_ns(u64 ran_ns, u32 speed, u32 cap);
void paracord_perf_begin(const struct pc_perf_cpu *cpu, struct pc_perf_task *t, u64 now_ns);
void paracord_clamp_effective(struct pc_clamp *task, const struct pc_clamp *group, const struct pc_clamp *parent);
void paracord_clamp_guest(struct pc_clamp *host, u32 request, u32 limit);
int paracord_request_moved(u32 told, u32 now);

u32 paracord_perf_hold(struct pc_perf_cpu *cpu, u32 request, u64 now_ns)
{
	return pc_perf_hold(cpu, request, now_ns);
}

void paracord_perf_begin(const struct pc_perf_cpu *cpu, struct pc_perf_task *t, u64 now_ns)
{
	pc_perf_begin(cpu, t, now_ns);
}

/*
 * Computes a task's effective clamps from its own clamps and those of its group and the parent group. Stores the result in *task.
 */
void paracord_clamp_effective(struct pc_clamp *task, const struct pc_clamp *group, const struct pc_clamp *parent)
{
	*task = pc_clamp_within(*task, pc_clamp_under(*group, *parent));
}

/*
 * Computes a vCPU's clamps from the clamps that the host has set and from the guest's request and limit. Stores the result in
 * *host.
 */
void paracord_clamp_guest(struct pc_clamp *host, u32 request, u32 limit)
{
	*host = pc_clamp_guest(*host, request, limit);
}

int paracord_request_moved(u32 told, u32 now)
{
	return pc_request_moved(told, now);
}

/* Wakes a task. First removes the task's contribution from the sum of `home`, as the scheduler does (bpf/sched_perf.h). */
void paracord_perf_wake(struct pc_perf_cpu *cpu, struct pc_perf_cpu *home, struct pc_perf_task *t,
			const struct pc_clamp *clamp, u64 now_ns)
{
	if (t->slept_ns)
		pc_perf_take(home, pc_perf_part(t, pc_elapsed_ns(now_ns, t->slept_ns)), now_ns);
	pc_perf_wake(cpu, t, *clamp, 1, now_ns);
}

void paracord_perf_account(struct pc_perf_cpu *cpu, struct pc_perf_task *t, const struct pc_clamp *clamp,
			   int running, u64 now_ns)
{
	pc_perf_account(cpu, t, *clamp, running, now_ns);
}

void paracord_perf_sleep(struct pc_perf_cpu *cpu, struct pc_perf_task *t, const struct pc_clamp *clamp, u64 now_ns)
{
	pc_perf_sleep(cpu, t, *clamp, now_ns);
}

u32 paracord_perf_cpu_request(struct pc_perf_cpu *cpu, u32 pressure, u64 now_ns)
{
	return pc_perf_cpu_request(cpu, pressure, now_ns);
}

u64 paracord_perf_capped_ns(u64 ran_ns, u32 speed, u32 cap)
{
	return pc_perf_capped_ns(ran_ns, speed, cap);
}

int paracord_pelt_update(struct pc_pelt *pelt, u64 now_ns, int running)
{
	return pc_pelt_update(pelt, now_ns, running);
}

u64 paracord_pelt_decay(u64 value, u64 periods)
{
	return pc_pelt_decay(value, periods);
}

u32 paracord_fair_inverse(s32 nice)
{
	return pc_fair_inverse(nice);
}

u64 paracord_fair_virtual(u64 ran_ns, u32 inverse)
{
	return pc_fair_virtual(ran_ns, inverse);
}

u32 paracord_fair_slice_ns(u32 cpus)
{
	return pc_fair_slice_ns(cpus);
}

u64 paracord_fair_place(u64 vtime, u64 base, u32 slice_ns)
{
	return pc_fair_place(vtime, base, slice_ns);
}

int paracord_fair_may_be_called(u64 vtime, u64 base, u32 inverse, u32 slice_ns)
{
	return pc_fair_may_be_called(vtime, base, inverse, slice_ns);
}

int paracord_fair_preempts(u64 vtime, u32 inverse, u64 running_vtime, u32 slice_ns)
{
	return pc_fair_preempts(vtime, inverse, running_vtime, slice_ns);
}

int paracord_fair_batches(u64 ran_ns, u32 inverse, u32 wakers_inverse)
{
	return pc_fair_batches(ran_ns, inverse, wakers_inverse);
}
