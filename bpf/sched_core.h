/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling (policy/core.h): the kernel asks which of two tasks of a core comes first, and does all the rest.
 *
 * Before 7.3 the kernel interpreted the answer the other way round than documented (scx_prio_less(),
 * kernel/sched/ext/ext.c). On these kernels the loader leaves out the operation, and the kernel compares waiting times.
 */
#ifndef PARACORD_BPF_SCHED_CORE_H
#define PARACORD_BPF_SCHED_CORE_H

/*
 * The virtual time of a task, up to now, in the queue of its CPU. The task runs there, waits there, or will be placed
 * there when it runs, as in arrive().
 */
static __always_inline u64 vtime_now(const struct pc_task *t, u32 cpu, const struct pc_rq *rq, u64 now)
{
	struct pc_rq *from;
	u64 vtime;

	if (place_of(t) == PC_AT(PC_AT_RUN, cpu + 1) && !runs_nothing(rq))
		return running_vtime(rq, now) - pc_fair_virtual(PC_CORE_LEAST_NS, t->inverse);
	/* A waiting task does not advance with the base, which follows tasks that run out of turn. */
	if (t->queue == cpu)
		return t->vtime;
	from = t->queue == PC_NO_QUEUE ? NULL : rq_of(t->queue);
	vtime = from ? pc_fair_move(t->vtime, from->base, rq->base) : rq->base;
	return pc_fair_place(vtime, rq->base, rq->slice_ns);
}

/* For how long a task has been the next one on its CPU. */
static __always_inline u64 stands_for(struct pc_task *t, u64 now)
{
	u64 at = place_of(t);

	if (state_of(at) == PC_AT_RUN || state_of(at) == PC_AT_LEAVE)
		return 0;
	if (!t->stands_ns)
		t->stands_ns = now;
	return pc_elapsed_ns(now, t->stands_ns);
}

/* A task waits on a CPU that is kept idle: the turn of the task on the other CPU ends, with a tick or without one. */
static __always_inline void ends_its_turn(struct pc_rq *rq, u32 cpu, u64 now)
{
	if (rq->tickless && !runs_nothing(rq))
		watch_turn(rq, cpu, now);
}

SEC("struct_ops/ext_core_sched_before")
bool BPF_PROG(ext_core_sched_before, struct task_struct *a, struct task_struct *b)
{
	u32 cpu = scx_bpf_task_cpu(a), there = scx_bpf_task_cpu(b);
	struct pc_rq *rq = rq_of(cpu), *rq_there = rq_of(there);
	struct pc_core *core = core_of(cpu), *core_there = core_of(there);
	struct pc_task *t = task_of(a), *other = task_of(b);
	u32 level = task_level(t), level_other = task_level(other);
	u64 vtime, other_vtime, stands, other_stands, now = rq_now();

	if (!has_cookies)
		has_cookies = 1;
	if (!t || !other || !rq || !rq_there || !core || !core_there)
		return false;
	if (level != level_other)
		return level > level_other;
	vtime = vtime_now(t, cpu, rq, now);
	other_vtime = vtime_now(other, there, rq_there, now);
	/* The kernel sorts the tasks of each cookie on a CPU. This does not make either task the next one there. */
	if (cpu == there)
		return pc_fair_before(vtime, other_vtime);
	ends_its_turn(rq, cpu, now);
	ends_its_turn(rq_there, there, now);
	stands = stands_for(t, now);
	other_stands = stands_for(other, now);
	if (pc_max_u64(stands, other_stands) >= PC_CORE_LATE_NS)
		return stands > other_stands;
	/* The run queue locks of all CPUs of the core are held: there is no other writer. */
	return pc_core_comes_after(core_there, other_vtime, other->inverse, core, vtime, t->inverse, now);
}

#endif
