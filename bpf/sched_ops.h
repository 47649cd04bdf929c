/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations of the scheduler. At a switch, the kernel calls them in this order: dispatch, which may keep the running task;
 * stopping; enqueue, if the stopped task is still runnable; and running, for the next task. The tracepoint sched_switch comes
 * after these operations. At this tracepoint, the sensor has nothing left to do for tasks of the scheduler.
 *
 * If a task of a higher class takes the CPU, cpu_release comes after enqueue, and requeues the tasks that wait in the local DSQ.
 * If a task is preempted before the end of its slice, the kernel calls enqueue for this task only if the task had to run at once
 * (at_once()). A boosted task that had to run at once is enqueued twice.
 */
#ifndef PARACORD_BPF_SCHED_OPS_H
#define PARACORD_BPF_SCHED_OPS_H

#include "sched_balance.h"
#include "sched_park.h"
#include "sched_cgroup.h"
#include "sched_clamp.h"
#include "sched_core.h"
#include "sched_idle.h"
#include "sched_import.h"
#include "sched_life.h"
#include "sched_yield.h"

/*
 * Inserts a waking task into the local DSQ of a CPU that the kernel has reported as idle. Return: false if the CPU has no record.
 */
static __always_inline bool starts_at(struct task_struct *p, s32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return false;
	insert(p, SCX_DSQ_LOCAL, rq->slice_ns, at_once(rq, 0));
	watch_claimed(rq, cpu);
	return true;
}

/*
 * If a thread of a VM wakes outside the VM's home node, sends the thread to an idle CPU in the home node. Return: the CPU;
 * negative if the thread stays where it is.
 */
static __always_inline s32 goes_home(struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq, s32 prev)
{
	s32 cpu = idle_at_home(p, t, rq, prev);

	return cpu >= 0 && starts_at(p, cpu) ? cpu : -1;
}

SEC("struct_ops/ext_select_cpu")
s32 BPF_PROG(ext_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct pc_rq *rq = rq_of(prev_cpu);
	struct pc_task *t = task_of(p);
	u32 level = task_level(t);
	bool is_idle = false;
	s32 cpu = -1;

	/* If a quota holds back the task, ext_enqueue will park the task. So the task must not claim an idle CPU here. */
	if (t && rq && t->limited && is_held(p, t, rq, rq_now()))
		return prev_cpu;
	if (t && rq)
		cpu = goes_home(p, t, rq, prev_cpu);
	if (cpu >= 0)
		return cpu;
	if (t && rq && (rq->features & PC_PERF_PLACE)) {
		follow_guest(t);
		/* Do not place a boosted vCPU by energy at each of its wakeups. */
		if (!level || place_is_due(t, rq, rq_now()))
			cpu = place(p, t, prev_cpu);
	}
	if (level && (cpu < 0 || cpu == prev_cpu) && takes_back(p, rq, prev_cpu, level))
		return prev_cpu;
	if (cpu >= 0) {
		is_idle = scx_bpf_test_and_clear_cpu_idle(cpu);
	} else if (level && t && rq && (rq->features & PC_PERF_PLACE)) {
		cpu = idle_alike(p, t, prev_cpu);
		is_idle = cpu >= 0;
	}
	if (cpu < 0)
		cpu = idle_for(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle && starts_at(p, cpu))
		return cpu;
	rq = rq_of(cpu);
	if (t)
		t->sync = !!(wake_flags & SCX_WAKE_SYNC);
	if (level)
		return cpu_to_preempt(p, cpu);
	if (!rq || cpu != prev_cpu || (rq->features & PC_PERF_PLACE))
		return cpu;
	cpu = less_busy(p, rq, cpu);
	/* Search for a faster CPU for this task at most once per slice. */
	if (cpu != prev_cpu || !t || is_pinned(p) || !is_due(&t->placed_ns, rq_now(), rq->slice_ns))
		return cpu;
	cpu = faster_cpu(prev_cpu, t->weight);
	return bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ? cpu : prev_cpu;
}

