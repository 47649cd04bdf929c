/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Performance requests. The frequency of a CPU follows the requests of its tasks. A
 * task's request is separate from the CPU time that the task needs.
 *
 * Each task has two signals. Its demand (pelt.h) is the CPU time that it needs. Its
 * request is the demand plus headroom, within the task's clamps. The request of a CPU
 * is the sum of the contributions of its tasks. A runnable task contributes its
 * request. The contribution of a sleeping task decays at the same rate as the task's
 * demand. So a task that often sleeps and wakes does not make the frequency jump.
 * With the kernel's max aggregation of uclamp values, such a task does make the
 * frequency jump.
 *
 * After a burst of work and a long sleep, a task starts with the request that it had
 * before the sleep. This start value is called the carry. The ondemand governor has
 * the same mechanism for a CPU (prev_load in dbs_update()). Each burst allows one
 * carry. Without the carry, the request would be too low in the first window
 * (PC_CARRY_WINDOW_NS) after the sleep, because the demand decays during the sleep.
 * If the task is less busy in a window than the carry assumes, the carry ends. So a
 * small burst after a large one does not keep the frequency high. If each large burst
 * is followed by a small one, the task gets no carry at all.
 */
#ifndef PARACORD_POLICY_PERF_H
#define PARACORD_POLICY_PERF_H

#include "fair.h"
#include "pelt.h"
#include "perf_types.h"

/*
 * Length of a window. It corresponds to the sampling interval of a governor: after a sleep, dbs_update() uses the load from
 * before the sleep for one such interval.
 */
#define PC_CARRY_WINDOW_NS	(10 * PC_NSEC_PER_MSEC)
/* A sleep is long if it lasts for at least two windows, as in dbs_update() (drivers/cpufreq/cpufreq_governor.c). */
#define PC_CARRY_SLEEP_NS	(2 * PC_CARRY_WINDOW_NS)

PC_INLINE u32 pc_min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

PC_INLINE u32 pc_max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

/*
 * Headroom on top of a task's demand, as in schedutil. Without headroom, a busy CPU would never get a request for a higher
 * frequency.
 */
#define PC_HEADROOM_SHIFT	2	/* 25 % */

/* Clamps of a task in a control group: min and max of the task, each limited to the group's range (uclamp_tg_restrict()). */
PC_INLINE struct pc_clamp pc_clamp_within(struct pc_clamp task, struct pc_clamp group)
{
	struct pc_clamp both = {
		.min = pc_min_u32(pc_max_u32(task.min, group.min), group.max),
		.max = pc_min_u32(pc_max_u32(task.max, group.min), group.max),
	};

	return both;
}

/* Effective clamps of a group: min and max are each limited to the parent's value (cpu_util_update_eff()). */
PC_INLINE struct pc_clamp pc_clamp_under(struct pc_clamp group, struct pc_clamp parent)
{
	struct pc_clamp both = { .min = pc_min_u32(group.min, parent.min), .max = pc_min_u32(group.max, parent.max) };

	return both;
}

/*
 * Clamps of a vCPU whose guest's governor makes requests (paracord_guest_line.perf_request and .perf_limit, both of which may
 * have any value). The request raises the floor, but never above the cap that the host has set, `host.max`. The limit lowers the
 * cap, but never below the floor that the host has granted, `host.min`. A limit of 0 means no limit. A request above the guest's
 * own limit is reduced to this limit. The guest's governor has already added headroom to its request, so no more headroom is
 * added to the floor.
 */
PC_INLINE struct pc_clamp pc_clamp_guest(struct pc_clamp host, u32 request, u32 limit)
{
	struct pc_clamp both = { .max = pc_min_u32(host.max, PC_CAPACITY) };

	if (limit)
		both.max = pc_min_u32(both.max, pc_max_u32(limit, host.min));
	both.min = pc_min_u32(pc_max_u32(host.min, request), both.max);
	return both;
}

