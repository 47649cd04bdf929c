/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Migration of waiting tasks (policy/balance.h). The CPU that pulls a task makes the decision. This CPU reads the record of the
 * other CPU without taking the other CPU's run queue lock.
 */
#ifndef PARACORD_BPF_SCHED_BALANCE_H
#define PARACORD_BPF_SCHED_BALANCE_H

/* Shortest time that is added to a pace. A shorter time is added later, together with the time that follows it. */
#define PC_PACE_LEAST_NS	(4 * PC_NSEC_PER_USEC)
/* Maximum number of CPUs that a busy CPU checks in one search. A busy CPU searches once per slice. */
#define PC_BALANCE_STEPS	4
/*
 * Maximum number of tasks that a CPU checks in another CPU's queue: PC_BALANCE_DEPTH if the checking CPU is busy, PC_WAITED_DEPTH
 * if it is idle and the other CPU is in another node.
 */
#define PC_BALANCE_DEPTH	4
#define PC_WAITED_DEPTH		16
/*
 * Maximum number of tasks in its own queue that a CPU offers to idle CPUs in one call of give(). If enough CPUs are idle, all of
 * these tasks may migrate.
 */
#define PC_GIVE_DEPTH		64

static __always_inline u64 weight_waiting(const struct pc_rq *rq)
{
	s64 waiting = READ_ONCE(rq->waiting);

	return waiting > 0 ? waiting : 0;
}

/* The weight of the waiting tasks plus that of the running task. Called only for a CPU that runs an ordinary task. */
static __always_inline u64 weight_shared(const struct pc_rq *rq)
{
	return weight_waiting(rq) + pc_fair_weight(READ_ONCE(rq->cur_inverse));
}

/* The weight of the waiting tasks on a CPU, plus that of the running task if it is ordinary. Any CPU may call this function. */
static __always_inline u64 weight_on(const struct pc_rq *rq)
{
	return runs_ordinary(rq) ? weight_shared(rq) : weight_waiting(rq);
}

/*
 * The pace of a CPU as of `now`. The pace of an idle CPU advances as if one task of nice 0 ran there, so that a task that the
 * idle CPU pulls has no debt there. The pace does not advance while a boosted vCPU runs, or while tasks wait because a task of a
 * higher class occupies the CPU.
 */
static __always_inline u64 pace_of(const struct pc_rq *rq, u64 now)
{
	u64 weight = 0;

	if (runs_ordinary(rq))
		weight = weight_shared(rq);
	else if (runs_nothing(rq) && READ_ONCE(rq->queued) <= 0)
		weight = PC_FINE_NICE_0;
	return pc_pace(READ_ONCE(rq->pace), pc_elapsed_ns(now, READ_ONCE(rq->pace_ns)), weight);
}

/*
 * Updates the pace of a CPU. Called before the running task of the CPU or the weights on the CPU change. The time between two
 * tasks at a switch is too short to count.
 */
static __always_inline void keep_pace(struct pc_rq *rq, u64 now)
{
	if (pc_elapsed_ns(now, rq->pace_ns) < PC_PACE_LEAST_NS)
		return;
	rq->pace = pace_of(rq, now);
	rq->pace_ns = now;
}

/*
 * Called if no idle CPU was found for a task that wakes. `cpu`: where the task ran last. Return: the waker's CPU if it is in the
 * node of `cpu` and less weight waits there than on `cpu`; otherwise `cpu`.
 */
static __always_inline u32 less_busy(struct task_struct *p, const struct pc_rq *rq, u32 cpu)
{
	u32 here = bpf_get_smp_processor_id();
	struct pc_rq *wakers = rq_of(here);

	if (!wakers || wakers->offline || wakers->near.node != rq->near.node ||
	    READ_ONCE(wakers->waiting) >= READ_ONCE(rq->waiting) || !bpf_cpumask_test_cpu(here, p->cpus_ptr))
		return cpu;
	return here;
}

