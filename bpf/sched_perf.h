/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load tracking of tasks, and the performance requests of their CPUs (policy/perf.h).
 *
 * A task belongs to the CPU whose virtual time it has (pc_task.queue). The sums of this CPU change only under its run
 * queue lock. A task that leaves for another CPU posts what is to be subtracted, and the CPU subtracts it itself, as the
 * kernel does with `removed` of a cfs_rq.
 *
 * The clock is that of the run queue, which the kernel has just updated in every operation. The kernel scales this clock
 * by the speed of the CPU, so that utilization does not depend on capacity and frequency.
 */
#ifndef PARACORD_BPF_SCHED_PERF_H
#define PARACORD_BPF_SCHED_PERF_H

static __always_inline u64 pelt_clock(struct task_struct *p)
{
	return p->se.cfs_rq->rq->clock_pelt;
}

/* Subtracts what has left for other CPUs. */
static __always_inline void take_off(struct pc_rq *rq, u64 clock)
{
	if (*(volatile u64 *)&rq->left)
		pc_perf_leave(&rq->perf, __sync_lock_test_and_set(&rq->left, 0));
	if (*(volatile u64 *)&rq->removed)
		pc_perf_take(&rq->perf, __sync_lock_test_and_set(&rq->removed, 0), clock);
}

/* What is requested of a CPU now. Any CPU may call this, and sees what the owner has accounted last. */
static __always_inline u32 sum_of(const struct pc_rq *rq, u64 now)
{
	u64 periods = pc_elapsed_ns(now, rq->sum_ns) / PC_PELT_PERIOD_NS;
	u64 sleeping = pc_pelt_decay(rq->perf.sleeping, periods);
	u64 sum = rq->perf.runnable + (sleeping >> PC_CAPACITY_SHIFT);
	u64 gone = *(volatile u64 *)&rq->left + (*(volatile u64 *)&rq->removed >> PC_CAPACITY_SHIFT);

	return sum > gone ? sum - gone : 0;
}

/* Whether other CPUs may take tasks from the queue of this CPU. */
static __always_inline bool gives_away(const struct pc_rq *rq, u64 now)
{
	return !(rq->features & PC_PERF_PLACE) || sum_of(rq, now) > rq->capacity;
}

/* schedutil adds a quarter to every request. `wanted` has paracord's own quarter in it already. */
static __always_inline void request(struct pc_rq *rq, u32 cpu, u32 wanted)
{
	rq->requested = wanted;
	if (rq->features & PC_PERF_REQUEST) {
		rq->asks = 1;
		scx_bpf_cpuperf_set(cpu, wanted - wanted / 5);
	}
}

/*
 * A request within the rate limit of the governor is lost, so it is made again at each switch and tick. `p`: the task
 * that runs there.
 */
static __noinline int perf_request(struct task_struct *p, struct pc_rq *rq, u32 cpu)
{
	u64 clock = pelt_clock(p);
	u32 wanted;

	if (!rq)
		return 0;
	take_off(rq, clock);
	/* The governor itself adds real-time, deadline and interrupt time. */
	wanted = pc_perf_cpu_request(&rq->perf, 0, clock);
	if (rq->features & PC_PERF_HOLD)
		wanted = pc_perf_hold(&rq->perf, wanted, clock);
	rq->sum_ns = rq_now();
	request(rq, cpu, wanted);
	return 0;
}

/* Subtracts what a task has contributed where it has contributed it: on this CPU, or on `from`. */
static __always_inline void perf_uncount(struct pc_task *t, struct pc_rq *rq, struct pc_rq *from, u64 now, u64 clock)
{
	u64 elapsed_ns = pc_elapsed_ns(now, t->seen_ns);

	if (from) {
		if (t->perf.slept_ns)
			__sync_fetch_and_add(&from->removed, pc_perf_part(&t->perf, elapsed_ns));
		else
			__sync_fetch_and_add(&from->left, t->perf.contribution);
		t->perf.contribution = 0;
		pc_perf_rebase(&t->perf, elapsed_ns, clock);
	} else if (t->perf.slept_ns) {
		pc_perf_take(&rq->perf, pc_perf_part(&t->perf, pc_elapsed_ns(clock, t->perf.slept_ns)), clock);
	}
}

/*
 * A task comes to this CPU: it wakes, comes from another CPU (`from`, otherwise NULL), or has waited and runs now. `now`:
 * rq_now(). If this CPU does not track loads, the load of the task is forgotten.
 */
static __noinline int perf_arrive(struct task_struct *p, struct pc_task *t, struct pc_rq *rq, struct pc_rq *from,
				  u64 now)
{
	u64 clock = pelt_clock(p);

	if (!t || !rq)
		return 0;
	if (t->known)
		perf_uncount(t, rq, from, now, clock);
	if (!(rq->features & PC_PERF_TRACK)) {
		if (!from && !t->perf.slept_ns)
			pc_perf_leave(&rq->perf, t->perf.contribution);
		t->perf.contribution = 0;
		t->perf.slept_ns = 0;
		t->known = 0;
		return 0;
	}
	if (!t->known) {
		t->known = 1;
		pc_perf_begin(&rq->perf, &t->perf, clock);
	}
	t->seen_ns = now;
	if (t->perf.slept_ns)
		pc_perf_wake(&rq->perf, &t->perf, t->clamp, !!(rq->features & PC_PERF_CARRY), clock);
	else
		pc_perf_account(&rq->perf, &t->perf, t->clamp, 0, clock);
	return 0;
}

/* The task has run on this CPU up to now. */
static __noinline int perf_ran(struct task_struct *p, struct pc_task *t, struct pc_rq *rq, u64 now)
{
	if (!t || !rq)
		return 0;
	/* The task was running when tracking began. */
	if (!t->known)
		return perf_arrive(p, t, rq, NULL, now);
	t->seen_ns = now;
	pc_perf_account(&rq->perf, &t->perf, t->clamp, 1, pelt_clock(p));
	return 0;
}

/* The task is no longer runnable; or, with `sleeps` = 0, it is parked or has moved to another class. */
static __noinline int perf_departs(struct task_struct *p, struct pc_task *t, u32 cpu, u32 sleeps)
{
	struct pc_rq *rq;

	if (!t || t->perf.slept_ns || t->queue == PC_NO_QUEUE)
		return 0;
	rq = rq_of(t->queue);
	if (!rq)
		return 0;
	/* The task was moved here and has not run here: the sums of this CPU have nothing of it. */
	if (t->queue != cpu) {
		__sync_fetch_and_add(&rq->left, t->perf.contribution);
		t->perf.contribution = 0;
		return 0;
	}
	t->seen_ns = rq_now();
	rq->sum_ns = t->seen_ns;
	if (sleeps) {
		pc_perf_sleep(&rq->perf, &t->perf, t->clamp, pelt_clock(p));
	} else {
		pc_perf_leave(&rq->perf, t->perf.contribution);
		t->perf.contribution = 0;
	}
	return 0;
}

#endif