/* Whether a request or limit has changed so much that the daemon must be told: by at least 1/16 of the scale, or from or to 0. */
PC_INLINE int pc_request_moved(u32 told, u32 now)
{
	return told == now ? 0 : !told || !now ||
	       (told > now ? told - now : now - told) >= PC_CAPACITY / 16;
}

/* Shortest interval between two messages to the daemon about one vCPU. */
#define PC_REQUEST_TELL_NS	(8 * PC_NSEC_PER_MSEC)

/* The value, limited by a task's clamps. A cap above PC_CAPACITY counts as PC_CAPACITY. If min exceeds max, max wins. */
PC_INLINE u32 pc_clamped(u32 value, struct pc_clamp clamp)
{
	u32 max = pc_min_u32(clamp.max, PC_CAPACITY);

	return pc_min_u32(pc_max_u32(value, clamp.min), max);
}

/* Contribution of a sleeping task to its CPU's sum, after a sleep of slept_ns. */
PC_INLINE u32 pc_perf_decayed(u32 contribution, u64 slept_ns)
{
	u64 periods = slept_ns / PC_PELT_PERIOD_NS;

	return periods ? (u32)(pc_pelt_decay((u64)contribution << PC_CAPACITY_SHIFT, periods) >> PC_CAPACITY_SHIFT) :
			 contribution;
}

/*
 * Ends the current window if it is long enough. A busy window confirms a burst. Without a carry, the window is busy if the task
 * ran for at least half of it. While a carry is active, the window is busy if the task ran for at least carry_level / 1024 of it.
 * If the window is not busy, the carry ends.
 */
PC_INLINE void pc_carry_window(struct pc_perf_task *t, u64 now_ns)
{
	u64 length = pc_elapsed_ns(now_ns, t->window_start_ns);
	u64 needed;

	if (length < PC_CARRY_WINDOW_NS)
		return;
	needed = t->carry_in_force ? length * pc_min_u32(t->carry_level, PC_CAPACITY) >> PC_CAPACITY_SHIFT :
				     length / 2;
	if (t->window_ran_ns >= needed)
		t->confirmed = 1;
	else
		t->carry_in_force = 0;
	t->window_start_ns = now_ns;
	t->window_ran_ns = 0;
}

/*
 * The task's current request: its demand plus headroom, within its clamps. If the task is a vCPU and its guest's governor makes
 * requests, the governor's request replaces the demand. The governor knows what the guest's tasks need, including their bursts.
 * In contrast, the demand of the vCPU thread also includes the host's cost of running the VM.
 */
PC_INLINE u32 pc_perf_request(const struct pc_perf_task *t, struct pc_clamp clamp)
{
	u32 wanted;

	if (t->asked)
		return pc_clamped(clamp.min, clamp);
	wanted = t->demand.util_avg + (t->demand.util_avg >> PC_HEADROOM_SHIFT);
	if (t->carry_in_force)
		wanted = pc_max_u32(wanted, t->carry_level);
	return pc_clamped(wanted, clamp);
}

/* Sets the task's contribution to `request`, and updates the CPU's sum of runnable tasks. */
PC_INLINE void pc_perf_contribute(struct pc_perf_cpu *cpu, struct pc_perf_task *t, u32 request)
{
	cpu->runnable = cpu->runnable - pc_min_u32(cpu->runnable, t->contribution) + request;
	t->contribution = request;
}

PC_INLINE void pc_perf_decay_sleeping(struct pc_perf_cpu *cpu, u64 now_ns)
{
	u64 periods = pc_elapsed_ns(now_ns, cpu->sleeping_ns) / PC_PELT_PERIOD_NS;

	if (!periods)
		return;
	cpu->sleeping = pc_pelt_decay(cpu->sleeping, periods);
	cpu->sleeping_ns += periods * PC_PELT_PERIOD_NS;
}