SEC("struct_ops/ext_enqueue")
int BPF_PROG(ext_enqueue, struct task_struct *p, u64 enq_flags)
{
	u64 now = rq_now();
	u32 level, cpu = scx_bpf_task_cpu(p);
	struct pc_rq *rq = rq_of(cpu);
	struct pc_task *t = task_of(p);
	u32 to;
	bool born;
	s32 other;

	if (!t || !rq) {	/* there was no memory for the task's record when the task was created */
		insert(p, SCX_DSQ_LOCAL, PC_FAIR_BASE_SLICE_NS, enq_flags);
		return 0;
	}
	to = leaves_for(place_of(t));
	go_to(t, PC_AT_NOWHERE);
	born = t->birth & PC_BIRTH_NEW;
	/* If a new task was requeued, the task that runs on this CPU is not necessarily its parent. */
	if (born && !(enq_flags & SCX_ENQ_REENQ))
		inherit(t, now);
	/* On a CPU without a tick, ext_tick has not raised the base. Raise it as if there had been a tick one slice ago. */
	if (rq->tickless && runs_ordinary(rq) && READ_ONCE(rq->queued) <= 0)
		raise_base(rq, running_vtime(rq, now) - pc_fair_virtual(rq->slice_ns, rq->cur_inverse));
	arrive(p, t, rq, cpu, now);
	if (born)
		t->vtime += pc_fair_virtual(t->debit_ns, t->inverse);
	if (is_held(p, t, rq, now)) {
		park(p, t, rq->slice_ns, enq_flags, now);
		return 0;
	}
	if (moves(p, t, to, rq->slice_ns, enq_flags))
		return 0;
	/*
	 * No other task is runnable, and the CPU would go idle. Either this task was to migrate but may no longer do so, or it is
	 * to start a new turn without a tick (goes_on_without_tick()). preempt_cpu() makes the CPU schedule again.
	 */
	if (enq_flags & SCX_ENQ_LAST) {
		insert_local(p, t, cpu, rq->slice_ns, enq_flags);
		preempt_cpu(rq, cpu);
		return 0;
	}
	level = task_level(t);
	if (level) {
		other = PC_CAN_KICK && enq_flags & SCX_ENQ_REENQ ? cpu_instead(p, cpu) : -1;
		if (other >= 0) {
			insert_local(p, t, other, rq->slice_ns, enq_flags | SCX_ENQ_PREEMPT);
			wake_idle(other);
			rq->put_back = PC_LEVEL_NONE;
			return 0;
		}
		/*
		 * A boosted vCPU that is requeued runs after vCPUs of the same level that already wait. While the vCPU is being
		 * requeued, runs_nothing() is true, so the vCPU does not preempt.
		 */
		bool first = !runs_nothing(rq) && gives_way(rq, level);
		u64 preempt = first ? SCX_ENQ_PREEMPT : 0;

		insert_local(p, t, cpu, rq->slice_ns, enq_flags | preempt);
		if (!first && READ_ONCE(rq->turn) == PC_TURN_BOOST)
			watch_turn(rq, cpu, now);
		/* The switch that requeues the vCPU has already chosen the next task. ext_running reschedules if needed. */
		if (!(enq_flags & SCX_ENQ_WAKEUP))
			rq->put_back = level;
		return 0;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && preempts(p, t, rq, cpu, now)) {
		insert_local(p, t, cpu, rq->slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return 0;
	}
	if ((enq_flags & SCX_ENQ_WAKEUP) && goes_direct(p, t, rq, now)) {
		rq->direct = 1;
		insert_local(p, t, cpu, rq->slice_ns, enq_flags);
		watch_turn(rq, cpu, now);
		return 0;
	}
	/*
	 * If a parked task moves to a group that has quota left, the task is enqueued again. By then, the CPU may have gone idle.
	 */
	if (t->waits_ns && scx_bpf_test_and_clear_cpu_idle(cpu)) {
		insert_local(p, t, cpu, rq->slice_ns, enq_flags | at_once(rq, enq_flags));
		watch_claimed(rq, cpu);
		return 0;
	}
	if (!cpu_was_selected(enq_flags) && !is_pinned(p) && gives_away(rq, now) && describes_cpumask()) {
		other = idle_cpu_for(p, t, rq, now);
		if (other >= 0) {
			insert_local(p, t, other, rq->slice_ns, enq_flags | at_once(rq_of(other), enq_flags));
			look_here(other, cpu);
			/* This kick makes the idle CPU look for work even if the task is dequeued before it arrives there. */
			wake_idle(other);
			return 0;
		}
	}
	queue_task(p, t, rq, cpu, enq_flags, now);
	return 0;
}

/*
 * Dispatches for a CPU other than the current one. With core scheduling, the kernel calls dispatch on one CPU of a core for all
 * CPUs of the core. It then holds the lock that a move between queues would take. So the next task of the other CPU must be the
 * first task in that CPU's own queue, or the task that runs there.
 */
static __noinline void dispatch_sibling(s32 cpu, struct task_struct *prev)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq)
		return;
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		take(cpu);
	else if (!must_yield(cpu, rq, rq_now()) || !take(cpu))
		prev->scx.slice = rq->slice_ns;
}

