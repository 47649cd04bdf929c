/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the scheduler applies the boost of a vCPU thread, and the end of a boost.
 *
 * A boosted thread that is enqueued is inserted into the local DSQ of its CPU, and preempts a running task of a lower level. A
 * thread that is boosted while it runs keeps its CPU. A thread that is boosted while it sleeps runs first when it wakes. In these
 * two cases, nothing needs to be done immediately. A thread that is boosted while it waits is fetched from the queue. A thread
 * that loses its boost while it runs is preempted if another task waits. For these two changes, the scheduler has to call
 * scx_bpf_kick_cpu(). On some kernels, no BPF program can call this function (scx.h). On some other kernels, programs at VM exits
 * cannot call it. On all these kernels, the two changes take effect at the next tick of the CPU.
 *
 * If a real-time task takes the CPU of a boosted thread, the thread moves to another CPU immediately.
 */
#ifndef PARACORD_BPF_SCHED_BOOST_H
#define PARACORD_BPF_SCHED_BOOST_H

/*
 * A search for a boosted vCPU or for the target of a directed yield checks at most this many tasks in a queue. A preempted task
 * is near the front of its queue.
 */
#define PC_PROMOTE_DEPTH	64
/* Shift from nanoseconds to the unit of pc_rq.taken, which is about a millisecond. pc_rq.taken wraps around. */
#define PC_TAKEN_SHIFT		20
/*
 * If no real-time task has taken a CPU for this long (in the unit of pc_rq.taken), the CPU counts as one that real-time tasks do
 * not use.
 */
#define PC_TAKEN_OLD		10

/* 0: this kernel (6.12) does not let programs at raw tracepoints call scx_bpf_kick_cpu(). Set before loading. */
const volatile u32 exits_kick SEC(".rodata.kicks") = 1;

/* Like preempt_cpu(), but for the sensor's programs. */
static __always_inline void preempt_for_boost(struct pc_rq *rq, u32 cpu)
{
	if (exits_kick)
		preempt_cpu(rq, cpu);
	else
		preempt_at_tick(rq);
}

/* Applies a change of a vCPU's level. Called by the evaluator after it has stored the new level. */
static __always_inline void boost_changed(u32 index, struct pc_vcpu *v, u32 events)
{
	u32 cpu = v->cpu;
	struct pc_rq *rq = rq_of(cpu);

	if (!ext_on || !rq)
		return;
	if (READ_ONCE(v->on_cpu)) {
		if (v->level)
			WRITE_ONCE(v->ran_boosted, 1);
		if (!v->level && READ_ONCE(rq->queued) > 0)
			preempt_for_boost(rq, cpu);
		return;
	}
	/* If the thread is being preempted, it is enqueued after this call, and it is then already boosted. */
	if (!v->level || READ_ONCE(v->asleep) || (events & PC_EV_PREEMPT))
		return;
	/*
	 * `promotes` is set after the level was stored, and promote() clears `promotes` before it searches the queue. Both writes
	 * to `promotes` are atomic exchanges, and therefore barriers.
	 */
	__sync_lock_test_and_set(&rq->promotes, 1);
	preempt_for_boost(rq, cpu);
}

static __always_inline u32 task_level(const struct pc_task *t)
{
	u32 index;

	return level_of(vcpu_of(t, &index));
}

/* Whether a thread boosted to `level` may preempt the running task of a CPU. Also true if no task of the scheduler runs there. */
static __always_inline bool gives_way(const struct pc_rq *rq, u32 level)
{
	return runs_nothing(rq) || level_on(rq) < level;
}

/*
 * Moves a task from this CPU's queue to this CPU's local DSQ: the first boosted vCPU or, if `called` is set, the first target of
 * a directed yield (sched_yield.h). Return: whether a task was moved.
 */