/* Sets a new task's demand to half of the spare capacity of its CPU, as in the kernel (post_init_entity_util_avg()). */
PC_INLINE void pc_perf_begin(const struct pc_perf_cpu *cpu, struct pc_perf_task *t, u64 now_ns)
{
	u32 util = (PC_CAPACITY - pc_min_u32(cpu->runnable, PC_CAPACITY)) / 2;

	t->demand.last_ns = now_ns;
	t->demand.util_avg = util;
	t->demand.util_sum = util * (PC_PELT_SUM_MAX - PC_PELT_PERIOD);
}

/*
 * Converts the time stamps of a task that has migrated from another CPU, because the clocks of the two CPUs differ. The task was
 * last accounted elapsed_ns ago. now_ns is the current time on the new CPU's clock.
 */
PC_INLINE void pc_perf_rebase(struct pc_perf_task *t, u64 elapsed_ns, u64 now_ns)
{
	u64 last_ns = pc_elapsed_ns(now_ns, elapsed_ns);

	t->demand.last_ns = last_ns;
	t->window_start_ns = now_ns;
	t->window_ran_ns = 0;
	if (t->slept_ns)
		t->slept_ns = last_ns | 1;
}

/* Contribution of a sleeping task after a sleep of slept_ns, on the scale of pc_perf_cpu.sleeping. */
PC_INLINE u64 pc_perf_part(const struct pc_perf_task *t, u64 slept_ns)
{
	return (u64)pc_perf_decayed(t->contribution, slept_ns) << PC_CAPACITY_SHIFT;
}

/* Removes the contribution `part` of a sleeping task from the sum of `home`, the CPU on which the task slept. */
PC_INLINE void pc_perf_take(struct pc_perf_cpu *home, u64 part, u64 now_ns)
{
	pc_perf_decay_sleeping(home, now_ns);
	home->sleeping -= pc_min_u64(home->sleeping, part);
}

/*
 * Makes a task runnable on a CPU. The caller must first remove the contribution of the sleeping task: pc_perf_take(). `carry`:
 * 0/1, whether carries are enabled.
 */
PC_INLINE void pc_perf_wake(struct pc_perf_cpu *cpu, struct pc_perf_task *t, struct pc_clamp clamp, int carry,
			    u64 now_ns)
{
	u64 slept_ns = t->slept_ns ? pc_elapsed_ns(now_ns, t->slept_ns) : 0;

	t->contribution = 0;
	t->slept_ns = 0;
	t->confirmed = 0;
	pc_pelt_update(&t->demand, now_ns, 0);
	t->carry_due = carry && t->carry_armed && slept_ns >= PC_CARRY_SLEEP_NS;
	if (t->carry_due)
		t->carry_armed = 0;
	/* After a wasted carry, the task gets no carry until it runs a burst after a wakeup at which a carry was due. */
	t->carry_in_force = t->carry_due && !t->carry_wasted;
	t->window_start_ns = now_ns;
	t->window_ran_ns = 0;
	pc_perf_contribute(cpu, t, pc_perf_request(t, clamp));
}

/* Accounts the time since the last call as running or as waiting, and updates the request. */
PC_INLINE void pc_perf_account(struct pc_perf_cpu *cpu, struct pc_perf_task *t, struct pc_clamp clamp,
			       int running, u64 now_ns)
{
	u64 before_ns = t->demand.last_ns;

	pc_pelt_update(&t->demand, now_ns, running);
	if (running)
		t->window_ran_ns += pc_elapsed_ns(t->demand.last_ns, before_ns);
	pc_carry_window(t, now_ns);
	pc_perf_contribute(cpu, t, pc_perf_request(t, clamp));
}

/* Removes a task's contribution from the CPU's sum of runnable tasks without any decay, for example when the task migrates. */
PC_INLINE void pc_perf_leave(struct pc_perf_cpu *cpu, u32 contribution)
{
	cpu->runnable -= pc_min_u32(cpu->runnable, contribution);
}