SEC("struct_ops/ext_dispatch")
int BPF_PROG(ext_dispatch, s32 cpu, struct task_struct *prev)
{
	struct pc_rq *rq = rq_of(cpu);
	struct pc_task *t;
	bool due;
	u64 now;

	if (!rq)
		return 0;
	if (cpu != (s32)bpf_get_smp_processor_id()) {
		dispatch_sibling(cpu, prev);
		return 0;
	}
	if (READ_ONCE(rq->promotes) && promote(cpu))
		return 0;
	if (READ_ONCE(rq->calls) && fetch_called(cpu))
		return 0;
	if (rq->search && take_aged(cpu, rq))
		return 0;
	now = rq_now();
	/* A CPU that has something to run searches other CPUs once per slice. */
	due = is_due(&rq->balanced_ns, now, rq->slice_ns);
	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED)) {
		/*
		 * Do not call give() after balance(), because give() may drop the run queue lock. While the lock is dropped, the
		 * task that balance() has pulled may be dequeued, and the kernel would not call dispatch again.
		 */
		if (due && balance(cpu, NULL))
			return 0;
		if (take(cpu) || steal(cpu))
			give_if_due(cpu, rq, due, now);
		return 0;
	}
	t = task_of(prev);
	/*
	 * If the quota of the task is used up, the task is parked when it is requeued. Its waiting time does not matter here,
	 * because the task is running.
	 */
	if (t && is_short(prev, t, rq)) {
		if (take(cpu) || steal(cpu))
			give_if_due(cpu, rq, due, now);
		return 0;
	}
	if (runs_ordinary(rq)) {
		/* If place_running() has chosen another CPU for the task, the task leaves this CPU in any case. */
		if (t && leaves_for(place_of(t))) {
			take(cpu);
			return 0;
		}
		if (due && balance(cpu, prev))
			return 0;
	}
	give_if_due(cpu, rq, due, now);
	/* If the boost of the vCPU has used up its grants, it ends here, even if the vCPU goes on. */
	if (READ_ONCE(rq->turn) == PC_TURN_BOOST)
		evaluate(READ_ONCE(rq->runs) - PC_RUNS_VCPU, PC_EV_TICK);
	if (goes_on_without_tick(cpu))
		return 0;
	if (!must_yield(cpu, rq, now) || is_boosted_at_preemption(prev) || !take(cpu)) {
		prev->scx.slice = rq->slice_ns;
		begin_turn(rq, cpu, boost_left_ns(READ_ONCE(rq->runs) - PC_RUNS_VCPU), now);
	}
	return 0;
}

