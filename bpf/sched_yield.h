/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plain yields, and directed yields. A directed yield names the task that should run instead of the caller. A vCPU that waits for
 * another vCPU of its VM calls that vCPU with a directed yield (KVM's yield_to()). KVM does this at pause-loop exits, and when a
 * guest asks for it (KVM_HC_SCHED_YIELD).
 *
 * During a directed yield, the kernel holds the locks of both run queues, so no task can be moved. Therefore the call only marks
 * the called task. The CPU of the called task fetches this task when it looks for the next task to run (fetch_called()). A call
 * changes only the order of tasks: the called task is charged for its running time. A task can be called only while it has had at
 * most one slice more than its share of the CPU, and at most once in a quarter of a slice. The called task preempts no boosted
 * vCPU except its caller. A task that runs only when no other task wants to (SCHED_IDLE, cpu.idle) is not called.
 *
 * If the called task is on another CPU, the caller keeps its own CPU while it waits for an answer, and is charged for this time
 * too. The kernel's fair class takes the CPU away from the caller, and the caller then waits for a turn after each answer. In
 * crates/sim/mixes/calls.mix, the caller gets 380 answers per second with the fair class, and 1800 with this scheduler.
 */
#ifndef PARACORD_BPF_SCHED_YIELD_H
#define PARACORD_BPF_SCHED_YIELD_H

/* Marks a task that waits in the queue of a CPU, if the task may be called. Return: whether it was marked. */
static __always_inline bool call_task(struct pc_task *t, u32 cpu, u32 here, u64 now)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq || (cpu != here && !runs_ordinary(rq)) ||
	    !pc_fair_may_be_called(t->vtime, rq->base, t->inverse, rq->slice_ns) ||
	    !is_due(&t->called_ns, now, pc_fair_turn_min_ns(rq->slice_ns)))
		return false;
	t->called = 1;
	/* `calls` is set after the mark was stored, and fetch_called() clears `calls` before it searches. */
	__sync_lock_test_and_set(&rq->calls, cpu == here ? PC_CALLS_HERE : PC_CALLS_ELSEWHERE);
	/* The current CPU looks for its next task in any case. */
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
	/* The task on the other CPU was not called, so the caller need not wait for an answer. */
	if (!called && cpu != here)
		return 0;
	/* If the called task is on another CPU, the caller keeps its own CPU. Otherwise the caller yields its CPU. */
	if (cpu == here)
		from->scx.slice = 0;
	return 1;
}

#endif
