/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Yields, and those that name who is to run instead: a vCPU that waits for another vCPU of its VM calls that one (KVM's
 * yield_to(), at pause-loop exits and where a guest asks for it, KVM_HC_SCHED_YIELD).
 *
 * The kernel holds both run queues' locks, so that nothing can be moved: a mark is left, and the called task is fetched where
 * its CPU looks who runs next (fetch_called()). All that a call changes is the order. Who is called pays for what it runs, and
 * comes first only while it has had no more than its share and a slice, once in a quarter of a slice. It takes its CPU from no
 * boosted vCPU but the one that calls it, and who runs only when nothing else wants to is not called.
 *
 * The caller keeps its CPU while another one works on its answer: it pays for that, too. The kernel's own gives it away, and waits
 * for a turn after each answer (crates/sim/mixes/calls.mix: 380 answers a second, 1800 here).
 */
#ifndef PARACORD_BPF_SCHED_YIELD_H
#define PARACORD_BPF_SCHED_YIELD_H

/* Marks a task that waits in a CPU's queue, if it may be called. */
static __always_inline bool call_task(struct pc_task *t, u32 cpu, u32 here, u64 now)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq || (cpu != here && !runs_ordinary(rq)) ||
	    !pc_fair_may_be_called(t->vtime, rq->base, t->inverse, rq->slice_ns) ||
	    !is_due(&t->called_ns, now, pc_fair_turn_min_ns(rq->slice_ns)))
		return false;
	t->called = 1;
	/* After the mark, as in boost_changed(). */
	__sync_lock_test_and_set(&rq->calls, cpu == here ? PC_CALLS_HERE : PC_CALLS_ELSEWHERE);
	/* This one looks in any case. */
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
	/* In a CPU's local queue it comes next in any case; for a quota it waits. */
	if (state_of(at) != PC_AT_LOCAL && state_of(at) != PC_AT_QUEUE)
		return 0;
	called = state_of(at) == PC_AT_LOCAL ||
		 (!t->lazy && to->policy != SCHED_IDLE_POLICY && call_task(t, cpu, here, rq_now()));
	/* Nothing has changed on the other CPU. */
	if (!called && cpu != here)
		return 0;
	/* An answer from another CPU is awaited here; on this one, whoever is due runs. */
	if (cpu == here)
		from->scx.slice = 0;
	return 1;
}

#endif
