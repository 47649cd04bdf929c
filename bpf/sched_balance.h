/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks that wait on one CPU and run on another (policy/balance.h). The CPU that takes one over decides: it reads the other's
 * record, and needs no lock of it.
 */
#ifndef PARACORD_BPF_SCHED_BALANCE_H
#define PARACORD_BPF_SCHED_BALANCE_H

/* What is left for the next look, and counted with that. */
#define PC_PACE_LEAST_NS	(4 * PC_NSEC_PER_USEC)
/* CPUs looked at by one that is busy, at the end of a slice. */
#define PC_BALANCE_STEPS	4
/* Tasks looked at in the queue of each; by an idle CPU. */
#define PC_BALANCE_DEPTH	4
#define PC_WAITED_DEPTH		16
/* Tasks of a CPU's own queue that are looked at for those that idle CPUs may run; each may go, if there are as many. */
#define PC_GIVE_DEPTH		64

static __always_inline u64 weight_waiting(const struct pc_rq *rq)
{
	s64 waiting = *(volatile s64 *)&rq->waiting;

	return waiting > 0 ? waiting : 0;
}

/* The same of a CPU that runs an ordinary task, which counts. */
static __always_inline u64 weight_shared(const struct pc_rq *rq)
{
	return weight_waiting(rq) + pc_fair_weight(*(volatile u32 *)&rq->cur_inverse);
}

/* Weight of what waits on a CPU, and of the ordinary task that runs there. Any CPU may look. */
static __always_inline u64 weight_on(const struct pc_rq *rq)
{
	return runs_ordinary(rq) ? weight_shared(rq) : weight_waiting(rq);
}

/*
 * A CPU's pace up to now. One that had nothing to do was as fast as for one task of nice 0: what it takes over is no debt.
 * While a boosted vCPU or a real-time task runs nothing is made.
 */
static __always_inline u64 pace_of(const struct pc_rq *rq, u64 now)
{
	u64 weight = 0;

	if (runs_ordinary(rq))
		weight = weight_shared(rq);
	else if (runs_nothing(rq) && *(volatile s32 *)&rq->queued <= 0)
		weight = PC_FINE_NICE_0;
	return pc_pace(*(volatile u64 *)&rq->pace, pc_elapsed_ns(now, *(volatile u64 *)&rq->pace_ns), weight);
}

/* Before anything changes on the CPU. From one task to the next one no time passes that would count. */
static __always_inline void keep_pace(struct pc_rq *rq, u64 now)
{
	if (pc_elapsed_ns(now, rq->pace_ns) < PC_PACE_LEAST_NS)
		return;
	rq->pace = pace_of(rq, now);
	rq->pace_ns = now;
}

/* No CPU is idle: the waker's, if less waits there than where the task ran last. */
static __always_inline u32 less_busy(struct task_struct *p, const struct pc_rq *rq, u32 cpu)
{
	u32 here = bpf_get_smp_processor_id();
	struct pc_rq *wakers = rq_of(here);

	if (!wakers || wakers->offline || wakers->near.node != rq->near.node ||
	    *(volatile s64 *)&wakers->waiting >= *(volatile s64 *)&rq->waiting || !bpf_cpumask_test_cpu(here, p->cpus_ptr))
		return cpu;
	return here;
}

/*
 * No CPU is idle, and a task wakes that weighs `weight`: another CPU that would take it over if it waited, as that CPU's tasks
 * have had more. One that sleeps again before it has to wait is never found by balance(), and would keep its CPU's tasks from
 * what they are due. Return: the CPU, or `cpu`.
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
	/* The next one goes elsewhere. */
	wakers->victim[ring] = theirs->near.next[ring];
	return other;
}

/* A CPU that was claimed and gets nothing is among the idle ones again once it has looked. */
static __always_inline void wake_idle(u32 cpu)
{
#ifdef PC_HAVE_KICK
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
#endif
}

/* A CPU that was given a task looks first where more may wait when it has nothing to do again. A hint: anybody may write it. */
static __always_inline void look_here(u32 idle, u32 cpu)
{
	struct pc_rq *theirs = rq_of(idle), *rq = rq_of(cpu);

	if (!theirs || !rq)
		return;
	watch_claimed(theirs, idle);
	if (theirs->near.node != rq->near.node)
		*(volatile u16 *)&theirs->victim[PC_NEAR_ALL] = cpu;
	else
		*(volatile u16 *)&theirs->victim[widest_in_node(theirs)] = cpu;
}

