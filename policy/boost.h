/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides when a vCPU thread runs ahead of the host's other work.
 *
 * pc_boost_step() makes this decision. pc_boost_is_quiet(), pc_boost_resume() and
 * pc_boost_note_irq() tell the caller when it may skip a step. A step charges the
 * running time since the last step, refills the buckets, collects the reasons that
 * hold now, and drops the reasons whose grant or budget is used up. The code uses
 * integer arithmetic only and reads no clock. Its only loops run over the four
 * reasons. It tolerates any bytes in the state and in the configuration
 * (docs/policy.md names the test for each bound).
 *
 * The life of a reason:
 *
 *            raised by                           ends with        grant renewed by
 *  WAKE      SLEEP; WAKEUP if not boosted yet    grant            the next SLEEP
 *  IRQ       a kick while not running;           grant; guest     the next kick while
 *            PREEMPT soon after a kick or        is not in an     not running or not
 *            inside the guest's irq handler      irq handler      boosted for IRQ
 *  RT        PREEMPT (boosted: also EXIT)        end of hint,     end of hint, SLEEP
 *            with the guest's RT hint            grant
 *  CRITICAL  PREEMPT with preemption off         end of hint,     end of hint, SLEEP
 *                                                grant
 *
 * A task of nice -20 in the guest counts as an interrupt handler, but leaves half of
 * the budget of IRQ to interrupts.
 *
 * IRQ alone starts no boost while no normal task competes for the vCPU's CPU
 * (pc_boost_obs.alone). IRQ is raised even then.
 *
 * A guest can renew the grant of a hint at will, by clearing and setting the hint. So
 * grants limit only honest guests, but budgets limit every guest.
 */
#ifndef PARACORD_POLICY_BOOST_H
#define PARACORD_POLICY_BOOST_H

#include "boost_defaults.h"

#define PC_WAKE		(1u << PARACORD_REASON_WAKE)
#define PC_IRQ		(1u << PARACORD_REASON_IRQ)
#define PC_RT		(1u << PARACORD_REASON_RT)
#define PC_CRITICAL	(1u << PARACORD_REASON_CRITICAL)
#define PC_ALL_REASONS	((1u << PC_REASONS) - 1)

/* One strike is forgiven after this many periods without an exhausted budget. */
#define PC_STRIKE_DECAY_PERIODS	8
/* More strikes would have no effect: at this number, the penalty is 2^16 periods, the longest that penalty_max_periods allows. */
#define PC_STRIKES_MAX		16
/*
 * A vCPU that has run this long on an IRQ boost and is not in an interrupt handler
 * is assumed to have served the interrupt. On an emulated host, one injection takes
 * 80 us.
 */
#define PC_IRQ_SERVED_NS	(100 * PC_NSEC_PER_USEC)

/*
 * Passes a value through memory, so that the BPF verifier forgets the value.
 * While the verifier knows a value exactly, it explores every combination of
 * branches. It does not track the contents of maps, and the state of a vCPU
 * lies in a map. Without this function, the verifier needs ten seconds per
 * program; with it, a fraction of a second.
 */
PC_INLINE u64 pc_forget(struct pc_boost_state *st, u64 value)
{
	WRITE_ONCE(st->scratch, value);
	return READ_ONCE(st->scratch);
}

PC_INLINE u64 pc_cpu_budget_ns(const struct pc_boost_config *cfg)
{
	u64 period = pc_period_ns(cfg);

	return period - pc_min_u64(cfg->cpu_kept_ns, period);
}

/* Charges the running time since the last step. Return: the boosted part of this time, in ns. */
PC_INLINE u64 pc_boost_charge(struct pc_boost_state *st, struct pc_bucket *vm, struct pc_bucket *cpu,
			      u32 running, u64 now_ns)
{
	u64 used = 0;
	int r;

	if (st->charging)
		used = pc_forget(st, pc_min_u64(pc_elapsed_ns(now_ns, st->last_charge_ns),
						PC_DEBT_MAX_NS));
	st->charging = running != 0;
	st->last_charge_ns = now_ns;
	if (!st->boosted || !used)
		return 0;

	for (r = 0; r < PC_REASONS; r++) {
		if (!(st->reasons & (1u << r)))
			continue;
		/* Saturate: a configured grant may be as large as 2^64 - 1, and the sum must not wrap to 0. */
		if (st->grant_used_ns[r] + used < used)
			st->grant_used_ns[r] = ~0ULL;
		else
			st->grant_used_ns[r] += used;
		pc_bucket_charge(&st->reason[r], used);
	}
	pc_bucket_charge(&st->vcpu, used);
	pc_bucket_charge_shared(vm, used);
	pc_bucket_charge_shared(cpu, used);
	return used;
}