/*
 * Called if no idle CPU was found for a task of weight `weight` that wakes. Checks one other CPU. Return: the other CPU if its
 * tasks have had so much more CPU time that it would pull the task from the queue of `cpu`; otherwise `cpu`.
 *
 * balance() finds only tasks that wait. Without this function, a task that never has to wait, because it sleeps again soon, would
 * stay on its CPU. The other tasks of that CPU would then not get the CPU time that they are owed.
 */
PC_VERIFIED_ALONE u32 faster_cpu(u32 cpu, u32 weight)
{
	struct pc_rq *rq = rq_of(cpu), *wakers = rq_of(bpf_get_smp_processor_id()), *theirs;
	u64 now = rq_now();
	u32 ring, other;

	if (!rq || !wakers || wakers->near.node != rq->near.node)
		return cpu;
	ring = widest_in_node(wakers);
	other = wakers->victim[ring] == cpu ? rq->near.next[ring] : wakers->victim[ring];
	theirs = rq_of(other);
	if (!theirs || theirs->offline || !runs_ordinary(theirs) ||
	    !pc_balance_takes(pace_of(theirs, now) - pace_of(rq, now), weight_on(theirs) + weight,
			      weight_on(rq) + weight, rq->slice_ns))
		return cpu;
	/* The next call checks another CPU. */
	wakers->victim[ring] = theirs->near.next[ring];
	return other;
}

/*
 * Called after `cpu` has moved a task to the CPU `idle`. Stores a hint (`victim`) that makes `idle` search the queue of `cpu`
 * first when it is idle again. Any CPU may write this hint.
 */
static __always_inline void look_here(u32 idle, u32 cpu)
{
	struct pc_rq *theirs = rq_of(idle), *rq = rq_of(cpu);

	if (!theirs || !rq)
		return;
	watch_claimed(theirs, idle);
	if (theirs->near.node != rq->near.node)
		WRITE_ONCE(theirs->victim[PC_NEAR_ALL], cpu);
	else
		WRITE_ONCE(theirs->victim[widest_in_node(theirs)], cpu);
}

/*
 * Moves tasks that wait on this CPU to idle CPUs on which they may run. Another CPU may be idle although tasks wait here, because
 * its last search did not reach this CPU, or because it has just come online. Return: 0.
 */
