/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where each task is, as far as the scheduler knows. The place of a task is one word, pc_task.at. The table lists the states of a
 * task and the transitions between them. The simulator checks each transition (crates/sim/native/bpf.c).
 *
 *  state      the task                                              next
 *  NOWHERE    sleeps, is new or has exited; or was handed to the    it is enqueued, or runs
 *             kernel, which calls no operation until the task runs
 *  QUEUE      waits in the queue of a CPU                           it runs, or is fetched (LOCAL) or dequeued (NOWHERE)
 *  RELEASED   waits in the queue of a CPU, after its quota has      it runs, or is fetched or dequeued (NOWHERE); it is
 *             released it; does not count in its group yet          PARKED again if the move to the queue fails
 *  PARKED     waits for the quota of its group                      it is RELEASED, or runs on an idle CPU, or is
 *                                                                   dequeued (NOWHERE)
 *  LOCAL      was inserted into the local DSQ of a CPU              it runs, or is dequeued or requeued (NOWHERE)
 *  RUN        runs                                                  it stops (NOWHERE), or is to migrate (LEAVE)
 *  LEAVE      runs, and goes to another CPU when it stops           it keeps running (RUN), or is enqueued (NOWHERE)
 *
 * While a task waits (QUEUE, RELEASED, PARKED), its word shows what the task adds to the sums of its queue. Several CPUs may
 * change the word at the same time: a CPU that begins to run the task, a CPU that pulls it, and a CPU that requeues it. So each
 * of these CPUs replaces the whole word atomically, and subtracts from the sums what the old word shows. In the other states,
 * only the holder of the task's run queue lock changes the word.
 */
#ifndef PARACORD_BPF_SCHED_STATE_H
#define PARACORD_BPF_SCHED_STATE_H

#define PC_AT(state, where)	((u64)(state) << PC_AT_STATE_SHIFT | (where))

/* Hook for the simulator, which checks each transition. */
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

/* Whether the state is QUEUE, RELEASED or PARKED. In these states, a task counts in the sums of a queue. */
static __always_inline bool waits(u64 at)
{
	return state_of(at) - PC_AT_QUEUE <= PC_AT_PARKED - PC_AT_QUEUE;
}

static __always_inline u64 place_of(const struct pc_task *t)
{
	return READ_ONCE(t->at);
}

/* Adds a waiting task to the sums of its queue (`by`: 1), or subtracts it (`by`: -1). */
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

/* Sets the word of a task to `at`. If the old word says that the task waits, subtracts the task from the sums of its queue. */
static __always_inline void exchange_place(struct pc_task *t, u64 at)
{
	u64 was = __sync_lock_test_and_set(&t->at, at);

	PC_CHECK_STEP(was, at);
	if (waits(was))
		count_waiting(was, -1);
}

/* Sets the word of a task to `at`, which must contain a state in which the task waits. */
static __always_inline void wait_at(struct pc_task *t, u64 at)
{
	count_waiting(at, 1);
	exchange_place(t, at);
}

/* Sets the word of a task to `at`, which must contain a state in which the task does not wait. */
static __always_inline void go_to(struct pc_task *t, u64 at)
{
	u64 was = place_of(t);

	if (waits(was)) {
		exchange_place(t, at);
		return;
	}
	PC_CHECK_STEP(was, at);
	WRITE_ONCE(t->at, at);
}

/* Changes the word of a waiting task from `was` to `at`. Return: false if another CPU has already changed the word. */
static __always_inline bool wait_instead(struct pc_task *t, u64 was, u64 at)
{
	if (__sync_val_compare_and_swap(&t->at, was, at) != was)
		return false;
	PC_CHECK_STEP(was, at);
	count_waiting(at, 1);
	count_waiting(was, -1);
	return true;
}

/* The word of a task that waits in the queue of a CPU. */
static __always_inline u64 in_queue(const struct pc_task *t, u32 state, u32 cpu)
{
	return (u64)t->weight << PC_AT_WEIGHT_SHIFT | (t->reads ? PC_AT_READS : 0) | PC_AT(state, cpu + 1);
}

static __always_inline bool is_in_queue_of(u64 at, u32 cpu)
{
	u32 state = state_of(at);

	return (state == PC_AT_QUEUE || state == PC_AT_RELEASED) && (at & PC_AT_WHERE) == cpu + 1;
}

/* Whether arrive() has set the virtual time and the weight of the task for the CPU where the task was last enqueued. */
static __always_inline bool has_arrived(u64 at)
{
	u32 state = state_of(at);

	return state == PC_AT_QUEUE || state == PC_AT_LOCAL;
}

/* Return: 1 + the CPU to which a task goes when it stops running; 0: the task does not go to another CPU. */
static __always_inline u32 leaves_for(u64 at)
{
	return state_of(at) == PC_AT_LEAVE ? at & PC_AT_WHERE : 0;
}

#endif