SEC("struct_ops/ext_running")
int BPF_PROG(ext_running, struct task_struct *p)
{
	u64 now = rq_now();
	u32 cpu = scx_bpf_task_cpu(p);
	struct pc_rq *rq = rq_of(cpu);
	struct pc_task *t = task_of(p);
	struct pc_group *g;
	struct pc_cpu *here;
	struct pc_vcpu *v;
	bool in_order, spent, aged, held, called;
	u64 at, waited_ns;
	u32 index;

	if (!t || !rq)
		return 0;
	keep_pace(rq, now);
	at = place_of(t);
	in_order = is_in_queue_of(at, cpu);
	go_to(t, PC_AT(PC_AT_RUN, cpu + 1));
	waited_ns = t->waits_ns ? pc_elapsed_ns(now, t->waits_ns) : 0;
	/*
	 * A task that has waited for too long gets a turn even if its quota is used up. Otherwise it might never make progress.
	 */
	aged = waited_ns >= PC_FAIR_WAIT_MAX_NS;
	called = t->called;
	t->called = 0;
	t->stands_ns = 0;
	/*
	 * The previous task has made a directed yield. If the task that now runs is boosted, the target of the yield must not
	 * preempt it.
	 */
	if (READ_ONCE(rq->calls) == PC_CALLS_HERE)
		WRITE_ONCE(rq->calls, PC_CALLS_ELSEWHERE);
	/* If a newly forked task was sent directly to an idle CPU, ext_enqueue was not called for it. */
	t->birth &= ~PC_BIRTH_NEW;
	/*
	 * If the task was inserted into a local DSQ when it woke, or comes from another CPU's queue, arrive() has not been called
	 * yet for this CPU.
	 */
	if (!has_arrived(at) || t->queue != cpu)
		arrive(p, t, rq, cpu, now);
	else if (rq->features & PC_PERF_TRACK)
		perf_arrive(p, t, rq, NULL, now);
	/* A task that preempts may have a later virtual time than waiting tasks. The base must not follow such a task. */
	if (in_order || READ_ONCE(rq->queued) <= 0)
		raise_base(rq, t->vtime);
	if (READ_ONCE(t->owed_ns))
		t->vtime += pc_fair_virtual(__sync_lock_test_and_set(&t->owed_ns, 0), t->inverse);
	/* A quota may have been set or removed while the task waited. */
	g = t->group == PC_GROUP_ROOT || waited_ns < PC_FACTOR_MAX_AGE_NS ? NULL : group_at(t->group);
	if (g)
		t->limited = READ_ONCE(g->limited);
	spent = pay_for(rq, t->limited);
	charge_from(rq, t, cpu, t->vtime, now);
	if (rq->features & PC_PERF_TRACK)
		perf_request(p, rq, cpu);
	rq->direct = 0;
	if (rq->tickless)
		begin_without_tick(p, rq, cpu, t);
	WRITE_ONCE(rq->expired, 0);
	v = vcpu_of(t, &index);
	if (v) {
		here = bpf_map_lookup_elem(&cpus, &cpu);
		if (here)
			switched_in(p, v, here, index, cpu, bpf_ktime_get_ns());
		if (has_nodes(rq))
			find_home(v, rq);
	}
	WRITE_ONCE(rq->runs, v ? PC_RUNS_VCPU + index : PC_RUNS_TASK);
	if (v)
		WRITE_ONCE(v->ran_boosted, level_of(v) != PC_LEVEL_NONE);
	/*
	 * Reschedule if the task's quota is used up, or if a boosted vCPU of a higher level was requeued during this switch. Do
	 * not reschedule for a vCPU of the same level, because vCPUs of the same level take turns.
	 */
	held = spent && !aged && may_hold(p, t);
	if (held || (rq->put_back > level_of(v) && !rq->aged && !aged && !called))
		preempt_cpu(rq, cpu);
	else if (spent && (aged || t->reads))
		begin_short_turn(rq, cpu, PC_TURN_NS, now);
	else if (rq->put_back > level_of(v) && called)
		/* A boosted vCPU has yielded to this task, and runs again after it. */
		begin_short_turn(rq, cpu, pc_fair_turn_min_ns(rq->slice_ns), now);
	else
		begin_turn(rq, cpu, level_of(v) ? boost_left_ns(index) : 0, now);
	/*
	 * A task that is held back by its quota is requeued before its first instruction. It has not run, so it must keep its
	 * waiting time. Otherwise it might never run.
	 */
	if (!held)
		t->waits_ns = 0;
	rq->put_back = PC_LEVEL_NONE;
	rq->aged = 0;
	return 0;
}

