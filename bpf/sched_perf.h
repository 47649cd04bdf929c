/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load tracking of tasks, and the performance requests of their CPUs (policy/perf.h).
 *
 * A task counts in the sums of the CPU to whose base its virtual time refers (pc_task.queue). These sums change only under the
 * run queue lock of that CPU. When a task goes to another CPU, its contribution is added to `left` or `removed` of the old CPU,
 * and the old CPU then subtracts it from its own sums. The kernel uses `removed` of a cfs_rq in the same way.
 *
 * Load is tracked on the clock clock_pelt of the run queue. The kernel updates this clock before each operation of the scheduler,
 * and scales the clock by the speed of the CPU, so that utilisation does not depend on capacity and frequency.
 */
#ifndef PARACORD_BPF_SCHED_PERF_H
#define PARACORD_BPF_SCHED_PERF_H

static __always_inline u64 pelt_clock(struct task_struct *p)
{
	return p->se.cfs_rq->rq->clock_pelt;
}

/* Subtracts from this CPU's sums the contributions of tasks that have moved to other CPUs. */
static __always_inline void take_off(struct pc_rq *rq, u64 clock)
{
	if (READ_ONCE(rq->left))
		pc_perf_leave(&rq->perf, __sync_lock_test_and_set(&rq->left, 0));
	if (READ_ONCE(rq->removed))
		pc_perf_take(&rq->perf, __sync_lock_test_and_set(&rq->removed, 0), clock);
}

/*
 * The sum of the requests of a CPU's tasks as of `now`. Any CPU may call this function. The result is as recent as the last
 * update by the CPU of `rq`.
 */
static __always_inline u32 sum_of(const struct pc_rq *rq, u64 now)
{
	u64 periods = pc_elapsed_ns(now, rq->sum_ns) / PC_PELT_PERIOD_NS;
	u64 sleeping = pc_pelt_decay(rq->perf.sleeping, periods);
	u64 sum = rq->perf.runnable + (sleeping >> PC_CAPACITY_SHIFT);
	u64 gone = READ_ONCE(rq->left) + (READ_ONCE(rq->removed) >> PC_CAPACITY_SHIFT);

	return sum > gone ? sum - gone : 0;
}

/* Whether other CPUs may pull tasks from the queue of this CPU. */
static __always_inline bool gives_away(const struct pc_rq *rq, u64 now)
{
	return !(rq->features & PC_PERF_PLACE) || sum_of(rq, now) > rq->capacity;
}

/*
 * Makes a performance request for a CPU. schedutil adds 25 % headroom to every request. `wanted` already includes paracord's own
 * headroom of 25 %, so a fifth is subtracted here.
 */
static __always_inline void request(struct pc_rq *rq, u32 cpu, u32 wanted)
{
	rq->requested = wanted;
	if (rq->features & PC_PERF_REQUEST) {
		rq->asks = 1;
		scx_bpf_cpuperf_set(cpu, wanted - wanted / 5);
	}
}

/*
 * Computes the performance request of a CPU, and makes it. The request is repeated at each switch and tick, because the governor
 * ignores requests that come more often than its rate limit allows. `p`: the task that runs on the CPU.
 */
static __noinline int perf_request(struct task_struct *p, struct pc_rq *rq, u32 cpu)
{
	u64 clock = pelt_clock(p);
	u32 wanted;

	if (!rq)
		return 0;
	take_off(rq, clock);
	/* The governor itself adds the time of real-time tasks, deadline tasks and interrupts. */
	wanted = pc_perf_cpu_request(&rq->perf, 0, clock);
	if (rq->features & PC_PERF_HOLD)
		wanted = pc_perf_hold(&rq->perf, wanted, clock);
	rq->sum_ns = rq_now();
	request(rq, cpu, wanted);
	return 0;
}

/* Subtracts the contribution of a task from the sums of the CPU where it counts: `from`, or this CPU if `from` is NULL. */
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
 * Adds a task to the sums of this CPU, or updates its contribution. Called when the task wakes on this CPU, comes from another
 * CPU, or has waited and begins to run. `from`: the other CPU; NULL: none. `now`: rq_now(). If this CPU does not track loads, the
 * load of the task is forgotten.
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

/* Accounts for the time for which the task has run on this CPU, up to `now`. */
static __noinline int perf_ran(struct task_struct *p, struct pc_task *t, struct pc_rq *rq, u64 now)
{
	if (!t || !rq)
		return 0;
	/* If the load of the task is not tracked yet, the task was already running when tracking began. */
	if (!t->known)
		return perf_arrive(p, t, rq, NULL, now);
	t->seen_ns = now;
	pc_perf_account(&rq->perf, &t->perf, t->clamp, 1, pelt_clock(p));
	return 0;
}

/*
 * Called when a task is no longer runnable. If `sleeps` is set, the contribution of the task decays from now on. Otherwise the
 * task is parked or has moved to another class, and its contribution is removed immediately.
 */
static __noinline int perf_departs(struct task_struct *p, struct pc_task *t, u32 cpu, u32 sleeps)
{
	struct pc_rq *rq;

	if (!t || t->perf.slept_ns || t->queue == PC_NO_QUEUE)
		return 0;
	rq = rq_of(t->queue);
	if (!rq)
		return 0;
	/* The task was moved to `cpu` and has not run there. Its contribution is still in the sums of the old CPU. */
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