static __noinline bool fetch_marked(u32 cpu, bool called)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool moved = false;
	int i;

	if (!bpf_iter_scx_dsq_new(&it, cpu, 0)) {
		bpf_for(i, 0, PC_PROMOTE_DEPTH) {
			struct pc_task *t;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (!(called ? t && t->called : task_level(t)))
				continue;
			moved = fetch(&it, p, t);
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/*
 * Fetches a vCPU that was boosted while it waited. If there are several such vCPUs, the following switches fetch the other ones.
 */
static __noinline bool promote(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return false;
	__sync_lock_test_and_set(&rq->promotes, 0);
	if (!fetch_marked(cpu, false))
		return false;
	WRITE_ONCE(rq->promotes, 1);
	return true;
}

/*
 * Fetches the target of a directed yield (sched_yield.h). While a boosted vCPU runs, the target is fetched only if that vCPU has
 * made the yield. Return: 1 if a task was fetched; otherwise 0.
 */
PC_VERIFIED_ALONE int fetch_called(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return 0;
	return (__sync_lock_test_and_set(&rq->calls, 0) == PC_CALLS_HERE || level_on(rq) == PC_LEVEL_NONE) &&
	       fetch_marked(cpu, true);
}

/*
 * Called when a boosted thread wakes. Inserts the thread into the local DSQ of `cpu`, the CPU where it ran last, if this CPU is
 * idle or runs a task that the thread may preempt. Return: whether the thread was inserted. The kernel does the same with
 * real-time tasks (select_task_rq_rt()). A search for an idle CPU would delay the thread. If the thread preempts a task, the
 * scheduler instead searches for an idle CPU for the preempted task.
 */
static __always_inline bool takes_back(struct task_struct *p, const struct pc_rq *rq, u32 cpu, u32 level)
{
	if (!rq || rq->offline || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		insert(p, SCX_DSQ_LOCAL, rq->slice_ns, at_once(rq, 0));
		return true;
	}
	/* If the CPU is not idle but runs no task of the scheduler, it runs a task of a higher class, or is about to switch. */
	if (runs_nothing(rq) || !gives_way(rq, level))
		return false;
	insert(p, SCX_DSQ_LOCAL, rq->slice_ns, SCX_ENQ_PREEMPT);
	return true;
}

/*
 * Finds an idle CPU in the domain of `prev` for a boosted thread. `prev`: the CPU where the thread ran last. CPUs of a domain
 * have the same capacity. Return: the CPU; negative if none is idle, or if the CPUs of the domain are too small for the thread.
 *
 * For the latency of the thread, any idle CPU would do. But if a task of a higher class occupies `prev` when an interrupt
 * arrives, the thread must not move to a large CPU whose capacity it has not requested.
 */
static __noinline s32 idle_alike(struct task_struct *p, struct pc_task *t, u32 prev)
{
	struct pc_rq *rq = rq_of(prev);
	u32 domain, ring, cpu;
	int i;

	if (!p || !t || !rq || t->clamp.min > rq->capacity)
		return -1;
	domain = rq->domain;
	ring = widest_in_node(rq);
	bpf_for(i, 0, 2 * PC_STEAL_MAX) {
		cpu = rq->near.next[ring];
		rq = rq_of(cpu);
		if (!rq || cpu == prev)
			break;
		if (rq->domain == domain && !rq->offline && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
		    scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* Records that a real-time or deadline task takes a CPU from the scheduler. */
static __always_inline void record_taking(struct pc_rq *rq, u64 now)
{
	WRITE_ONCE(rq->taken, now >> PC_TAKEN_SHIFT);
}

/*
 * Return: the time since a real-time task last took the CPU of `rq`, in the unit of pc_rq.taken; 0 if that CPU's clock is ahead.
 */
static __always_inline u32 since_taken(const struct pc_rq *rq, u64 now)
{
	s32 units = (u32)(now >> PC_TAKEN_SHIFT) - READ_ONCE(rq->taken);

	return units < 0 ? 0 : units;
}

/* Whether no real-time task has taken the CPU of `rq` within the last PC_TAKEN_OLD. */
static __always_inline bool is_quiet(const struct pc_rq *rq, u64 now)
{
	return since_taken(rq, now) >= PC_TAKEN_OLD;
}

/*
 * Searches the node of `from` for another CPU whose running task a boosted thread may preempt. Prefers a CPU that has the same
 * capacity and that no real-time task has taken within the last PC_TAKEN_OLD. On a CPU that real-time tasks use, one of them might
 * make the thread wait or move again. Return: the CPU; negative if there is none. This function and cpu_instead() are global, so
 * that the verifier checks them only once.
 */
__noinline s32 preemptible_near(struct task_struct *p __arg_trusted, u32 from, u64 now)
{
	struct pc_rq *rq = rq_of(from);
	s32 found = -1;
	u32 capacity, ring, cpu;
	int i;

	if (!p || !rq)
		return -1;
	capacity = rq->capacity;
	ring = widest_in_node(rq);
	bpf_for(i, 0, 2 * PC_STEAL_MAX) {
		cpu = rq->near.next[ring];
		rq = rq_of(cpu);
		if (!rq || cpu == from)
			break;
		if (rq->offline || !runs_ordinary(rq) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (rq->capacity == capacity && is_quiet(rq, now))
			return cpu;
		if (found < 0)
			found = cpu;
	}
	return found;
}

/*
 * Called if no idle CPU was found for a boosted thread that wakes. Searches the node of `first` for a CPU whose running task the
 * thread may preempt. If there is no such CPU, tries to find an idle CPU in any node. Return: the CPU; `first` if none was found.
 */
static __always_inline u32 cpu_to_preempt(struct task_struct *p, u32 first)
{
	struct pc_rq *rq = rq_of(first);
	s32 cpu;

	if (!rq || (runs_ordinary(rq) && bpf_cpumask_test_cpu(first, p->cpus_ptr)))
		return first;
	cpu = preemptible_near(p, first, rq_now());
	/* The CPUs of the node run boosted vCPUs or tasks of a higher class. Try an idle CPU anywhere. */
	if (cpu < 0)
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return cpu >= 0 ? (u32)cpu : first;
}

/*
 * Finds a CPU for a boosted thread whose CPU `from` was just taken by a real-time task. Return: an idle CPU, or a CPU whose
 * running task the thread may preempt; `from` if there is none.
 */
static __noinline u32 cpu_beside(struct task_struct *p, struct pc_task *t, u32 from, u64 now)
{
	struct pc_rq *rq = rq_of(from), *theirs;
	s32 cpu;

	if (!p || !t || !rq)
		return from;
	if (!(rq->features & PC_PERF_PLACE)) {
		cpu = idle_cpu_for(p, t, rq, now);
		return cpu >= 0 ? (u32)cpu : cpu_to_preempt(p, from);
	}
	cpu = idle_alike(p, t, from);
	if (cpu >= 0)
		return cpu;
	/*
	 * Do not move the thread to a CPU with another capacity. The thread has not requested that capacity, and would stay on
	 * that CPU until it sleeps.
	 */
	cpu = preemptible_near(p, from, now);
	theirs = rq_of(cpu);
	return theirs && theirs->capacity == rq->capacity ? (u32)cpu : from;
}

/*
 * Finds a CPU for a boosted thread whose CPU was just taken by a real-time task: an idle CPU, or a CPU whose running task the
 * thread may preempt. The kernel does the same with a real-time task that loses its CPU to one of a higher priority
 * (push_rt_task()). If real-time tasks take all CPUs again and again, the thread moves at most once per PC_TAKEN_OLD. Return: the
 * CPU; negative if the thread has to wait where it is.
 */
__noinline s32 cpu_instead(struct task_struct *p __arg_trusted, u32 from)
{
	struct pc_rq *rq = rq_of(from);
	u64 now = rq_now();
	struct pc_task *t;
	u32 cpu;

	if (!p || !rq || is_pinned(p) || !describes_cpumask())
		return -1;
	/*
	 * If ext_cpu_release has recorded nothing just now, there are two possible reasons. Either a task of the stop class has
	 * taken the CPU, which ext_cpu_release never records. Or the CPU was idle when a task took it. In the second case,
	 * another task may run on the CPU by now, and the thread may preempt that task.
	 */
	if (since_taken(rq, now) > 1 && (!was_refused(p) || runs_ordinary(rq)))
		return -1;
	t = task_of(p);
	if (!t)
		return -1;
	cpu = cpu_beside(p, t, from, now);
	rq = rq_of(cpu);
	if (cpu == from || !rq)
		return -1;
	if (!is_quiet(rq, now) && pc_elapsed_ns(now, t->placed_ns) < (u64)PC_TAKEN_OLD << PC_TAKEN_SHIFT) {
		wake_idle(cpu);		/* the CPU may have been claimed as idle */
		return -1;
	}
	t->placed_ns = now;
	/* If several boosted threads have to leave a CPU, this record keeps them from all moving to the same CPU. */
	record_taking(rq, now);
	return cpu;
}

#endif