/* Updates the sums of a task's group and CPU. Called when the task is no longer runnable. */
static __always_inline void departs(struct task_struct *p, struct pc_task *t, u32 cpu, u32 sleeps)
{
	group_leave(t);
	if (t->known)
		perf_departs(p, t, cpu, sleeps);
}

SEC("struct_ops/ext_stopping")
int BPF_PROG(ext_stopping, struct task_struct *p, bool runnable)
{
	u64 now = rq_now(), ran_ns;
	u32 cpu = scx_bpf_task_cpu(p);
	struct pc_rq *rq = rq_of(cpu);
	struct pc_task *t = task_of(p);
	struct pc_cpu *here;
	struct pc_vcpu *v;
	u32 index;

	if (!t || !rq)
		return 0;
	t->reads = runnable && reads_under_rcu(p);
	/*
	 * Another hardware thread of the core may have the next turn. If the slice of the task is 0, the task waits at its place
	 * in the queue of its CPU. If part of the slice were left, the kernel would insert the task at the head of the local DSQ.
	 */
	if (runnable && shares_core(cpu, now))
		p->scx.slice = 0;
	t->vtime = running_vtime(rq, now);
	keep_pace(rq, now);
	ran_ns = pc_elapsed_ns(now, rq->cur_since_ns);
	pay(rq, ran_ns);
	if (!runnable)
		pay_no_more(rq);
	if (t->last_child)
		run_after_fork(p, t, rq, ran_ns);
	if (t->unused_ns)
		use_debit(p, t, ran_ns);
	v = vcpu_of(t, &index);
	if (v && READ_ONCE(v->ran_boosted))
		t->vtime = pc_fair_forgive(t->vtime, rq->base, t->inverse, rq->slice_ns);
	if (READ_ONCE(rq->queued) <= 0)
		raise_base(rq, t->vtime);
	else if (p->__state & PC_TASK_DEAD)
		raise_base_to_first(cpu, rq);
	if (rq->features & PC_PERF_TRACK) {
		follow_guest(t);
		perf_ran(p, t, rq, now);
	}
	/* ext_quiescent, which comes next, could also do this, but would have to find the record again. */
	if (!runnable) {
		departs(p, t, cpu, p->__state != 0);
	}
	WRITE_ONCE(rq->runs, PC_RUNS_NOTHING);
	WRITE_ONCE(rq->turn, PC_TURN_WHOLE);
	/*
	 * A runnable task in the state LEAVE keeps this state, because ext_enqueue reads the destination CPU from the same word.
	 */
	if (!runnable || state_of(place_of(t)) == PC_AT_RUN)
		go_to(t, PC_AT_NOWHERE);
	if (v && is_current(p)) {
		here = bpf_map_lookup_elem(&cpus, &cpu);
		if (here)
			here->running = 0;
		/* A task that changes its own affinity or class also stops, but does not sleep. */
		switched_out(p, v, index, runnable || !p->__state, bpf_ktime_get_ns());
	}
	return 0;
}

