/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which perf event of the host serves which counter of a guest's vCPU, which events stay open, and which events are closed.
 *
 * Opening a perf event costs several times more than using an open one again (docs/design/0005). So an event that a counter gives
 * back is paused and stays open. The pool finds it by its key, whichever counter had it: perf in a guest rotates more events than
 * it has counters, and an event returns on another counter. (KVM's own reuse, seed 001, looks at the last event of the counter
 * only, which a rotation defeats.)
 *
 * An open event costs time at each context switch of the thread, so unused events are closed. The last open event is never
 * closed: opening the first event on a host without any costs milliseconds, because the kernel patches its code for it.
 *
 * The caller carries out the decisions. The state of the pool assumes that they succeed; the caller reports an event that could
 * not be opened by pc_pmu_drop(). Keys and counter numbers come from the guest: any values are safe.
 */
#ifndef PARACORD_POLICY_PMU_POOL_H
#define PARACORD_POLICY_PMU_POOL_H

#include "budget.h"
#include "pmu_pool_types.h"

/*
 * The kernel rotates events every 4 ms or more often (perf_pmu_register()). If twenty events share four counters, an event
 * returns after 64 ms. Seed 001 closes an event after one idle slice, and would open each event of such a rotation anew.
 */
#define PC_PMU_RELEASE_SLICES	8

/* Budget period: a guest that has exceeded its budget is not served until the next period. */
#define PC_PMU_PERIOD_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_PMU_PERIODS_PER_SEC	(PC_NSEC_PER_SEC / PC_PMU_PERIOD_NS)
/* Each start of perf in the guest may open some events, if the events change. More than this per second is a loop. */
#define PC_PMU_OPENS_PER_SEC	1000
/* 1/20 of a CPU per VM. Two vCPUs that rotate their events at 1 kHz need 1/100 of a CPU. */
#define PC_PMU_CALLS_NS_PER_SEC	(50 * PC_NSEC_PER_MSEC)

PC_INLINE int pc_pmu_same_key(const struct pc_pmu_key *a, const struct pc_pmu_key *b)
{
	return a->config == b->config && a->type == b->type && a->flags == b->flags;
}

PC_INLINE struct pc_pmu_decision pc_pmu_refuse(u8 cause)
{
	struct pc_pmu_decision refused = { .action = PC_PMU_NOTHING, .cause = cause };

	return refused;
}

/* What pc_pmu_find() looks for. */
#define PC_PMU_FIND_HELD	0	/* the event that the counter holds */
#define PC_PMU_FIND_KEY		1	/* of the events with the key that no counter holds, the one used last */
#define PC_PMU_FIND_OWN		2	/* of the counter's former events that no counter holds, the one used last */
#define PC_PMU_FIND_OLDEST	3	/* of the events that no counter holds, the one used longest ago */
#define PC_PMU_FIND_PLACE	4	/* a free place */

/* Return: the index of an event or of a free place, -1 if there is none. */
PC_VERIFIED_ALONE s32 pc_pmu_find(const struct pc_pmu_pool *pool, const struct pc_pmu_key *key, u32 counter, u32 what)
{
	u64 turn = what == PC_PMU_FIND_OLDEST ? ~0ULL : 0;	/* all turns lie between 0 and ~0 */
	s32 found = -1;
	u32 i;

	if (!pool || !key)
		return -1;
	for (i = 0; i < PC_PMU_EVENTS; i++) {
		const struct pc_pmu_event *e = &pool->event[i];

		if (what == PC_PMU_FIND_PLACE) {
			if (!e->open)
				return (s32)i;
			continue;
		}
		if (what == PC_PMU_FIND_HELD) {
			if (e->open && e->counter == counter + 1)
				return (s32)i;
			continue;
		}
		if (!e->open || e->counter)
			continue;
		if (what == PC_PMU_FIND_KEY && !pc_pmu_same_key(&e->key, key))
			continue;
		if (what == PC_PMU_FIND_OWN && e->had_by != counter + 1)
			continue;
		if (what == PC_PMU_FIND_OLDEST ? e->turn >= turn : e->turn <= turn)
			continue;
		found = (s32)i;
		turn = e->turn;
	}
	return found;
}

