/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much performance a CPU is asked for: frequency follows the requests of its
 * tasks, added up, and never mixes with the time that they need.
 *
 * Two signals per task: its demand (pelt.h), which placement and overload look at,
 * and its request, the demand clamped into what it may ask for. A CPU's request is the
 * sum over its runnable tasks; a sleeper's part decays as its demand does, so that a
 * task that comes and goes does not make the frequency jump (seed 003).
 *
 * A task that wakes after a long sleep starts with the request that it had before it,
 * once (seed 004): its demand has decayed meanwhile, and would be wrong for the first
 * window. A window that is not as busy spends the carry, so small tasks that
 * follow a large one do not keep the frequency high; where they follow each time,
 * they get none at all.
 */
#ifndef PARACORD_POLICY_PERF_H
#define PARACORD_POLICY_PERF_H

#include "fair.h"
#include "pelt.h"
#include "perf_types.h"

/* One window of a governor that samples: what seed 004 carries over. */
#define PC_CARRY_WINDOW_NS	(10 * PC_NSEC_PER_MSEC)
/* A sleep of two windows is a long one (dbs_update(), drivers/cpufreq/cpufreq_governor.c). */
#define PC_CARRY_SLEEP_NS	(2 * PC_CARRY_WINDOW_NS)

PC_INLINE u32 pc_min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

PC_INLINE u32 pc_max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* Room to grow for a task that nobody capped: without it a busy CPU would never be asked for more (schedutil's). */
#define PC_HEADROOM_SHIFT	2	/* a quarter */

/* What a task may ask for inside its control group: each end within the group's (uclamp_tg_restrict()). */
PC_INLINE struct pc_clamp pc_clamp_within(struct pc_clamp task, struct pc_clamp group)
{
	struct pc_clamp both = {
		.min = pc_min_u32(pc_max_u32(task.min, group.min), group.max),
		.max = pc_min_u32(pc_max_u32(task.max, group.min), group.max),
	};

	return both;
}

/* A group's clamps under its parent's: never more than those allow (cpu_util_update_eff()). */
PC_INLINE struct pc_clamp pc_clamp_under(struct pc_clamp group, struct pc_clamp parent)
{
	struct pc_clamp both = { .min = pc_min_u32(group.min, parent.min), .max = pc_min_u32(group.max, parent.max) };

	return both;
}

/*
 * What a vCPU may ask for when its guest's governor asks (paracord_guest_line.perf_request, .perf_limit; any values).
 * The request raises the floor, never above the cap that the host gave: `host.max`. The limit lowers the
 * cap, never below what the host granted: `host.min`. A limit of 0 is none, and a request above the guest's own
 * limit is held to it. The request has the governor's room to grow in it: the floor gets none on top.
 */
PC_INLINE struct pc_clamp pc_clamp_guest(struct pc_clamp host, u32 request, u32 limit)
{
	struct pc_clamp both = { .max = pc_min_u32(host.max, PC_CAPACITY) };

	if (limit)
		both.max = pc_min_u32(both.max, pc_max_u32(limit, host.min));
	both.min = pc_min_u32(pc_max_u32(host.min, request), both.max);
	return both;
}

/* A request or limit of which somebody outside the scheduler is to be told: a sixteenth, or from or to nothing. */
PC_INLINE int pc_request_moved(u32 told, u32 now)
{
	return told == now ? 0 : !told || !now ||
	       (told > now ? told - now : now - told) >= PC_CAPACITY / 16;
}

/* How often at most somebody is told about a vCPU. */
#define PC_REQUEST_TELL_NS	(8 * PC_NSEC_PER_MSEC)

/* A value between a task's clamps; clamps beyond the scale, or crossed, are taken as far as they make sense. */
PC_INLINE u32 pc_clamped(u32 value, struct pc_clamp clamp)
{
	u32 max = pc_min_u32(clamp.max, PC_CAPACITY);

	return pc_min_u32(pc_max_u32(value, clamp.min), max);
}

/* What a sleeper's part of the sum has become. */
PC_INLINE u32 pc_perf_decayed(u32 contribution, u64 slept_ns)
{
	u64 periods = slept_ns / PC_PELT_PERIOD_NS;

	return periods ? (u32)(pc_pelt_decay((u64)contribution << PC_CAPACITY_SHIFT, periods) >> PC_CAPACITY_SHIFT) :
			 contribution;
}

/* A window ends. One that was busy makes a burst; a carry goes on as long as they are as busy as it says. */
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
 * The task's request now: its demand and some room, between its clamps. What a guest's governor asks for stands in
 * the demand's place: it knows what the guest's tasks need, their bursts too, and the demand of a vCPU's thread has
 * in it what the VM costs the host.
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

/* Its part of the CPU's sum follows its request. */
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

/* A new task: half of what its CPU has left, as the kernel assumes (post_init_entity_util_avg()). */
PC_INLINE void pc_perf_begin(const struct pc_perf_cpu *cpu, struct pc_perf_task *t, u64 now_ns)
{
	u32 util = (PC_CAPACITY - pc_min_u32(cpu->runnable, PC_CAPACITY)) / 2;

	t->demand.last_ns = now_ns;
	t->demand.util_avg = util;
	t->demand.util_sum = util * (PC_PELT_SUM_MAX - PC_PELT_PERIOD);
}

/*
 * CPUs' clocks differ: one that came from another CPU was last accounted elapsed_ns before now_ns, on this
 * CPU's clock.
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

/* What a sleeper's part of the sum has become, as `sleeping` counts it. */
PC_INLINE u64 pc_perf_part(const struct pc_perf_task *t, u64 slept_ns)
{
	return (u64)pc_perf_decayed(t->contribution, slept_ns) << PC_CAPACITY_SHIFT;
}

/* A sleeper's part leaves the sum of the CPU on which it slept, as far as it is still in it. */
PC_INLINE void pc_perf_take(struct pc_perf_cpu *home, u64 part, u64 now_ns)
{
	pc_perf_decay_sleeping(home, now_ns);
	home->sleeping -= pc_min_u64(home->sleeping, part);
}

/* The task becomes runnable on a CPU; its sleeper's part is gone (pc_perf_take()). `carry`: 0/1, the switch. */
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
	/* One that was for nothing is not given again before it would have been right once. */
	t->carry_in_force = t->carry_due && !t->carry_wasted;
	t->window_start_ns = now_ns;
	t->window_ran_ns = 0;
	pc_perf_contribute(cpu, t, pc_perf_request(t, clamp));
}