/* Charges the running task and updates its weight. While no other task waits, the base of the queue follows the running task. */
SEC("struct_ops/ext_tick")
int BPF_PROG(ext_tick, struct task_struct *p)
{
	u64 now = rq_now(), vtime, ran_ns;
	u32 cpu = scx_bpf_task_cpu(p);
	struct pc_rq *rq = rq_of(cpu);
	struct pc_task *t = task_of(p);
	bool spent;
	u32 floor;

	if (!t || !rq || runs_nothing(rq))
		return 0;
	floor = t->clamp.min;
	keep_pace(rq, now);
	t->reads = reads_under_rcu(p);
	ran_ns = pc_elapsed_ns(now, rq->cur_since_ns);
	spent = pay(rq, ran_ns);
	vtime = running_vtime(rq, now);
	if (t->last_child)
		run_after_fork(p, t, rq, ran_ns);
	/* Other tasks of the group may have come or gone, and the frequency of the CPU may have changed. */
	weigh(p, t, now);
	vtime = pc_fair_rescale(vtime, rq->base, rq->cur_inverse, t->inverse);
	spent |= pay_for(rq, t->limited);
	if (spent && may_hold(p, t))
		p->scx.slice = 0;
	charge_from(rq, t, cpu, vtime, now);
	if (rq->features & PC_PERF_TRACK) {
		perf_ran(p, t, rq, now);
		perf_request(p, rq, cpu);
	}
	if (READ_ONCE(rq->queued) <= 0)
		raise_base(rq, rq->cur_vtime);
	if ((rq->features & PC_PERF_PLACE) && level_on(rq) == PC_LEVEL_NONE) {
		place_soon(t, rq, floor);
		place_running(p, t, cpu, now);
	}
	if (pc_fair_before(rq->search_ns, now)) {
		rq->search_ns = now + PC_AGED_EVERY_NS;
		rq->search = 1;
	}
	/*
	 * If the tick of this CPU is stopped, another CPU calls ext_tick for it once per second. That call finds waiting tasks that
	 * nothing else has noticed.
	 */
	if (READ_ONCE(rq->expired) || (p->scx.slice == SCX_SLICE_INF && is_waited_for_on(rq, cpu))) {
		WRITE_ONCE(rq->expired, 0);
		p->scx.slice = 0;
	}
	return 0;
}

/* Called when a task of a higher class takes a CPU. Requeues the tasks of the CPU's local DSQ, so that they can run elsewhere. */
SEC("struct_ops/ext_cpu_release")
int BPF_PROG(ext_cpu_release, s32 cpu, struct scx_cpu_release_args *args)
{
	struct pc_rq *rq = rq_of(cpu);

	/* A task of the stop class runs for some microseconds. A move of a boosted thread to another CPU would cost more. */
	if (rq && args->reason != SCX_CPU_PREEMPT_STOP)
		record_taking(rq, rq_now());
	reenqueue_local();
	return 0;
}

SEC("struct_ops/ext_quiescent")
int BPF_PROG(ext_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct pc_task *t;

	/* If the task was running, ext_stopping has already done all of this. */
	if (is_current(p))
		return 0;
	t = task_of(p);
	if (!t)
		return 0;
	if (deq_flags & SCX_DEQ_SLEEP)
		t->waits_ns = 0;
	go_to(t, PC_AT_NOWHERE);
	departs(p, t, scx_bpf_task_cpu(p), deq_flags & SCX_DEQ_SLEEP);
	return 0;
}

/* The kernel ejects a scheduler under which a task waits longer than this. The kernel accepts a value of at most 30 s. */
#define PC_WATCHDOG_MS	30000

SEC(".struct_ops.link")
struct sched_ext_ops paracord = {
	.select_cpu = (void *)ext_select_cpu,
	.enqueue = (void *)ext_enqueue,
	.dispatch = (void *)ext_dispatch,
	.tick = (void *)ext_tick,
	.running = (void *)ext_running,
	.stopping = (void *)ext_stopping,
	.quiescent = (void *)ext_quiescent,
	.yield = (void *)ext_yield,
	.core_sched_before = (void *)ext_core_sched_before,
	.cpu_release = (void *)ext_cpu_release,
	.cpu_online = (void *)ext_cpu_online,
	.cpu_offline = (void *)ext_cpu_offline,
	.init_task = (void *)ext_init_task,
	.disable = (void *)ext_disable,
	.cgroup_init = (void *)ext_cgroup_init,
	.cgroup_exit = (void *)ext_cgroup_exit,
	.cgroup_move = (void *)ext_cgroup_move,
	.cgroup_set_weight = (void *)ext_cgroup_set_weight,
	.init = (void *)ext_init,
	.exit = (void *)ext_exit_op,
	.flags = PC_CAN_KICK ? SCX_OPS_ENQ_LAST : 0,
	.timeout_ms = PC_WATCHDOG_MS,
	.name = "paracord",
};

#endif
