/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Core scheduling (policy/core.h). The kernel asks the scheduler which of two tasks on a core comes first, and does everything
 * else itself.
 *
 * Kernels before 7.3 interpret the answer contrary to the kernel's documentation (scx_prio_less(), kernel/sched/ext/ext.c). On
 * these kernels, the loader clears the operation core_sched_before, and the kernel compares waiting times instead.
 */
#ifndef PARACORD_BPF_SCHED_CORE_H
#define PARACORD_BPF_SCHED_CORE_H

/*
 * The virtual time of a task as of `now`, on the scale of the queue of `cpu`. The task runs on this CPU or waits there. For the
 * running task, the result includes an advantage of PC_CORE_LEAST_NS. For a task that has not been placed in the queue yet, the
 * result is the virtual time that arrive() will give to the task.
 */
static __always_inline u64 vtime_now(const struct pc_task *t, u32 cpu, const struct pc_rq *rq, u64 now)
{
	struct pc_rq *from;
	u64 vtime;

	if (place_of(t) == PC_AT(PC_AT_RUN, cpu + 1) && !runs_nothing(rq))
		return running_vtime(rq, now) - pc_fair_virtual(PC_CORE_LEAST_NS, t->inverse);
	/*
	 * Do not let the base raise the virtual time of a waiting task (pc_fair_place()), because the base also follows tasks that
	 * run out of order.
	 */
	if (t->queue == cpu)
		return t->vtime;
	from = t->queue == PC_NO_QUEUE ? NULL : rq_of(t->queue);
	vtime = from ? pc_fair_move(t->vtime, from->base, rq->base) : rq->base;
	return pc_fair_place(vtime, rq->base, rq->slice_ns);
}

/* Return: for how long a task has been the next task of its CPU; 0 if the task runs. */
static __always_inline u64 stands_for(struct pc_task *t, u64 now)
{
	u64 at = place_of(t);

	if (state_of(at) == PC_AT_RUN || state_of(at) == PC_AT_LEAVE)
		return 0;
	if (!t->stands_ns)
		t->stands_ns = now;
	return pc_elapsed_ns(now, t->stands_ns);
}

/*
 * Makes sure that the turn of a CPU ends even if the CPU has no tick. Called when tasks of two CPUs of a core are compared,
 * because a task of the other CPU may wait for the end of this turn.
 */
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
	/*
	 * If both tasks are on one CPU, the kernel uses the result only to sort the tasks that have the same cookie. The result
	 * does not decide which task runs next on that CPU.
	 */
	if (cpu == there)
		return pc_fair_before(vtime, other_vtime);
	ends_its_turn(rq, cpu, now);
	ends_its_turn(rq_there, there, now);
	stands = stands_for(t, now);
	other_stands = stands_for(other, now);
	if (pc_max_u64(stands, other_stands) >= PC_CORE_LATE_NS)
		return stands > other_stands;
	/* The run queue locks of all CPUs of the core are held, so nobody else writes the two records. */
	return pc_core_comes_after(core_there, other_vtime, other->inverse, core, vtime, t->inverse, now);
}

#endif