/*
 * Called when a task goes to sleep. Moves its contribution to the CPU's sum of sleeping tasks, where the contribution decays. If
 * the task had a busy window since it woke (pc_carry_window()), the task may start with a carry after its next long sleep. If the
 * task started with a carry but had no busy window, its contribution is its request without the carry.
 */
PC_INLINE void pc_perf_sleep(struct pc_perf_cpu *cpu, struct pc_perf_task *t, struct pc_clamp clamp, u64 now_ns)
{
	if (t->carry_in_force && !t->confirmed) {
		t->carry_in_force = 0;
		pc_perf_contribute(cpu, t, pc_perf_request(t, clamp));
	}
	pc_perf_leave(cpu, t->contribution);
	pc_perf_decay_sleeping(cpu, now_ns);
	if (!cpu->sleeping)
		cpu->sleeping_ns = now_ns;
	cpu->sleeping += (u64)t->contribution << PC_CAPACITY_SHIFT;
	t->slept_ns = now_ns | 1;
	if (t->carry_due)
		t->carry_wasted = !t->confirmed;
	/* Without a busy window, do not set carry_armed. If carry_armed was set earlier and no wakeup has used it, it stays set. */
	if (t->confirmed) {
		t->carry_armed = 1;
		t->carry_level = t->contribution;
	}
	t->carry_in_force = 0;
}

/*
 * Request of the CPU, 0..1024: the sum of the contributions of runnable tasks, the decayed contributions of sleeping tasks, and
 * `pressure` (RT, DL, IRQ).
 */
PC_INLINE u32 pc_perf_cpu_request(struct pc_perf_cpu *cpu, u32 pressure, u64 now_ns)
{
	u64 sum;

	pc_perf_decay_sleeping(cpu, now_ns);
	sum = (u64)cpu->runnable + (cpu->sleeping >> PC_CAPACITY_SHIFT) + pressure;
	return (u32)pc_min_u64(sum, PC_CAPACITY);
}

/*
 * Shortest time for which a request is held after it was last needed. The longest time is twice this value. The value is one
 * frame at 60 Hz, which is the longest period of any task that a person waits for.
 */
#define PC_HOLD_NS	(17 * PC_NSEC_PER_MSEC)

/*
 * Return: the largest request in the current and the previous hold window (PC_HOLD_NS). Unlike the request itself, this maximum has
 * no ripple. For example, the utilisation of a task that runs for 4 ms of every 10 ms rises and falls by a tenth in each cycle.
 * Without this function, a threshold between two frequencies that lies within this ripple would make the CPU change its frequency
 * at every wakeup.
 */
PC_INLINE u32 pc_perf_hold(struct pc_perf_cpu *cpu, u32 request, u64 now_ns)
{
	u64 gone_ns = pc_elapsed_ns(now_ns, cpu->window_ns);

	if (gone_ns >= PC_HOLD_NS) {
		cpu->peak_before = gone_ns < 2 * PC_HOLD_NS ? cpu->peak : 0;
		cpu->peak = 0;
		cpu->window_ns = now_ns;
	}
	cpu->peak = pc_max_u32(cpu->peak, request);
	return pc_min_u32(pc_max_u32(cpu->peak, cpu->peak_before), PC_CAPACITY);
}

/*
 * Time charged to a capped task that has run for ran_ns on a CPU where other tasks wait. If the CPU is faster than the task's
 * cap, the charge is the time that the same work would have taken at the speed of the cap. Fairness then gives the rest of the
 * CPU time to the other tasks. `speed`: the CPU's capacity at its current frequency, 0..1024. One call counts at most
 * PC_FAIR_CHARGE_MAX_NS of running time.
 */
PC_INLINE u64 pc_perf_capped_ns(u64 ran_ns, u32 speed, u32 cap)
{
	u64 ran = pc_min_u64(ran_ns, PC_FAIR_CHARGE_MAX_NS);

	if (cap >= pc_min_u32(speed, PC_CAPACITY))
		return ran;
	return ran * speed / pc_max_u32(cap, 1);
}

#endif