/* Accounts the time since the last account as running or waiting; at its end the request is new. */
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

/* The task leaves the CPU's sum at once: for another CPU, or another class. */
PC_INLINE void pc_perf_leave(struct pc_perf_cpu *cpu, u32 contribution)
{
	cpu->runnable -= pc_min_u32(cpu->runnable, contribution);
}

/*
 * The task goes to sleep: its part decays from here on, and a burst that was one is remembered. A blip leaves
 * behind what it needed, not the carry that it began with.
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
	/* A blip between long sleeps: what was armed stays armed only if it was not used. */
	if (t->confirmed) {
		t->carry_armed = 1;
		t->carry_level = t->contribution;
	}
	t->carry_in_force = 0;
}

/* What the CPU is asked for, 0..1024: runnable tasks, the rest of sleepers, and what others (RT, DL, IRQ) need. */
PC_INLINE u32 pc_perf_cpu_request(struct pc_perf_cpu *cpu, u32 pressure, u64 now_ns)
{
	u64 sum;

	pc_perf_decay_sleeping(cpu, now_ns);
	sum = (u64)cpu->runnable + (cpu->sleeping >> PC_CAPACITY_SHIFT) + pressure;
	return (u32)pc_min_u64(sum, PC_CAPACITY);
}

/*
 * A request falls no sooner than that after it was needed, and no later than twice that. A frame at 60 Hz: the
 * longest period of tasks that somebody waits for.
 */
#define PC_HOLD_NS	(17 * PC_NSEC_PER_MSEC)

/*
 * A request with its ripple taken out: the largest of this window and the one before. A task that runs 4 ms of every
 * 10 has a utilisation that rises and falls by a tenth each time; where a frequency lies in
 * between, a CPU would change it with every wakeup.
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
 * Time that a task is charged for ran_ns on a CPU where others wait: a capped task pays as if it
 * had run until its work rate was its cap. `speed`: the CPU's capacity at its frequency, 0..1024.
 * Fairness then gives the rest to the others. At most PC_FAIR_CHARGE_MAX_NS are charged at once.
 */
PC_INLINE u64 pc_perf_capped_ns(u64 ran_ns, u32 speed, u32 cap)
{
	u64 ran = pc_min_u64(ran_ns, PC_FAIR_CHARGE_MAX_NS);

	if (cap >= pc_min_u32(speed, PC_CAPACITY))
		return ran;
	return ran * speed / pc_max_u32(cap, 1);
}

#endif
