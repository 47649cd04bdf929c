/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One queue per CPU, ordered by virtual time. The queue is a DSQ whose ID is the number of the CPU. The virtual time of the
 * running task is kept in pc_rq, so that this record describes the whole CPU.
 */
#ifndef PARACORD_BPF_SCHED_QUEUE_H
#define PARACORD_BPF_SCHED_QUEUE_H

/*
 * How often a queue is searched for tasks that have waited for too long, and how many tasks a search visits. If such a task is
 * found, the next search follows after PC_AGED_AGAIN_NS. Hundreds of tasks may have waited for too long, for example if many
 * tasks of a light group compete with a heavy group, or if real-time tasks leave only 5 % of the CPU to other tasks. Each task
 * that is found gets a turn of one slice (at most 2.8 ms) or, without scx_bpf_kick_cpu(), a turn that lasts until a tick. If a
 * tick comes at least every 4 ms, these tasks together get at most half of the CPU.
 */
#define PC_AGED_EVERY_NS	(1 * PC_NSEC_PER_SEC)
#define PC_AGED_AGAIN_NS	(8 * PC_NSEC_PER_MSEC)
#define PC_AGED_DEPTH		4096

static __always_inline u64 running_vtime(const struct pc_rq *rq, u64 now)
{
	u64 ran_ns = pc_perf_capped_ns(pc_elapsed_ns(now, rq->cur_since_ns), rq->cur_speed, rq->cur_cap);

	return rq->cur_vtime + pc_fair_virtual(ran_ns, rq->cur_inverse);
}

static __always_inline u32 own_inverse(const struct task_struct *p)
{
	return p->policy == SCHED_IDLE_POLICY ? PC_INVERSE(PC_WEIGHT_IDLE) : pc_fair_inverse(p->static_prio - 120);
}

/* The effective clamps of a task. For a vCPU, they include the request of its guest's governor, within the clamps of the host. */
static __always_inline struct pc_clamp guest_clamp(struct pc_task *t, struct pc_clamp host)
{
	u32 index, asks;
	struct pc_vcpu *v = vcpu_of(t, &index);

	t->perf.asked = 0;
	if (!v || !v->setup.guest_requests)
		return host;
	asks = READ_ONCE(v->asks);
	t->perf.asked = !!(asks & 0xffff);
	return pc_clamp_guest(host, asks & 0xffff, asks >> 16);
}

/* Updates the effective clamps of a task. `g`: its group; NULL: the root group. */
static __always_inline void clamp(struct pc_task *t, const struct pc_group *g)
{
	t->clamp = guest_clamp(t, g ? pc_clamp_within(t->own, g->clamp) : t->own);
}

/* Updates the effective clamps of a task if it is a vCPU, because the guest of a vCPU may have changed its request. */
static __always_inline void follow_guest(struct pc_task *t)
{
	if (t->vcpu)
		clamp(t, t->group == PC_GROUP_ROOT ? NULL : group_at(t->group));
}

/* Updates the effective weight and clamps of a task, and other values that depend on its group. */
static __always_inline void weigh(struct task_struct *p, struct pc_task *t, u64 now)
{
	struct pc_group *g = fresh_group(p, t, now);

	t->inverse = own_inverse(p);
	if (g)
		t->inverse = pc_fair_in_group(t->inverse, g->factor);
	t->weight = pc_fair_weight(t->inverse);
	t->lazy = g && g->lazy;
	t->limited = g ? g->limited : 0;
	clamp(t, g);
}

static __always_inline bool is_pinned(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1 || p->migration_disabled;
}

/*
 * Whether a task was preempted in an RCU read-side critical section. A kernel with CONFIG_PREEMPT_RCU marks such a task before it
 * asks the scheduler for the next task.
 */
static __always_inline bool reads_under_rcu(const struct task_struct *p)
{
	return bpf_core_field_exists(p->rcu_read_unlock_special) && p->rcu_read_unlock_special.b.blocked;
}

/*
 * Moves a waiting task to the local DSQ of the current CPU, where it runs next. Return: false if the task has already left the
 * queue.
 */
static __always_inline bool fetch(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct pc_task *t)
{
	u64 at = place_of(t);
	bool moved = move_to(it, p, SCX_DSQ_LOCAL, 0);

	if (moved)
		go_to(t, has_arrived(at) ? PC_AT(PC_AT_LOCAL, 0) : PC_AT_NOWHERE);
	return moved;
}

/*
 * Called when a task comes to the queue of a CPU. Updates the weight of the task. The distance between the task's virtual time
 * and the base of the task's queue stays the same, within the bounds of pc_fair_place().
 */
