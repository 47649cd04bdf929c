/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Yields, and directed yields, which name the task that should run instead. A vCPU that waits for another vCPU of its VM
 * calls that vCPU (KVM's yield_to(), at pause-loop exits and when a guest asks for it, KVM_HC_SCHED_YIELD).
 *
 * The kernel holds the locks of both run queues, so no task can be moved. The call leaves a mark, and the CPU of the
 * called task fetches the task when it looks for the next one to run (fetch_called()). A call changes only the order. The
 * called task pays for what it runs. It comes first only while it has had no more than its share and a slice, and at most
 * once in a quarter of a slice. It takes the CPU from no boosted vCPU except its caller. A task that runs only when no
 * other task wants to is not called.
 *
 * The caller keeps its CPU while a task on another CPU works on the answer, and pays for this time too. The kernel's own
 * scheduler gives the CPU away, and the caller waits for a turn after each answer (crates/sim/mixes/calls.mix: 380
 * answers per second, 1800 here).
 */
#ifndef PARACORD_BPF_SCHED_YIELD_H
#define PARACORD_BPF_SCHED_YIELD_H

/* Marks a task that waits in the queue of a CPU, if the task may be called. */
static __always_inline bool call_task(struct pc_task *t, u32 cpu, u32 here, u64 now)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq || (cpu != here && !runs_ordinary(rq)) ||
	    !pc_fair_may_be_called(t->vtime, rq->base, t->inverse, rq->slice_ns) ||
	    !is_due(&t->called_ns, now, pc_fair_turn_min_ns(rq->slice_ns)))
		return false;
	t->called = 1;
	/* Set after the mark, as in boost_changed(). */
	__sync_lock_test_and_set(&rq->calls, cpu == here ? PC_CALLS_HERE : PC_CALLS_ELSEWHERE);
	/* The current CPU looks for the next task in any case. */
	if (cpu != here)
		preempt_cpu(rq, cpu);
	return true;
}

SEC("struct_ops/ext_yield")
int BPF_PROG(ext_yield, struct task_struct *from, struct task_struct *to)
{
	u32 cpu, here = bpf_get_smp_processor_id();
	struct pc_task *t;
	bool called;
	u64 at;

	if (!to) {
		from->scx.slice = 0;
		return 0;
	}
	t = task_of(to);
	if (!t)
		return 0;
	at = place_of(t);
	cpu = (at & PC_AT_WHERE) - 1;
	/* A task in the local DSQ of a CPU comes next in any case. A parked task waits for its quota. */
	if (state_of(at) != PC_AT_LOCAL && state_of(at) != PC_AT_QUEUE)
		return 0;
	called = state_of(at) == PC_AT_LOCAL ||
		 (!t->lazy && to->policy != SCHED_IDLE_POLICY && call_task(t, cpu, here, rq_now()));
	/* Nothing has changed on the other CPU. */
	if (!called && cpu != here)
		return 0;
	/* The caller waits here for an answer from another CPU. On this CPU, the task that is due runs. */
	if (cpu == here)
		from->scx.slice = 0;
	return 1;
}

#endif