PC_INLINE void pc_boost_refill(const struct pc_boost_config *cfg, struct pc_boost_state *st,
			       struct pc_bucket *vm, struct pc_bucket *cpu, u64 now_ns)
{
	u64 period = pc_forget(st, pc_period_ns(cfg));
	int r;

	for (r = 0; r < PC_REASONS; r++)
		pc_bucket_refill(&st->reason[r], pc_min_u64(cfg->reason[r].budget_ns, period),
				 period, now_ns);
	pc_bucket_refill(&st->vcpu, pc_min_u64(cfg->vcpu_budget_ns, period), period, now_ns);
	pc_bucket_refill_shared(vm, pc_min_u64(cfg->vm_budget_ns, PC_BUDGET_MAX_NS), period, now_ns);
	pc_bucket_refill_shared(cpu, pc_cpu_budget_ns(cfg), period, now_ns);
}

/* Renews the grants of WAKE, RT and CRITICAL, and forgets a pending interrupt. Called when the vCPU goes to sleep. */
PC_INLINE void pc_boost_renew(struct pc_boost_state *st)
{
	st->grant_used_ns[PARACORD_REASON_WAKE] = 0;
	st->grant_used_ns[PARACORD_REASON_RT] = 0;
	st->grant_used_ns[PARACORD_REASON_CRITICAL] = 0;
	st->irq_wanted = 0;
}

/*
 * Return: 1 if the guest runs a task of nice -20, and more than half of the budget of IRQ is left; else 0. Such a task leaves the
 * other half to interrupts. Arithmetic instead of branches: the verifier follows everything behind a branch twice.
 */
PC_INLINE u32 pc_boost_urgent(const struct pc_boost_config *cfg, const struct pc_boost_state *st,
			      const struct pc_guest_view *guest)
{
	u64 half = pc_min_u64(cfg->reason[PARACORD_REASON_IRQ].budget_ns, pc_period_ns(cfg)) / 2;

	return guest->urgent & (u32)((half - (u64)st->reason[PARACORD_REASON_IRQ].left_ns) >> 63);
}

/* Return: the reasons that hold now, without regard to grants and budgets. Also renews grants. */
PC_INLINE u32 pc_boost_claims(const struct pc_boost_config *cfg, struct pc_boost_state *st,
			      const struct pc_boost_obs *obs, u64 now_ns)
{
	const struct pc_guest_view *guest = &obs->guest;
	u32 held = st->boosted ? st->reasons & PC_ALL_REASONS : 0;
	u32 sleep = obs->events & PC_EV_SLEEP;
	u32 preempt = obs->events & PC_EV_PREEMPT;
	u32 exit = obs->events & PC_EV_EXIT;
	u32 eager = exit && cfg->hints_at_exit;
	u32 claims = held & (PC_WAKE | PC_IRQ);
	u32 urgent = pc_boost_urgent(cfg, st, guest);

	if (obs->events & PC_EV_IRQ) {
		st->irq_wanted = 1;
		st->last_irq_ns = now_ns;
		if (!obs->running || !(held & PC_IRQ))
			st->grant_used_ns[PARACORD_REASON_IRQ] = 0;
		if (!obs->running)
			claims |= PC_IRQ;
	}
	if (sleep) {
		pc_boost_renew(st);
		return PC_WAKE;
	}
	if (obs->events & PC_EV_WAKEUP)
		claims |= PC_WAKE;

	/*
	 * The host has preempted the vCPU while an interrupt is pending. This is
	 * common, because guest timers and the host's tick often expire together. An
	 * interrupt counts as pending for the time `window` after it was raised. A
	 * guest with a driver reports when its handler runs, so `window` only has to
	 * cover the time until the injection. Without a driver, `window` also has to
	 * cover the handler.
	 */
	if (preempt && st->irq_wanted) {
		u64 window = guest->valid ? PC_IRQ_SERVED_NS :
					    cfg->reason[PARACORD_REASON_IRQ].grant_max_ns;

		if (pc_elapsed_ns(now_ns, st->last_irq_ns) < window)
			claims |= PC_IRQ;
		else
			st->irq_wanted = 0;
	}
	if (!guest->valid) {
		/*
		 * The hints are unknown: the guest has no driver, or this event did not read the hints. If the vCPU is boosted
		 * for RT or CRITICAL, it keeps this reason. The grant of the reason still limits the boost.
		 */
		claims |= held & (PC_RT | PC_CRITICAL);
		return claims;
	}

	if (!guest->rt)
		st->grant_used_ns[PARACORD_REASON_RT] = 0;
	else if (preempt || eager || (exit && st->boosted))
		claims |= PC_RT;

	if (!guest->critical)
		st->grant_used_ns[PARACORD_REASON_CRITICAL] = 0;
	else if (preempt || eager || (exit && (held & PC_CRITICAL)))
		claims |= PC_CRITICAL;

	if (guest->irq) {
		if (preempt || eager)
			claims |= PC_IRQ;
	} else if (!(held & PC_IRQ)) {
		if (!(claims & PC_IRQ))
			st->grant_used_ns[PARACORD_REASON_IRQ] = 0;
	} else if (exit && st->grant_used_ns[PARACORD_REASON_IRQ] >= PC_IRQ_SERVED_NS) {
		claims &= ~((1 - urgent) * PC_IRQ);
		st->irq_wanted &= urgent;
	}
	/* After the renewal above: such a task must not keep the grant from the next interrupt. */
	claims |= (urgent & (u32)(preempt || eager)) * PC_IRQ;

	/*
	 * The vCPU is about to sleep. Turn its boost into the boost for the next wakeup now. Otherwise the boost would end here and
	 * begin again when the vCPU goes to sleep.
	 */
	if (guest->halting && held && !(held & PC_WAKE)) {
		st->grant_used_ns[PARACORD_REASON_WAKE] = 0;
		claims |= PC_WAKE;
	}
	return claims;
}