/*
 * Somebody waits on this CPU, and another one is idle: it looked at some CPUs before it went idle, and not at this one, or
 * has just come. The first who may run there goes there.
 */
PC_VERIFIED_ALONE int give(u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct pc_rq *rq = rq_of(cpu);
	u64 now = rq_now();
	int i;

	/* Without the kick a CPU that is claimed in vain would be lost. */
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
			/* It leaves the queue's counts where it runs, which may be before this returns. */
			if (move_to(&it, p, SCX_DSQ_LOCAL_ON | idle))
				look_here(idle, cpu);
			else
				wake_idle(idle);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return 0;
}

/* For a CPU that has something to run. */
static __always_inline void give_if_due(u32 cpu, struct pc_rq *rq, bool due, u64 now)
{
	if (due && *(volatile s32 *)&rq->queued > 0 && gives_away(rq, now))
		give(cpu);
}

/* The first task of another CPU's queue, of another node, that has waited for long enough; NULL: none has. */
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

/* Along a ring, from where the last look at it stopped. */
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
		if (victim != cpu && *(volatile s32 *)&theirs->queued > 0 && gives_away(theirs, now) &&
		    (theirs->near.node == rq->near.node ? take(victim) : take_waited(victim, cpu))) {
			taken = true;
			break;
		}
		victim = theirs->near.next[ring];
		/* Once around. */
		if (victim == rq->victim[ring])
			break;
	}
	rq->victim[ring] = victim;
	return taken;
}

/* For a CPU that has nothing to run: the first task of another's queue, of one near by if there is any. */
static __always_inline bool steal(u32 cpu)
{
	return steal_along(cpu, PC_NEAR_CACHE) || steal_along(cpu, PC_NEAR_NODE) || steal_along(cpu, PC_NEAR_ALL);
}

/* False when somebody else changes its class or affinity while it runs: nothing of its own can be read then. */
static __always_inline bool is_current(const struct task_struct *p)
{
	return bpf_get_current_task_btf()->pid == p->pid;
}

/*
 * The task that runs is a vCPU, and about to lose the CPU: what does its guest say? A
 * boost decided here keeps it on the CPU.
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

/* Whether a busy CPU may take a task of another node now, for its node, and takes it (`takes`). */
PC_VERIFIED_ALONE int may_cross(u32 node, u32 from, u64 now, u32 takes)
{
	struct pc_node *ours = bpf_map_lookup_elem(&nodes, &node), *theirs = bpf_map_lookup_elem(&nodes, &from);
	u64 last;

	if (!ours || !theirs)
		return false;
	last = *(volatile u64 *)&ours->crossed_ns;
	if (pc_elapsed_ns(now, last) < pc_cross_every_ns(ours->pace, theirs->pace))
		return false;
	return !takes || __sync_val_compare_and_swap(&ours->crossed_ns, last, now) == last;
}

/*
 * The first task of another CPU's queue that shall rather run here than the present one: whether there is one, or takes it
 * (`takes`).
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
	/* Between nodes it is their paces that say how often. */
	if (!crosses && theirs->near.cache != rq->near.cache)
		slice_ns *= PC_CROSS_CACHE;
	/* It may not have switched for long, under a real-time task for example. */
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

/* A CPU's part of its node's pace. Of two that do this at once one may be lost: it comes again. */
static __always_inline void tell_pace(const struct pc_rq *rq)
{
	u32 node = rq->near.node;
	struct pc_node *n = bpf_map_lookup_elem(&nodes, &node);

	if (n)
		*(volatile u64 *)&n->pace = pc_node_pace(*(volatile u64 *)&n->pace, rq->pace);
}

/* The CPUs among which a busy one looks now: most often those of its cache. */
static __always_inline u32 ring_to_balance(u32 cpu, struct pc_rq *rq)
{
	u32 look = ++rq->looks;
	/* With nothing but what is to run when nobody else wants to, it is as good as idle. */
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
 * Another CPU with a task that shall rather run here, or this one: there is none. A few CPUs are looked at each time, the next
 * ones the next time.
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
		if (victim != cpu && *(volatile s32 *)&theirs->queued > 0 && gives_away(theirs, now) &&
		    take_over(victim, cpu, false))
			return victim;
		rq->victim[ring] = theirs->near.next[ring];
	}
	return cpu;
}

/* Takes a task over, instead of `prev` if that could go on. */
static __always_inline bool balance(u32 cpu, struct task_struct *prev)
{
	u32 victim = slower_cpu(cpu);

	return victim != cpu && !(prev && is_boosted_at_preemption(prev)) && take_over(victim, cpu, true);
}

#endif
