/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's perf events behind the counters of a guest's vCPU: which event serves which counter, which events stay open, and
 * which events are closed.
 *
 * Opening a perf event costs several times more than reusing an open one (docs/design/0005). So an event that a counter gives
 * back is paused and stays open. The pool finds it by its key, whichever counter held it last. This matters if perf in the guest
 * has more events than counters: perf then rotates the events, and an event returns on another counter. KVM's own reuse remembers
 * only a counter's last event, so it does not help when perf rotates events.
 *
 * An open event costs time at each context switch of the thread, so unused events are closed. The last remaining event is never
 * closed: on a host without any other event, opening an event costs milliseconds, because the kernel then patches its code.
 *
 * The caller carries out the decisions. The state of the pool assumes that each decision succeeds. If an event could not be
 * opened, the caller calls pc_pmu_drop(). Keys and counter numbers come from the guest: any values are safe.
 */
#ifndef PARACORD_POLICY_PMU_POOL_H
#define PARACORD_POLICY_PMU_POOL_H

#include "budget.h"
#include "pmu_pool_types.h"

/*
 * An event is closed once it has been idle for more than this many slices. By default, the guest's kernel rotates events once per
 * tick (PERF_CPU_HRTIMER), that is, every 4 ms with 250 ticks per second. With twenty events on four counters, an event then
 * returns after 64 ms. If events were closed after one idle slice, as in KVM (kvm_pmu_cleanup()), the rotation would close and
 * reopen each event.
 */
#define PC_PMU_RELEASE_SLICES	8

/* Budget period: a guest that has exceeded its budget is not served until the next period. */
#define PC_PMU_PERIOD_NS	(100 * PC_NSEC_PER_MSEC)
#define PC_PMU_PERIODS_PER_SEC	(PC_NSEC_PER_SEC / PC_PMU_PERIOD_NS)
/*
 * Number of events that a VM may open per second. When perf starts in the guest, it causes only a few openings, one for each
 * event whose key no open event has. Only a loop in the guest causes more than this number.
 */
#define PC_PMU_OPENS_PER_SEC	1000
/*
 * Time per second that system calls on behalf of a VM may take: 1/20 of a CPU. Two vCPUs that rotate their events at 1 kHz need
 * 1/100 of a CPU.
 */
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

/* Targets of the search in pc_pmu_find(). */
#define PC_PMU_FIND_HELD	0	/* the event that the counter holds */
#define PC_PMU_FIND_KEY		1	/* the most recently used event that has the key and that no counter holds */
#define PC_PMU_FIND_OWN		2	/* the most recently used event that no counter holds and that this counter held last */
#define PC_PMU_FIND_OLDEST	3	/* the least recently used event that no counter holds */
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

/* Chooses an event for the counter, and the action by which the counter gets this event. */
PC_INLINE struct pc_pmu_decision pc_pmu_choose(const struct pc_pmu_pool *pool, const struct pc_pmu_key *key,
					       u32 counter)
{
	struct pc_pmu_decision chosen = { .action = PC_PMU_USE };
	s32 event = pc_pmu_find(pool, key, counter, PC_PMU_FIND_HELD);

	if (event >= 0 && event < PC_PMU_EVENTS) {
		if (!pc_pmu_same_key(&pool->event[event].key, key))
			return pc_pmu_refuse(PC_PMU_BUSY);
	} else if (pool->mode == PC_PMU_LAST) {
		/* Use the place of the counter's last event, even if other places are free. */
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
 * Gives a counter an event. If the counter holds none, the choices in mode PC_PMU_KEYED are, in this order:
 *   1. the most recently used event that has the key and that no counter holds;
 *   2. a free place;
 *   3. the place of the least recently used event that no counter holds.
 * `allowed`: result of pc_pmu_allowed().
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

/* Removes an event from the pool. Called if the caller could not open the event, or has closed it for a reason of its own. */
PC_INLINE void pc_pmu_drop(struct pc_pmu_pool *pool, u32 event)
{
	struct pc_pmu_event none = { .open = 0 };

	if (event < PC_PMU_EVENTS)
		pool->event[event] = none;
}

/* Takes back the event of a counter. Return: what to do with the event. */
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

/* Ages one event at the end of a slice. Return: a mask of PC_PMU_IS_OPEN and PC_PMU_IS_TO_CLOSE. */
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
 * Ages all events. Called at the end of a slice, that is, after the thread was switched out and in again, or after PC_PMU_SLICE_NS.
 * Return: mask of the events to close. If any event is open, at least one stays open.
 */
PC_INLINE u32 pc_pmu_end_slice(struct pc_pmu_pool *pool)
{
	u32 open = 0, close = 0, latest = 0, i;
	u64 turn = 0;

	/* The masks are computed without branches: with branches, the verifier would walk every combination of events. */
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
 * Return: what the VM may do now, PC_PMU_ALLOW_*. The time in system calls is known only after the calls, and the vCPUs of a VM
 * call this function concurrently. So each vCPU may overrun the budget by one batch. The overrun becomes a debt (budget.h).
 */
PC_INLINE u32 pc_pmu_allowed(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u64 now_ns)
{
	u64 calls_ns = pc_min_u64(quota->calls_ns_per_sec, PC_BUDGET_MAX_NS) / PC_PMU_PERIODS_PER_SEC;

	pc_bucket_refill_shared(&budget->calls, calls_ns, PC_PMU_PERIOD_NS, now_ns);
	pc_bucket_refill_shared(&budget->opens, PC_PMU_PERIOD_NS, PC_PMU_PERIOD_NS, now_ns);
	if (READ_ONCE(budget->calls.left_ns) <= 0)
		return PC_PMU_ALLOW_NOTHING;
	if (!quota->opens_per_sec || READ_ONCE(budget->opens.left_ns) <= 0)
		return PC_PMU_ALLOW_REUSE;
	return PC_PMU_ALLOW_OPEN;
}

/* Charges the work that the VM has caused. `opens`: number of events opened. `used_ns`: time in system calls. */
PC_INLINE void pc_pmu_charge(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u32 opens, u64 used_ns)
{
	u64 share_ns = PC_NSEC_PER_SEC / pc_max_u64(quota->opens_per_sec, 1);

	pc_bucket_charge_shared(&budget->calls, pc_min_u64(used_ns, PC_DEBT_MAX_NS));
	if (opens)
		pc_bucket_charge_shared(&budget->opens, pc_min_u64(opens * share_ns, PC_DEBT_MAX_NS));
}

#endif