PC_INLINE u32 pc_penalty_periods(const struct pc_boost_config *cfg, u32 strikes)
{
	u32 limit = cfg->penalty_max_periods;

	if (limit > PC_PENALTY_MAX_PERIODS)
		limit = PC_PENALTY_MAX_PERIODS;
	if (strikes > PC_STRIKES_MAX)
		strikes = PC_STRIKES_MAX;
	if (!limit)
		limit = 1;
	return (1u << strikes) < limit ? 1u << strikes : limit;
}

/*
 * Forbids boosts for a number of periods, counted from the start of the empty bucket's current period. The number is 1 for a vCPU
 * without earlier strikes. Each earlier strike doubles the number, up to penalty_max_periods.
 */
PC_INLINE void pc_boost_throttle(const struct pc_boost_config *cfg, struct pc_boost_state *st,
				 u64 period_start_ns, u8 cause, u64 now_ns)
{
	u64 period = pc_period_ns(cfg);
	u64 forgiven = pc_elapsed_ns(now_ns, st->throttled_until_ns) / (PC_STRIKE_DECAY_PERIODS * period);

	if (st->strikes > PC_STRIKES_MAX)
		st->strikes = PC_STRIKES_MAX;
	st->strikes -= (u32)pc_min_u64(forgiven, st->strikes);
	st->throttled = 1;
	st->throttle_cause = cause;
	st->throttled_until_ns = period_start_ns + pc_penalty_periods(cfg, st->strikes) * period;
	if (st->strikes < PC_STRIKES_MAX)
		st->strikes++;
}

/* Ends a throttle that has expired. A throttle longer than the longest penalty is corrupt or outdated, and is shortened. */
PC_INLINE void pc_boost_unthrottle(const struct pc_boost_config *cfg, struct pc_boost_state *st, u64 now_ns)
{
	u64 longest = (u64)pc_penalty_periods(cfg, PC_STRIKES_MAX) * pc_period_ns(cfg);
	u64 left = pc_elapsed_ns(st->throttled_until_ns, now_ns);

	if (!st->throttled) {
		/*
		 * Without a throttle, a throttled_until_ns in the future is corrupt. Reset it, because it would delay the
		 * forgiveness of strikes.
		 */
		if (left)
			st->throttled_until_ns = now_ns;
		return;
	}
	if (!left) {
		st->throttled = 0;
		st->throttle_cause = PC_THROTTLE_NONE;
	} else if (left > longest) {
		st->throttled_until_ns = now_ns + longest;
	}
}

