/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where each task is, as far as the scheduler knows: one word, pc_task.at. The states and the transitions between them
 * are written down here. The simulator checks each transition (crates/sim/native/bpf.c).
 *
 *  state      the task                                              next
 *  NOWHERE    sleeps, is new or has ended; or the kernel has it,    it is enqueued, or runs
 *             and says nothing before it runs
 *  QUEUE      waits in the queue of a CPU                           it runs, or is taken away (NOWHERE, LOCAL)
 *  RELEASED   the same; its quota has released it, and it does      it runs, or is taken away (NOWHERE); it is PARKED
 *             not count in its group yet                            again if the move to the queue fails
 *  PARKED     waits for the quota of its group                      it is RELEASED, or runs on an idle CPU, or is taken
 *                                                                   away
 *  LOCAL      was inserted into the local DSQ of a CPU              it runs, or is taken away
 *  RUN        runs                                                  it stops (NOWHERE), or is to LEAVE
 *  LEAVE      runs, and goes to another CPU when it stops           it goes on (RUN), or is enqueued (NOWHERE)
 *
 * For a task that waits (QUEUE, RELEASED, PARKED) the word says what the sums of its queue contain for it. The CPU that
 * runs the task, a CPU that takes it over and a CPU that enqueues it again may change the word at the same time. So the
 * word is exchanged as a whole, and each CPU subtracts what it finds there. In the other states only the holder of the
 * run queue lock of the task changes the word.
 */
#ifndef PARACORD_BPF_SCHED_STATE_H
#define PARACORD_BPF_SCHED_STATE_H

#define PC_AT(state, where)	((u64)(state) << PC_AT_STATE_SHIFT | (where))

/* The simulator's check of a transition. */
#ifndef PC_CHECK_STEP
#define PC_CHECK_STEP(was, is)
#endif

static __always_inline u32 state_of(u64 at)
{
	return at >> PC_AT_STATE_SHIFT & (PC_AT_STATE >> PC_AT_STATE_SHIFT);
}

/* Whether the state `is` may follow the state `was`. */
static __always_inline bool state_follows(u32 was, u32 is)
{
#define TO(state) (1u << PC_AT_##state)
	switch (was) {
	case PC_AT_NOWHERE:
		return (TO(NOWHERE) | TO(QUEUE) | TO(PARKED) | TO(LOCAL) | TO(RUN)) >> is & 1;
	case PC_AT_QUEUE:
		return (TO(NOWHERE) | TO(LOCAL) | TO(RUN)) >> is & 1;
	case PC_AT_RELEASED:
		return (TO(NOWHERE) | TO(PARKED) | TO(RUN)) >> is & 1;
	case PC_AT_PARKED:
		return (TO(NOWHERE) | TO(RELEASED) | TO(RUN)) >> is & 1;
	case PC_AT_LOCAL:
		return (TO(NOWHERE) | TO(RUN)) >> is & 1;
	case PC_AT_RUN:
	case PC_AT_LEAVE:
		return (TO(NOWHERE) | TO(RUN) | TO(LEAVE)) >> is & 1;
	}
	return false;
#undef TO
}

/* QUEUE, RELEASED, PARKED: the task is in the sums of a queue. */
static __always_inline bool waits(u64 at)
{
	return state_of(at) - PC_AT_QUEUE <= PC_AT_PARKED - PC_AT_QUEUE;
}

static __always_inline u64 place_of(const struct pc_task *t)
{
	return *(volatile u64 *)&t->at;
}

/* Adds a waiting task to the sums of its queue, or subtracts it. */
static __always_inline void count_waiting(u64 at, s32 by)
{
	u32 where = at & PC_AT_WHERE;
	struct pc_quota *q;
	struct pc_rq *rq;

	if (state_of(at) == PC_AT_PARKED) {
		q = quota_at(where);
		if (q)
			__sync_fetch_and_add(&q->parked, by);
		return;
	}
	rq = rq_of(where - 1);
	if (!rq)
		return;
	__sync_fetch_and_add(&rq->queued, by);
	__sync_fetch_and_add(&rq->waiting, by * (s64)(at >> PC_AT_WEIGHT_SHIFT));
	if (at & PC_AT_READS)
		__sync_fetch_and_add(&rq->readers, by);
}

/* Changes the word, and subtracts the task from where it waits, if it still waits. */
static __always_inline void exchange_place(struct pc_task *t, u64 at)
{
	u64 was = __sync_lock_test_and_set(&t->at, at);

	PC_CHECK_STEP(was, at);
	if (waits(was))
		count_waiting(was, -1);
}

/* The task waits there from now on. */
static __always_inline void wait_at(struct pc_task *t, u64 at)
{
	count_waiting(at, 1);
	exchange_place(t, at);
}

/* The task does not wait from now on. */
static __always_inline void go_to(struct pc_task *t, u64 at)
{
	u64 was = place_of(t);

	if (waits(was)) {
		exchange_place(t, at);
		return;
	}
	PC_CHECK_STEP(was, at);
	*(volatile u64 *)&t->at = at;
}

/* The task waits elsewhere instead, unless another CPU has taken it away meanwhile. */
static __always_inline bool wait_instead(struct pc_task *t, u64 was, u64 at)
{
	if (__sync_val_compare_and_swap(&t->at, was, at) != was)
		return false;
	PC_CHECK_STEP(was, at);
	count_waiting(at, 1);
	count_waiting(was, -1);
	return true;
}

/* The word of a task in the queue of a CPU. */
static __always_inline u64 in_queue(const struct pc_task *t, u32 state, u32 cpu)
{
	return (u64)t->weight << PC_AT_WEIGHT_SHIFT | (t->reads ? PC_AT_READS : 0) | PC_AT(state, cpu + 1);
}

static __always_inline bool is_in_queue_of(u64 at, u32 cpu)
{
	u32 state = state_of(at);

	return (state == PC_AT_QUEUE || state == PC_AT_RELEASED) && (at & PC_AT_WHERE) == cpu + 1;
}

/* The task has its virtual time and weight on the CPU where it was enqueued last (arrive()). */
static __always_inline bool has_arrived(u64 at)
{
	u32 state = state_of(at);

	return state == PC_AT_QUEUE || state == PC_AT_LOCAL;
}

/* CPU + 1 where a task goes when it gives up this CPU; 0: nowhere. */
static __always_inline u32 leaves_for(u64 at)
{
	return state_of(at) == PC_AT_LEAVE ? at & PC_AT_WHERE : 0;
}

#endif