/* Chooses an event for the counter, and how the counter gets it. */
PC_INLINE struct pc_pmu_decision pc_pmu_choose(const struct pc_pmu_pool *pool, const struct pc_pmu_key *key,
					       u32 counter)
{
	struct pc_pmu_decision chosen = { .action = PC_PMU_USE };
	s32 event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_HELD);

	if (event >= 0 && event < PC_PMU_EVENTS) {
		if (!pc_pmu_same_key(&pool->event[event].key, key))
			return pc_pmu_refuse(PC_PMU_BUSY);
	} else if (pool->mode == PC_PMU_LAST) {
		/* The place of the counter's last event, even if other places are free. */
		event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_OWN);
		if (event >= 0 && event < PC_PMU_EVENTS && !pc_pmu_same_key(&pool->event[event].key, key))
			chosen.action = PC_PMU_REPLACE;
	} else if (pool->mode != PC_PMU_RECREATE) {
		event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_KEY);
	}
	if (event < 0) {
		chosen.action = PC_PMU_OPEN;
		event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_PLACE);
	}
	if (event < 0) {
		chosen.action = PC_PMU_REPLACE;
		event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_OLDEST);
	}
	if (event < 0)
		return pc_pmu_refuse(PC_PMU_NO_PLACE);
	chosen.event = (u8)event;
	return chosen;
}

/*
 * A counter takes an event. First choice is the last used event with the key that no counter holds; then a free place; then the
 * place of the event that was used longest ago and that no counter holds. `allowed`: result of pc_pmu_allowed().
 */
PC_INLINE struct pc_pmu_decision pc_pmu_take(struct pc_pmu_pool *pool, u32 counter, const struct pc_pmu_key *key,
					     u32 allowed)
{
	struct pc_pmu_decision taken;
	struct pc_pmu_event *e;

	if (counter >= PC_PMU_COUNTERS)
		return pc_pmu_refuse(PC_PMU_NO_SUCH_COUNTER);
	if (allowed == PC_PMU_ALLOW_NOTHING)
		return pc_pmu_refuse(PC_PMU_NO_BUDGET);
	taken = pc_pmu_choose(pool, key, counter);
	if (taken.action == PC_PMU_NOTHING)
		return taken;
	if (taken.action != PC_PMU_USE && allowed != PC_PMU_ALLOW_OPEN)
		return pc_pmu_refuse(PC_PMU_NO_BUDGET);
	e = &pool->event[taken.event & (PC_PMU_EVENTS - 1)];	/* bounds the index for the verifier */
	e->key = *key;
	e->turn = ++pool->turn;
	e->idle_slices = 0;
	e->open = 1;
	e->counter = (u8)(counter + 1);
	e->had_by = e->counter;
	return taken;
}

/* The event is gone: the caller could not open it, or has closed it for a reason of its own. */
PC_INLINE void pc_pmu_drop(struct pc_pmu_pool *pool, u32 event)
{
	struct pc_pmu_event none = { .open = 0 };

	if (event < PC_PMU_EVENTS)
		pool->event[event] = none;
}

/* A counter gives its event back. */
PC_INLINE struct pc_pmu_decision pc_pmu_give(struct pc_pmu_pool *pool, u32 counter)
{
	struct pc_pmu_decision given = { .action = PC_PMU_PAUSE };
	struct pc_pmu_key any = { .type = 0 };
	s32 event;

	if (counter >= PC_PMU_COUNTERS)
		return pc_pmu_refuse(PC_PMU_NO_SUCH_COUNTER);
	event = pc_pmu_find(pool, &any, counter, PC_PMU_FIND_HELD);
	if (event < 0 || event >= PC_PMU_EVENTS) {
		given.action = PC_PMU_NOTHING;
		return given;
	}
	given.event = (u8)event;
	pool->event[event].counter = 0;
	pool->event[event].turn = ++pool->turn;
	if (pool->mode == PC_PMU_RECREATE) {
		given.action = PC_PMU_CLOSE;
		pc_pmu_drop(pool, (u32)event);
	}
	return given;
}