/*
 * Return: PC_THROTTLE_* of the first empty bucket, or PC_THROTTLE_NONE. Removes the reasons without budget from *claims.
 *
 * A guest that spins has interrupts (its tick) and softirqs all the time, so its IRQ and CRITICAL budgets are often empty.
 * Therefore, an empty IRQ or CRITICAL budget only drops its reason until the next refill. These two budgets are so small that
 * they limit a rogue guest even without a throttle.
 */
PC_INLINE u8 pc_boost_empty(const struct pc_boost_state *st, const struct pc_bucket *vm,
			    const struct pc_bucket *cpu, u32 *claims)
{
	u32 funded = 0;
	int r;

	for (r = 0; r < PC_REASONS; r++)
		if (st->reason[r].left_ns > 0)
			funded |= 1u << r;
	funded &= *claims;
	if (st->vcpu.left_ns <= 0)
		return PC_THROTTLE_VCPU;
	if (READ_ONCE(vm->left_ns) <= 0)
		return PC_THROTTLE_VM;
	if (READ_ONCE(cpu->left_ns) <= 0)
		return PC_THROTTLE_CPU;
	if (!funded && (*claims & (PC_WAKE | PC_RT)))
		return PC_THROTTLE_REASON;
	*claims = funded;
	return PC_THROTTLE_NONE;
}

/*
 * Return: the running time, in ns, for which the WAKE grant and the budgets keep the boost, whatever the guest's hints are; 0 if
 * WAKE does not hold. The boost can end earlier only if other vCPUs empty a shared bucket.
 */
PC_INLINE u64 pc_boost_quiet_ns(const struct pc_boost_config *cfg, const struct pc_boost_state *st,
				const struct pc_bucket *vm, const struct pc_bucket *cpu)
{
	const struct pc_reason_config *wake = &cfg->reason[PARACORD_REASON_WAKE];
	u64 used = st->grant_used_ns[PARACORD_REASON_WAKE];
	s64 left = pc_min_s64(st->reason[PARACORD_REASON_WAKE].left_ns, st->vcpu.left_ns);

	if (!(st->reasons & PC_WAKE) || used >= wake->grant_max_ns)
		return 0;
	left = pc_min_s64(left, READ_ONCE(vm->left_ns));
	left = pc_min_s64(left, READ_ONCE(cpu->left_ns));
	return left > 0 ? pc_min_u64(wake->grant_max_ns - used, (u64)left) : 0;
}

/*
 * Return: the running time, in ns, after which the grants of all reasons that hold now are used up; 0 if the vCPU is not boosted,
 * 1 if they are used up already. The boost can end earlier, because a budget is used up or because of the guest's hints.
 */
PC_INLINE u64 pc_boost_left_ns(const struct pc_boost_config *cfg, const struct pc_boost_state *st, u64 now_ns)
{
	u64 uncharged = st->charging ? pc_elapsed_ns(now_ns, st->last_charge_ns) : 0, longest = 0;
	int r;

	if (!st->boosted)
		return 0;
	for (r = 0; r < PC_REASONS; r++) {
		u64 grant = cfg->reason[r].grant_max_ns, used = st->grant_used_ns[r];

		if ((st->reasons & (1u << r)) && used < grant)
			longest = pc_max_u64(longest, grant - used);
	}
	return longest > uncharged ? longest - uncharged : 1;
}

/*
 * True if PC_EV_EXIT at now_ns would keep the boost, so that the caller may skip the step. For example, a vCPU that serves a timer
 * needs no step at its exits. During the quiet time (quiet_ns), other vCPUs may use up the bucket of the VM or of the CPU. The
 * policy notices this only when the quiet time ends.
 */
PC_INLINE int pc_boost_is_quiet(const struct pc_boost_state *st, u64 now_ns)
{
	return st->boosted && st->charging &&
	       pc_elapsed_ns(now_ns, st->last_charge_ns) < st->quiet_ns;
}

/*
 * False if PC_EV_PREEMPT at now_ns has the same result whatever the guest's hints are. The caller then need not read the hints.
 * If another reason holds besides WAKE, the end of that reason depends on the hints.
 */
PC_INLINE int pc_boost_wants_view(const struct pc_boost_state *st, u64 now_ns)
{
	return st->reasons != PC_WAKE || !pc_boost_is_quiet(st, now_ns);
}

/*
 * Short form of the step for PC_EV_RUN, for a boosted vCPU: starts charging. Return: 0 if a step is needed, for example because
 * other vCPUs have used up the CPU's budget for boosts.
 */
