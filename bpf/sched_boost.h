/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a boost and its end do to a vCPU's thread under the scheduler.
 *
 * A boosted thread is inserted into its CPU's local queue and preempts. Who is boosted while it runs or
 * sleeps needs nothing: it is kept, or comes first when it wakes. Who is boosted while it waits is
 * fetched from the queue, and who loses its boost while it runs makes room if somebody
 * waits; both take a kick of the CPU. On kernels where the kick cannot be called (scx.h) that
 * happens at the CPU's next tick.
 */
#ifndef PARACORD_BPF_SCHED_BOOST_H
#define PARACORD_BPF_SCHED_BOOST_H

/* How deep the queue is searched for a vCPU; a task that was preempted stands near its front. */
#define PC_PROMOTE_DEPTH	64

/* Called by the evaluator when a vCPU's level has changed. */
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
	/* At a preemption the thread is put into its queue after this, boosted. */
	if (!v->level || *(volatile u32 *)&v->asleep || (events & PC_EV_PREEMPT))
		return;
	/* After the level, and cleared before the search: as exchanges they are barriers. */
	__sync_lock_test_and_set(&rq->promotes, 1);
	preempt_cpu(rq, cpu);
}

static __always_inline u32 task_level(const struct pc_task *t)
{
	u32 index;

	return level_of(vcpu_of(t, &index));
}

/* Whether what runs on a CPU, nothing perhaps, gives way to a thread boosted to this level. */
static __always_inline bool gives_way(const struct pc_rq *rq, u32 level)
{
	return runs_nothing(rq) || level_on(rq) < level;
}

/* Fetches the first vCPU that was boosted while it waited here, or the first task that was called. */
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

/* Of several vCPUs that were boosted while they waited, the others come at the next switches. */
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

/* Before a boosted vCPU runs on, only whom that one has called. Return: 1 if somebody was. */
PC_VERIFIED_ALONE int fetch_called(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return 0;
	return (__sync_lock_test_and_set(&rq->calls, 0) == PC_CALLS_HERE || level_on(rq) == PC_LEVEL_NONE) &&
	       fetch_marked(cpu, true);
}

/*
 * A boosted thread that wakes goes to the CPU where it ran last, if that is idle or runs what it may preempt, as a
 * real-time task does (select_task_rq_rt()): the search for an idle one takes longer, and is made by the one that
 * is preempted.
 */
static __always_inline bool takes_back(struct task_struct *p, const struct pc_rq *rq, u32 cpu, u32 level)
{
	if (!rq || rq->offline || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	if (scx_bpf_test_and_clear_cpu_idle(cpu)) {
		insert(p, SCX_DSQ_LOCAL, rq->slice_ns, 0);
		return true;
	}
	/* Not idle, and nothing of the scheduler's: a task of a higher class, or a switch is under way. */
	if (runs_nothing(rq) || !gives_way(rq, level))
		return false;
	insert(p, SCX_DSQ_LOCAL, rq->slice_ns, SCX_ENQ_PREEMPT);
	return true;
}

/*
 * An idle CPU as large as that where a boosted thread ran last; negative: none, or that is too small. Any idle one
 * would do for its latency, but a large CPU for each interrupt that finds its own taken by a task of a higher class is
 * what nobody asked for.
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

/* A CPU for a boosted thread that found none idle: one whose task it may preempt. */
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
	/* All of the node run boosts, or tasks of a higher class. */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	return idle >= 0 ? (u32)idle : first;
}

#endif