PC_VERIFIED_ALONE int give(u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct pc_rq *rq = rq_of(cpu);
	u64 now = rq_now();
	int i;

	/* Without scx_bpf_kick_cpu(), a CPU that was claimed as idle but gets no task would not be marked as idle again. */
	if (!PC_CAN_KICK || !describes_cpumask() || !rq)
		return 0;
	if (!bpf_iter_scx_dsq_new(&it, cpu, 0)) {
		bpf_for(i, 0, PC_GIVE_DEPTH) {
			struct pc_task *t;
			s32 idle;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (!t || is_pinned(p))
				continue;
			idle = idle_cpu_for(p, t, rq, now);
			if (idle < 0)
				continue;
			/* The task leaves the sums of this queue when it begins to run, possibly before move_to() returns. */
			if (move_to(&it, p, SCX_DSQ_LOCAL_ON | idle, at_once(rq_of(idle), 0)))
				look_here(idle, cpu);
			else
				wake_idle(idle);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/*
 * Called if the CPU itself has a task to run. Calls give() if `due` is set, tasks wait on this CPU, and other CPUs may pull these
 * tasks.
 */
static __always_inline void give_if_due(u32 cpu, struct pc_rq *rq, bool due, u64 now)
{
	if (due && READ_ONCE(rq->queued) > 0 && gives_away(rq, now))
		give(cpu);
}

/*
 * Searches the queue of a CPU of another node, and pulls the first task that has waited for at least crossing_ns(). Return: 1 if a
 * task was pulled.
 */
PC_VERIFIED_ALONE int take_waited(u32 victim, u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu), *theirs = rq_of(victim);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool moved = false;
	u64 now = rq_now();
	int i;

	if (!rq || !theirs)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, victim, 0)) {
		bpf_for(i, 0, PC_WAITED_DEPTH) {
			struct pc_task *t;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (!t || !t->waits_ns || is_pinned(p) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
			    pc_elapsed_ns(now, t->waits_ns) < crossing_ns(t, theirs, rq->near.node + 1))
				continue;
			moved = fetch(&it, p, t);
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/*
 * Pulls a task from another CPU of a ring. Starts where this CPU's last search of the ring stopped. Return: 1 if a task was
 * pulled.
 */
PC_VERIFIED_ALONE int steal_along(u32 cpu, u32 ring)
{
	struct pc_rq *rq = rq_of(cpu), *theirs;
	bool taken = false;
	u64 now = rq_now();
	u32 victim;
	int i;

	if (!rq || ring >= PC_NEAR_LEVELS || rq->near.next[ring] == cpu)
		return false;
	victim = rq->victim[ring];
	bpf_for(i, 0, PC_STEAL_MAX) {
		theirs = rq_of(victim);
		if (!theirs)
			break;
		if (victim != cpu && READ_ONCE(theirs->queued) > 0 && gives_away(theirs, now) &&
		    (theirs->near.node == rq->near.node ? take(victim) : take_waited(victim, cpu))) {
			taken = true;
			break;
		}
		victim = theirs->near.next[ring];
		/* All CPUs of the ring have been searched. */
		if (victim == rq->victim[ring])
			break;
	}
	rq->victim[ring] = victim;
	return taken;
}

/* Pulls a task from the queue of another CPU, preferably a nearby one. Called if this CPU has nothing to run. */
static __always_inline bool steal(u32 cpu)
{
	return steal_along(cpu, PC_NEAR_CACHE) || steal_along(cpu, PC_NEAR_NODE) || steal_along(cpu, PC_NEAR_ALL);
}

/*
 * Whether `p` is the current task. If `p` runs but is not the current task, another task is changing the class or affinity of
 * `p`, and the address space of `p` cannot be read.
 */
static __always_inline bool is_current(const struct task_struct *p)
{
	return bpf_get_current_task_btf()->pid == p->pid;
}

/*
 * Called if the running task is about to lose the CPU. If the task is a vCPU, reads the guest line and evaluates the vCPU.
 * Return: whether the task is a vCPU that is boosted after the evaluation, and therefore keeps the CPU.
 */
static __always_inline bool is_boosted_at_preemption(struct task_struct *p)
{
	u32 index;
	struct pc_vcpu *v = vcpu_of(task_of(p), &index);
	u64 now;

	if (!v || !is_current(p))
		return false;
	now = bpf_ktime_get_ns();
	if (pc_boost_wants_view(&v->state, now))
		read_guest_line(v, now);
	evaluate(index, PC_EV_PREEMPT);
	return v->level != PC_LEVEL_NONE;
}

/*
 * Whether a busy CPU of `node` may pull a task from the node `from` now. If `takes` is set, the call also consumes the
 * permission, so that no other CPU gets the same permission.
 */
PC_VERIFIED_ALONE int may_cross(u32 node, u32 from, u64 now, u32 takes)
{
	struct pc_node *ours = bpf_map_lookup_elem(&nodes, &node), *theirs = bpf_map_lookup_elem(&nodes, &from);
	u64 last;

	if (!ours || !theirs)
		return false;
	last = READ_ONCE(ours->crossed_ns);
	if (pc_elapsed_ns(now, last) < pc_cross_every_ns(ours->pace, theirs->pace))
		return false;
	return !takes || __sync_val_compare_and_swap(&ours->crossed_ns, last, now) == last;
}

/*
 * Finds the first task in the queue of `victim` that should run on this CPU instead of the current task. If `takes` is set, the
 * task is also pulled. Return: whether a task was found and, if `takes` is set, pulled.
 */
PC_VERIFIED_ALONE int take_over(u32 victim, u32 cpu, u32 takes)
{
	struct pc_rq *rq = rq_of(cpu), *theirs = rq_of(victim);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p = NULL;
	bool found = false;
	struct pc_task *t;
	u64 here, there;
	u32 slice_ns;
	bool crosses;
	s64 ahead;
	int i;

	if (!rq || !theirs)
		return false;
	crosses = theirs->near.node != rq->near.node;
	slice_ns = rq->slice_ns;
	/* Between nodes, may_cross() limits how often a task is pulled, depending on the paces of the nodes. */
	if (!crosses && theirs->near.cache != rq->near.cache)
		slice_ns *= PC_CROSS_CACHE;
	/*
	 * Compute both paces for the same time, because a real-time task may have delayed the last update of the other CPU's
	 * pace.
	 */
	ahead = rq->pace - pace_of(theirs, rq->pace_ns);
	here = weight_on(rq);
	there = weight_on(theirs);
	if (!pc_balance_takes(ahead, 0, there, slice_ns))
		return false;
	if (!bpf_iter_scx_dsq_new(&it, victim, 0)) {
		bpf_for(i, 0, PC_BALANCE_DEPTH) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (t && !is_pinned(p) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) &&
			    pc_balance_takes(ahead, here + t->weight, there, slice_ns))
				break;
			p = NULL;
		}
		t = p ? task_of(p) : NULL;
		found = t && (!crosses || may_cross(rq->near.node, theirs->near.node, rq->pace_ns, takes)) &&
			(!takes || fetch(&it, p, t));
		if (found && takes)
			rq->pace -= ahead;
	}
	bpf_iter_scx_dsq_destroy(&it);
	return found;
}

/*
 * Adds the pace of a CPU to its node's average. If two CPUs do this at the same time, one update may be lost. A later search then
 * updates the average again.
 */
static __always_inline void tell_pace(const struct pc_rq *rq)
{
	u32 node = rq->near.node;
	struct pc_node *n = bpf_map_lookup_elem(&nodes, &node);

	if (n)
		WRITE_ONCE(n->pace, pc_node_pace(READ_ONCE(n->pace), rq->pace));
}

/* Return: the ring that a busy CPU searches this time, usually the ring of the CPUs with which it shares a cache. */
static __always_inline u32 ring_to_balance(u32 cpu, struct pc_rq *rq)
{
	u32 look = ++rq->looks;
	/* A CPU with less weight than this, for example with only a few SCHED_IDLE tasks, searches as far as an idle CPU does. */
	bool is_light = weight_shared(rq) < PC_FINE_NICE_0 / 64;

	bool everywhere = look % PC_LOOKS_EVERYWHERE == 0;

	if (has_nodes(rq) && everywhere)
		tell_pace(rq);
	if (has_nodes(rq) && (everywhere || is_light))
		return PC_NEAR_ALL;
	if (is_light || look % PC_LOOKS_IN_NODE == 0 || rq->near.next[PC_NEAR_CACHE] == cpu)
		return widest_in_node(rq);
	return PC_NEAR_CACHE;
}

/*
 * Finds another CPU with a task that should run on this CPU. Return: the other CPU; `cpu` if there is none. A call checks a few
 * CPUs, and the next call continues with the CPUs after them.
 */
PC_VERIFIED_ALONE u32 slower_cpu(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu), *theirs;
	u64 now = rq_now();
	u32 ring, victim;
	int i;

	if (!rq)
		return cpu;
	keep_pace(rq, now);
	ring = ring_to_balance(cpu, rq);
	bpf_for(i, 0, PC_BALANCE_STEPS) {
		victim = rq->victim[ring];
		theirs = rq_of(victim);
		if (!theirs)
			break;
		if (victim != cpu && READ_ONCE(theirs->queued) > 0 && gives_away(theirs, now) &&
		    take_over(victim, cpu, false))
			return victim;
		rq->victim[ring] = theirs->near.next[ring];
	}
	return cpu;
}

/*
 * Pulls a task from another CPU, unless `prev` is boosted. The pulled task runs next. `prev`: the running task; NULL if it is no
 * longer runnable. Return: whether a task was pulled.
 */
static __always_inline bool balance(u32 cpu, struct task_struct *prev)
{
	u32 victim = slower_cpu(cpu);

	return victim != cpu && !(prev && is_boosted_at_preemption(prev)) && take_over(victim, cpu, true);
}

#endif