PC_INLINE int pc_boost_resume(struct pc_boost_state *st, const struct pc_bucket *cpu, u64 now_ns)
{
	if (!st->boosted || st->charging || !st->quiet_ns || READ_ONCE(cpu->left_ns) <= 0)
		return 0;
	st->charging = 1;
	st->last_charge_ns = now_ns;
	return 1;
}

/*
 * Short form of the step for PC_EV_RUN, _PREEMPT and _SLEEP, for a vCPU that serves a wakeup. The boost of such a vCPU lasts as
 * long as the grant of WAKE. Called after the charge and the refill. Return: 0 if the whole step is needed.
 */
PC_INLINE int pc_boost_serves_on(const struct pc_boost_config *cfg, struct pc_boost_state *st,
				 const struct pc_bucket *vm, const struct pc_bucket *cpu, u32 events)
{
	if (!st->boosted || st->throttled || (events & ~(PC_EV_RUN | PC_EV_PREEMPT | PC_EV_SLEEP)))
		return 0;
	if ((cfg->mode != PC_MODE_ON && cfg->mode != PC_MODE_OBSERVE) ||
	    !cfg->reason[PARACORD_REASON_WAKE].enabled)
		return 0;
	/* The end of a reason other than WAKE depends on the guest's hints, but a sleep ends that reason in any case. */
	if (events & PC_EV_SLEEP)
		pc_boost_renew(st);
	else if (st->reasons != PC_WAKE)
		return 0;
	st->quiet_ns = pc_boost_quiet_ns(cfg, st, vm, cpu);
	return st->quiet_ns != 0;
}

/*
 * Short form of the step for PC_EV_IRQ, for a boosted vCPU that is certain to keep its boost at this event: remembers the
 * interrupt for the next preemption. Return: 0 if a step is needed. This function may race with a step. The step then sees either
 * this interrupt or the previous one.
 */
PC_INLINE int pc_boost_note_irq(struct pc_boost_state *st, u64 now_ns)
{
	if (!st->boosted || !st->quiet_ns)
		return 0;
	WRITE_ONCE(st->grant_used_ns[PARACORD_REASON_IRQ], 0);
	WRITE_ONCE(st->last_irq_ns, now_ns);
	WRITE_ONCE(st->irq_wanted, 1);
	return 1;
}

/*
 * Return: PC_LEVEL_* of a boost for these reasons. A guest that spins gets interrupts (its tick) all the time. A boost for an
 * interrupt alone therefore takes CPU time only from normal tasks, not from vCPUs that woke up or that run a real-time task. A
 * vCPU that holds a lock gets the full level, because other vCPUs with the full level may be spinning on the lock.
 */
PC_INLINE u32 pc_boost_level(u32 reasons)
{
	if (!(reasons & PC_ALL_REASONS))
		return PC_LEVEL_NONE;
	return (reasons & PC_ALL_REASONS) == PC_IRQ ? PC_LEVEL_IRQ : PC_LEVEL_FULL;
}

/*
 * The actuation rate limit: one boost per actuation_min_ns on average, with a burst of PC_BOOSTS_AT_ONCE. The burst admits claims
 * that happen to come close together. Without the burst, the vCPU would have to wait for the host's other work at all but the
 * first of these claims. A boost for a wakeup is never held back. The rate of such boosts is limited anyway, because each of them
 * lasts over several sleeps, until its grant is used up.
 */
PC_INLINE int pc_boost_may_begin(const struct pc_boost_config *cfg, struct pc_boost_state *st, u32 claims,
				 u64 now_ns)
{
	u64 each = pc_min_u64(cfg->actuation_min_ns, PC_NSEC_PER_SEC);
	/* `ahead` is clamped: boosts_due_ns may be corrupt, or stem from another CPU's clock or an older configuration. */
	u64 due_ns = st->has_boosted ? st->boosts_due_ns : now_ns;
	u64 ahead = pc_min_u64(pc_elapsed_ns(due_ns, now_ns), PC_BOOSTS_AT_ONCE * each);
	int may = (claims & PC_WAKE) || ahead <= (PC_BOOSTS_AT_ONCE - 1) * each;

	st->boosts_due_ns = now_ns + ahead + (may ? each : 0);
	st->has_boosted = 1;
	return may;
}