#define PC_PMU_IS_OPEN		1
#define PC_PMU_IS_TO_CLOSE	2

/* Ages one event at the end of a slice. Return: a mask of the bits above. */
PC_VERIFIED_ALONE u32 pc_pmu_age(struct pc_pmu_event *e, u32 release_slices)
{
	if (!e || !e->open)
		return 0;
	if (e->counter)
		e->idle_slices = 0;
	else if (e->idle_slices < ~0u)
		e->idle_slices++;
	return release_slices && e->idle_slices > release_slices ? PC_PMU_IS_OPEN | PC_PMU_IS_TO_CLOSE :
								   PC_PMU_IS_OPEN;
}

/*
 * A slice ends: the thread was switched out and in again, or PC_PMU_SLICE_NS have passed. Return: mask of the events to close,
 * never the last event that is open.
 */
PC_INLINE u32 pc_pmu_end_slice(struct pc_pmu_pool *pool)
{
	u32 open = 0, close = 0, latest = 0, i;
	u64 turn = 0;

	/* No branch depends on earlier rounds of the loop: the verifier would walk every combination. */
	for (i = 0; i < PC_PMU_EVENTS; i++) {
		u32 is = pc_pmu_age(&pool->event[i], pool->release_slices);

		open |= (is & PC_PMU_IS_OPEN) << i;
		close |= (is & PC_PMU_IS_TO_CLOSE) / PC_PMU_IS_TO_CLOSE << i;
		if (pool->event[i].turn > turn) {
			latest = i;
			turn = pool->event[i].turn;
		}
	}
	if (close == open)
		close &= ~(1u << latest);
	for (i = 0; i < PC_PMU_EVENTS; i++)
		if (close & (1u << i))
			pc_pmu_drop(pool, i);
	return close;
}

/*
 * What the VM may do now: PC_PMU_ALLOW_*. The time in system calls is known only after the calls, and the vCPUs of a VM ask
 * concurrently. So each vCPU may overrun the budget by one batch, for which the budget goes into debt (budget.h).
 */
PC_INLINE u32 pc_pmu_allowed(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u64 now_ns)
{
	u64 calls_ns = pc_min_u64(quota->calls_ns_per_sec, PC_BUDGET_MAX_NS) / PC_PMU_PERIODS_PER_SEC;

	pc_bucket_refill_shared(&budget->calls, calls_ns, PC_PMU_PERIOD_NS, now_ns);
	pc_bucket_refill_shared(&budget->opens, PC_PMU_PERIOD_NS, PC_PMU_PERIOD_NS, now_ns);
	if (*(volatile s64 *)&budget->calls.left_ns <= 0)
		return PC_PMU_ALLOW_NOTHING;
	if (!quota->opens_per_sec || *(volatile s64 *)&budget->opens.left_ns <= 0)
		return PC_PMU_ALLOW_REUSE;
	return PC_PMU_ALLOW_OPEN;
}

/* Charges what the VM has caused: a number of opened events, and time in system calls. */
PC_INLINE void pc_pmu_charge(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u32 opens, u64 used_ns)
{
	u64 share_ns = PC_NSEC_PER_SEC / pc_max_u64(quota->opens_per_sec, 1);

	pc_bucket_charge_shared(&budget->calls, pc_min_u64(used_ns, PC_DEBT_MAX_NS));
	if (opens)
		pc_bucket_charge_shared(&budget->opens, pc_min_u64(opens * share_ns, PC_DEBT_MAX_NS));
}

#endif