static __always_inline void arrive(struct task_struct *p, struct pc_task *t, struct pc_rq *rq, u32 cpu, u64 now)
{
	struct pc_rq *from = NULL;
	u32 before = t->inverse;

	if (t->group != PC_GROUP_ROOT && !t->counted)
		group_join(t, pc_fair_weight(own_inverse(p)) >> PC_FINE_SHIFT);
	weigh(p, t, now);
	if (t->queue != cpu) {
		from = t->queue == PC_NO_QUEUE ? NULL : rq_of(t->queue);
		t->vtime = from ? pc_fair_move(t->vtime, from->base, rq->base) : rq->base;
		t->queue = cpu;
	}
	t->vtime = pc_fair_place(t->vtime, rq->base, rq->slice_ns);
	t->vtime = pc_fair_rescale(t->vtime, rq->base, before, t->inverse);
	if ((rq->features & PC_PERF_TRACK) || t->known)
		perf_arrive(p, t, rq, from, now);
}

/* Sets how the running time of a task is charged from `now` on. Called when the task begins to run, and at each tick. */
static __always_inline void charge_from(struct pc_rq *rq, const struct pc_task *t, u32 cpu, u64 vtime, u64 now)
{
	rq->cur_vtime = vtime;
	rq->cur_since_ns = now;
	rq->cur_inverse = t->inverse;
	rq->cur_cap = rq->features & PC_PERF_CHARGE ? t->clamp.max : PC_CAPACITY;
	if (rq->cur_cap < PC_CAPACITY)
		rq->cur_speed = scx_bpf_cpuperf_cap(cpu) * scx_bpf_cpuperf_cur(cpu) >> PC_CAPACITY_SHIFT;
}

static __always_inline void raise_base(struct pc_rq *rq, u64 vtime)
{
	if (pc_fair_before(rq->base, vtime))
		rq->base = vtime;
}

/*
 * Called when a task exits while other tasks wait. Raises the base to the virtual time of the first waiting task. The virtual
 * time that the exiting task has used does not raise the base, because the task is no longer in the queue. Consider a chain of
 * tasks in which each task forks the next one and then exits. Without this function, each new task of the chain would be first in
 * the queue, and the waiting tasks would wait forever.
 */
static __noinline void raise_base_to_first(u32 cpu, struct pc_rq *rq)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first = NULL;

	if (!bpf_iter_scx_dsq_new(&it, cpu, 0))
		first = bpf_iter_scx_dsq_next(&it);
	if (first && rq)
		raise_base(rq, first->scx.dsq_vtime);
	bpf_iter_scx_dsq_destroy(&it);
}

/*
 * Sets the virtual time of a new task to that of its parent, so that a chain of tasks, each forked by the one before it, gets no
 * more CPU time than one task. The new task does not start before the base, because time that the parent is owed does not belong
 * to the child.
 *
 * The caller adds a debit to this virtual time (sched_life.h).
 */
static __always_inline void inherit(struct pc_task *t, u64 now)
{
	u32 here = bpf_get_smp_processor_id();
	struct pc_rq *makers = rq_of(here);

	t->birth &= ~PC_BIRTH_NEW;
	/* If the parent belongs to another class, the new task starts at the base of its own queue. */
	if (!makers || runs_nothing(makers))
		return;
	t->vtime = running_vtime(makers, now);
	if (pc_fair_before(t->vtime, makers->base))
		t->vtime = makers->base;
	t->queue = here;
}

/* Maximum number of tasks that are moved from the queue of a CPU that goes offline. */
#define PC_OFFLINE_MAX	65536

/* Moves the tasks of a queue to the global DSQ. The kernel then finds another CPU for each task. */
static __noinline void empty_queue(u32 cpu)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	int i;

	if (!bpf_iter_scx_dsq_new(&it, cpu, 0)) {
		bpf_for(i, 0, PC_OFFLINE_MAX) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			move_to(&it, p, SCX_DSQ_GLOBAL, 0);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
}

/* Inserts a task into the local DSQ of a CPU, so that it runs next. With SCX_ENQ_PREEMPT, the task preempts the running task. */
static __always_inline void insert_local(struct task_struct *p, struct pc_task *t, u32 cpu, u64 slice_ns, u64 enq_flags)
{
	go_to(t, PC_AT(PC_AT_LOCAL, cpu + 1));
	insert(p, SCX_DSQ_LOCAL_ON | cpu, slice_ns, enq_flags);
}