/*
 * One step of one vCPU. The caller serialises the steps of a vCPU; the buckets
 * vm and cpu may be shared. cpu is the bucket of the CPU that the vCPU runs on or
 * ran on last.
 */
PC_INLINE struct pc_boost_decision
pc_boost_step(const struct pc_boost_config *cfg, struct pc_boost_state *st, struct pc_bucket *vm,
	      struct pc_bucket *cpu, const struct pc_boost_obs *obs, u64 now_ns)
{
	struct pc_boost_decision out = { .action = PC_KEEP };
	u32 was = st->boosted ? st->reasons & PC_ALL_REASONS : 0;
	/* Arithmetic instead of a branch: with a branch, the verifier would follow the rest of this function twice. */
	u32 allowed = (obs->refused & 1) - 1;
	u32 wanted, claims = 0, granted = 0;
	u8 empty = PC_THROTTLE_NONE;
	int r;

	st->boosted = st->boosted != 0;
	st->throttled = st->throttled != 0;
	out.charged_ns = pc_boost_charge(st, vm, cpu, obs->running, now_ns);
	pc_boost_refill(cfg, st, vm, cpu, now_ns);
	pc_boost_unthrottle(cfg, st, now_ns);
	if (pc_boost_serves_on(cfg, st, vm, cpu, obs->events | ~allowed)) {
		st->reasons = PC_WAKE;
		out.reasons = PC_WAKE;
		return out;
	}

	wanted = (u32)pc_forget(st, pc_boost_claims(cfg, st, obs, now_ns));
	for (r = 0; r < PC_REASONS; r++) {
		const struct pc_reason_config *rc = &cfg->reason[r];

		if (!rc->enabled)
			wanted &= ~(1u << r);
		else if (st->grant_used_ns[r] < rc->grant_max_ns)
			granted |= 1u << r;
	}
	wanted = (u32)pc_forget(st, wanted);
	granted = (u32)pc_forget(st, granted);
	if (cfg->mode != PC_MODE_ON && cfg->mode != PC_MODE_OBSERVE)
		wanted = 0;
	wanted &= allowed;
	if (!st->throttled) {
		claims = wanted & granted;
		if (claims)
			empty = pc_boost_empty(st, vm, cpu, &claims);
		if (empty)
			claims = 0;
		claims = (u32)pc_forget(st, claims);
		empty = (u8)pc_forget(st, empty);
	}

	/*
	 * The vCPU's claims exceed a budget. Throttle the vCPU and add a strike, even
	 * if the vCPU was not boosted. Each strike makes later throttles longer. If the
	 * budget of the host CPU is empty, do neither: all VMs share this budget, so the
	 * guest of this vCPU is not to blame.
	 */
	if (empty && empty != PC_THROTTLE_CPU) {
		u64 start = empty == PC_THROTTLE_VM ?
			    READ_ONCE(vm->period_start_ns) : st->vcpu.period_start_ns;

		pc_boost_throttle(cfg, st, start, empty, now_ns);
		out.throttled = 1;
		out.cause = empty;
	}
	if (st->boosted && !claims) {
		/*
		 * WAKE and IRQ normally end with their grant. An unboost is forced if a budget or a throttle causes it, or if it
		 * cuts off a hint that still holds.
		 */
		out.forced = empty || st->throttled || (wanted & (PC_RT | PC_CRITICAL));
		out.cause = empty;
		out.action = PC_UNBOOST;
		out.reasons = (u8)was;
		st->boosted = 0;
		st->reasons = 0;
		return out;
	}
	if (st->boosted) {
		st->reasons = (u8)claims;
		st->quiet_ns = pc_boost_quiet_ns(cfg, st, vm, cpu);
		out.reasons = (u8)claims;
		return out;
	}

	st->reasons = 0;
	/*
	 * A boost for an interrupt alone overtakes only normal tasks. If no normal task competes, the boost does not begin. The
	 * next event still sees the interrupt.
	 */
	if (!claims || (obs->alone && pc_boost_level(claims) == PC_LEVEL_IRQ))
		return out;
	if (!pc_boost_may_begin(cfg, st, claims, now_ns)) {
		out.suppressed = 1;
		return out;
	}
	st->boosted = 1;
	st->reasons = (u8)claims;
	st->quiet_ns = pc_boost_quiet_ns(cfg, st, vm, cpu);
	out.action = PC_BOOST;
	out.reasons = (u8)claims;
	return out;
}

#endif
