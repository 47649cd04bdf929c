/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a boost and its end do to the thread of a vCPU under the scheduler.
 *
 * A boosted thread is inserted into the local DSQ of its CPU and preempts. A thread that is boosted while it runs or
 * sleeps needs nothing else: it keeps the CPU, or comes first when it wakes. A thread that is boosted while it waits is
 * fetched from the queue. A thread that loses its boost while it runs makes room if another task waits. The last two need
 * a kick of the CPU. On kernels where the kick cannot be called (scx.h) they happen at the next tick of the CPU.
 */
#ifndef PARACORD_BPF_SCHED_BOOST_H
#define PARACORD_BPF_SCHED_BOOST_H

/* How deep a queue is searched for a vCPU. A task that was preempted is near the front of its queue. */
#define PC_PROMOTE_DEPTH	64

/* The evaluator calls this after it has changed the level of a vCPU. */
static __always_inline void boost_changed(u32 index, struct pc_vcpu *v, u32 events)
{
	u32 cpu = v->cpu;
	struct pc_rq *rq = rq_of(cpu);

	if (!ext_on || !rq)
		return;
	if (*(volatile u32 *)&v->on_cpu) {
		if (v->level)
			*(volatile u32 *)&v->ran_boosted = 1;
		if (!v->level && *(volatile s32 *)&rq->queued > 0)
			preempt_cpu(rq, cpu);
		return;
	}
	/* At a preemption the thread is enqueued after this, as a boosted one. */
	if (!v->level || *(volatile u32 *)&v->asleep || (events & PC_EV_PREEMPT))
		return;
	/* Set after the level, and cleared before the search. Both are exchanges, and therefore barriers. */
	__sync_lock_test_and_set(&rq->promotes, 1);
	preempt_cpu(rq, cpu);
}

static __always_inline u32 task_level(const struct pc_task *t)
{
	u32 index;

	return level_of(vcpu_of(t, &index));
}

/* Whether what runs on a CPU, possibly nothing, gives way to a thread that is boosted to this level. */
static __always_inline bool gives_way(const struct pc_rq *rq, u32 level)
{
	return runs_nothing(rq) || level_on(rq) < level;
}

/*
 * Fetches the first vCPU that was boosted while it waited here; with `called`, the first task that was called
 * (sched_yield.h).
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

/* If several vCPUs were boosted while they waited, the other ones follow at the next switches. */
static __noinline bool promote(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return false;
	__sync_lock_test_and_set(&rq->promotes, 0);
	if (!fetch_marked(cpu, false))
		return false;
	*(volatile u32 *)&rq->promotes = 1;
	return true;
}

/*
 * If a boosted vCPU runs here, only a task that this vCPU has called may run before it goes on. Return: 1 if a task was
 * fetched.
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
 * A boosted thread that wakes goes to the CPU where it ran last, if that CPU is idle or runs a task that the thread may
 * preempt, as a real-time task does (select_task_rq_rt()). The search for an idle CPU takes longer, and is left to the
 * task that is preempted.
 */
static __always_inline bool takes_back(struct task_struct *p, const struct pc_rq *rq, u32 cpu, u32 level)
{
	if (!rq || rq->offline || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		insert(p, SCX_DSQ_LOCAL, rq->slice_ns, 0);
		return true;
	}
	/* The CPU is not idle, and runs no task of the scheduler: it runs a task of a higher class, or is switching. */
	if (runs_nothing(rq) || !gives_way(rq, level))
		return false;
	insert(p, SCX_DSQ_LOCAL, rq->slice_ns, SCX_ENQ_PREEMPT);
	return true;
}

/*
 * An idle CPU of the same domain, and so as large, as the CPU where a boosted thread ran last. Negative: there is none,
 * or these CPUs are too small for the thread. Any idle CPU would do for latency. But if a task of a higher class has the
 * CPU of the thread when an interrupt comes, this should not use a large CPU that was not requested.
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

/* A CPU for a boosted thread that found no idle CPU: one whose task the thread may preempt. */
static __always_inline u32 cpu_to_preempt(struct task_struct *p, u32 first)
{
	struct pc_rq *rq = rq_of(first);
	u32 cpu = first, ring;
	s32 idle;
	int i;

	if (!rq)
		return first;
	ring = widest_in_node(rq);
	bpf_for(i, 0, 2 * PC_STEAL_MAX) {
		if (!rq)
			break;
		if (runs_ordinary(rq) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
		cpu = rq->near.next[ring];
		if (cpu == first)
			break;
		rq = rq_of(cpu);
	}
	/* The CPUs of the node run boosted vCPUs, or tasks of a higher class. */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return idle >= 0 ? (u32)idle : first;
}

#endif