static __always_inline void queue_task(struct task_struct *p, struct pc_task *t, struct pc_rq *rq, u32 cpu,
				       u64 enq_flags, u64 now)
{
	if (!t->waits_ns)
		t->waits_ns = now | 1;
	t->called = 0;
	wait_at(t, in_queue(t, PC_AT_QUEUE, cpu));
	insert_vtime(p, cpu, rq->slice_ns, t->vtime, enq_flags);
	if (turn_ends(rq, now))
		watch_turn(rq, cpu, now);
}

/* Whether a task that wakes on this CPU preempts the running task. */
static __always_inline bool preempts(const struct task_struct *p, struct pc_task *t, struct pc_rq *rq, u32 cpu,
				     u64 now)
{
	/*
	 * `sync` is valid for only one wakeup. select_cpu sets `sync`, but is not called for a pinned task, so clear `sync` here.
	 */
	bool sync = t->sync;

	t->sync = 0;
	if (t->lazy || p->policy == SCHED_IDLE_POLICY || p->policy == SCHED_BATCH_POLICY ||
	    !runs_ordinary(rq))
		return false;
	if (sync && cpu == bpf_get_smp_processor_id() &&
	    pc_fair_batches(pc_elapsed_ns(now, rq->cur_since_ns), t->inverse, rq->cur_inverse))
		return false;
	if (pc_fair_preempts(t->vtime, t->inverse, running_vtime(rq, now), rq->slice_ns))
		return true;
	/*
	 * Shorten the current turn if the waking task should have had this turn. This is the case if the virtual time of the
	 * waking task is less than the virtual time that the running task had at the start of the turn.
	 */
	return pc_fair_before(t->vtime, rq->turn_vtime) && shorten_turn(rq, now);
}

/*
 * Whether a task that wakes may wait in the local DSQ of the CPU. The local DSQ costs less than the queue. The task must be pinned,
 * because other CPUs cannot pull a pinned task anyway. No other task may wait, and no boosted vCPU may run. The virtual time of the
 * task must be less than one slice ahead of the virtual time of the running task. A task that waits in the local DSQ runs next,
 * even if the running task is owed time. So the task runs at most one slice of virtual time too early.
 */
static __always_inline bool goes_direct(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq,
					u64 now)
{
	if (!is_pinned(p) || rq->direct || READ_ONCE(rq->queued) > 0)
		return false;
	return runs_nothing(rq) ||
	       (level_on(rq) == PC_LEVEL_NONE &&
		pc_fair_before(t->vtime, running_vtime(rq, now) + pc_fair_virtual(rq->slice_ns, t->inverse)));
}

/* Whether the running task, which is still runnable, has to yield to the first waiting task. */
static __always_inline bool must_yield(u32 cpu, struct pc_rq *rq, u64 now)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *first = NULL;
	bool yield = false;

	if (!bpf_iter_scx_dsq_new(&it, cpu, 0))
		first = bpf_iter_scx_dsq_next(&it);
	if (first)
		yield = pc_fair_before(first->scx.dsq_vtime, running_vtime(rq, now));
	bpf_iter_scx_dsq_destroy(&it);
	return yield;
}

/*
 * Fetches a task that has waited for at least `longest_ns`. If `reads` is set, only a task that was preempted in an RCU read-side
 * critical section is fetched. The search begins at the end of the queue, where the tasks with little weight are.
 */
static __noinline bool take_waiting(u32 cpu, struct pc_rq *rq, u64 longest_ns, u32 reads)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct pc_task *t;
	bool moved = false;
	u64 now = rq_now();
	int i;

	if (!rq)
		return false;
	if (!bpf_iter_scx_dsq_new(&it, cpu, SCX_DSQ_ITER_REV)) {
		bpf_for(i, 0, PC_AGED_DEPTH) {
			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (!t || !t->waits_ns || (reads && !t->reads) ||
			    pc_elapsed_ns(now, t->waits_ns) < longest_ns)
				continue;
			moved = fetch(&it, p, t);
			rq->aged = moved;
			rq->search_ns = now + PC_AGED_AGAIN_NS;
			break;
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/*
 * Fetches a task that has waited for too long, whatever its weight. With fairness alone, such a task might wait for minutes, and
 * the kernel ejects a scheduler that lets a task wait for that long. RCU readers come first, because all other tasks may wait for
 * them.
 */
static __always_inline bool take_aged(u32 cpu, struct pc_rq *rq)
{
	rq->search = 0;
	if (READ_ONCE(rq->readers) > 0 && take_waiting(cpu, rq, PC_FAIR_READER_WAIT_MAX_NS, 1))
		return true;
	return take_waiting(cpu, rq, PC_FAIR_WAIT_MAX_NS, 0);
}

#endif
