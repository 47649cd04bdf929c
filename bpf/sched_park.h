/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * If a group has used up its quota, its tasks wait in a DSQ of the group, from which no CPU dispatches. A timer releases these
 * tasks when the group's pool has runtime again.
 *
 * The quota is checked when a task is enqueued and while it runs. If the quota is used up while a task waits in the queue of a
 * CPU, the task still begins to run, and is requeued at once. This adds microseconds to the group's debt, but saves a search of
 * the queues. A parked task does not count in the sum of its group, so the other groups of the same parent get its CPU time.
 */
#ifndef PARACORD_BPF_SCHED_PARK_H
#define PARACORD_BPF_SCHED_PARK_H

#define PC_PARK_WORDS		(PC_GROUPS_MAX / 64)
/* One run of the timer releases one task of a group for each portion in the group's pool, but at most this many tasks. */
#define PC_UNPARK_MAX		64
/* A run also releases tasks that have waited for too long: one, plus one for every PC_UNPARK_OLD_OF parked tasks of the group. */
#define PC_UNPARK_OLD_OF	1024
/* After this time, a run of the timer serves no more groups. The next run begins with the groups that were skipped. */
#define PC_LOOK_NS		(50 * PC_NSEC_PER_USEC)
/*
 * After a CPU has gone offline, each of the next PC_GONE_LOOKS runs of the timer checks up to PC_UNPARK_DEPTH parked tasks of
 * each group. A single run is not enough, because some tasks may still be on their way to a queue.
 */
#define PC_UNPARK_DEPTH		4096
#define PC_GONE_LOOKS		4
/*
 * Intervals of the timer: minimum while tasks are parked, maximum while there are quotas, and interval while there are no quotas.
 */
#define PC_PARK_SOONEST_NS	(500 * PC_NSEC_PER_USEC)
#define PC_PARK_LATEST_NS	(5 * PC_NSEC_PER_MSEC)
#define PC_PARK_REST_NS		(256 * PC_NSEC_PER_MSEC)

struct pc_parked {
	u64 groups[PC_PARK_WORDS];	/* one bit for each group, set if the group has parked tasks */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_parked);
} parked SEC(".maps");

struct pc_park_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_park_timer);
} park_timer SEC(".maps");

/* How many of the PC_GONE_LOOKS runs remain to be done. */
static u32 gone_looks;

/*
 * Whether a quota can hold back a task at all. A task that has disabled its migration is never held back, because it is in the
 * middle of kernel code, and may hold a lock (PREEMPT_RT). If the task is the current one, BPF itself has also disabled the
 * task's migration once. This does not count.
 */
static __always_inline bool may_hold(const struct task_struct *p, const struct pc_task *t)
{
	/* Without scx_bpf_kick_cpu(), nothing would wake the CPU of a released task. */
	return PC_CAN_KICK && t->limited && !t->reads && !(p->flags & (PC_PF_EXITING | PC_PF_KTHREAD)) &&
	       p->migration_disabled <= (is_current(p) ? 1 : 0);
}

/* Whether a quota can hold back a task and has no runtime left, neither in a pool nor in the portion of the CPU of `rq`. */
static __always_inline bool is_short(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq)
{
	if (!may_hold(p, t) || (rq->paying == t->limited && rq->portion_ns > 0) || rq->offline)
		return false;
	return is_spent(t->limited);
}

/*
 * Whether the quota of a task keeps the task from running on the CPU of `rq` now. A task that has waited for too long is not held
 * back, because the kernel ejects a scheduler that lets a task wait forever, even if the reason is a quota.
 */
static __always_inline bool is_held(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq,
				    u64 now)
{
	return !(t->waits_ns && pc_elapsed_ns(now, t->waits_ns) >= PC_FAIR_WAIT_MAX_NS) && is_short(p, t, rq);
}

/* Sets the bit of a group that has parked tasks. */
static __always_inline void note_parked(u32 index)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (all && index < PC_GROUPS_MAX && !(READ_ONCE(all->groups[index / 64]) & bit))
		__sync_fetch_and_or(&all->groups[index / 64], bit);
}

/*
 * Clears the bit of a group if no task is in the group's DSQ or on its way there. A CPU that parks a task counts the task before
 * it checks the bit. This function clears the bit before it reads the count again. So at least one of the two CPUs sees what the
 * other one has written.
 */
static __always_inline void forget_parked(u32 index, const struct pc_quota *q)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (!all || index >= PC_GROUPS_MAX || READ_ONCE(q->parked) > 0 ||
	    scx_bpf_dsq_nr_queued(PC_PARK | index) > 0)
		return;
	/* An atomic operation that returns the old value is a barrier on all architectures. */
	if ((__sync_fetch_and_and(&all->groups[index / 64], ~bit) & bit) && READ_ONCE(q->parked) > 0)
		note_parked(index);
}

/*
 * Parks a task instead of adding it to the queue of its CPU. When the task is released, its virtual time determines its place in
 * that queue.
 */
static __always_inline void park(struct task_struct *p, struct pc_task *t, u64 slice_ns, u64 enq_flags, u64 now)
{
	if (!t->waits_ns)
		t->waits_ns = now | 1;
	group_leave(t);
	if (t->known)
		perf_departs(p, t, scx_bpf_task_cpu(p), 0);
	wait_at(t, PC_AT(PC_AT_PARKED, t->limited));
	note_parked(t->limited);
	insert(p, PC_PARK | t->limited, slice_ns, enq_flags);
}

/*
 * Releases a parked task to an idle CPU or to the queue of its own CPU. Return: false if the task has already left the group's
 * DSQ.
 */
static __always_inline bool let_go(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct pc_task *t)
{
	u32 cpu = t->queue;
	u64 was = place_of(t), there = in_queue(t, PC_AT_RELEASED, cpu);
	struct pc_rq *rq = rq_of(cpu);
	s32 idle = -1;
	bool moved;

	if (!rq)
		return false;
	/* For a task in the global DSQ, the kernel finds another CPU, even if the task is pinned to the offline CPU. */
	if (rq->offline) {
		moved = move_to(it, p, SCX_DSQ_GLOBAL, 0);
		wake_idle(cpu);
		return moved;
	}
	/*
	 * A task that goes to its own CPU goes through the queue, even if that CPU is idle. If this function moved the task
	 * directly to the local DSQ, the kernel's wakeup_preempt() would make the next switch skip the update of the run queue
	 * clock. The task would then begin to run with an outdated clock, and the kernel would charge the idle time of the CPU to
	 * the task.
	 */
	if (!scx_bpf_test_and_clear_cpu_idle(cpu) && describes_cpumask() && !is_pinned(p) && gives_away(rq, rq_now()))
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		moved = move_to(it, p, SCX_DSQ_LOCAL_ON | idle, at_once(rq_of(idle), 0));
		/*
		 * Kick the CPU in any case. If the move failed, the CPU must be marked as idle again. If the move succeeded, the
		 * kick wakes the CPU: kernels before 6.19 do not wake a CPU for a task that is already on its run queue.
		 */
		wake_idle(idle);
		return moved;
	}
	/*
	 * Count the task in the queue of the CPU before the task is visible there. Give up if another CPU has dequeued the task.
	 */
	if (state_of(was) != PC_AT_PARKED || !wait_instead(t, was, there))
		return false;
	if (!move_to_vtime(it, p, cpu, pc_fair_place(t->vtime, rq->base, rq->slice_ns))) {
		/*
		 * If the task was dequeued and parked again before it was counted above, it is still parked. Restore the word
		 * that says so (pc_task.at).
		 */
		wait_instead(t, there, was);
		return false;
	}
	wake_idle(cpu);
	watch_claimed(rq, cpu);
	return true;
}

/*
 * Return: the number of tasks that may be released. This is the number of portions in the emptiest pool among the group's own
 * pool and its ancestors' pools.
 */
PC_VERIFIED_ALONE u64 portions_of(u32 index)
{
	u64 most = PC_QUOTA_NONE;
	int i;

	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		const struct pc_quota *q = index == PC_GROUP_ROOT ? NULL : quota_at(index);

		if (!q)
			break;
		most = pc_min_u64(most, pc_quota_portions(q));
		index = q->above;
	}
	return most;
}

/*
 * Reads the cgroup files of a parked task's group, because nobody else reads these files while all tasks of the group are parked.
 * `index`: the group for whose quota the task waits. The timer does not hold the task's lock, so the task may move to another
 * group in the meantime. In that case, nothing is read.
 */
static __always_inline void follow_parked(u32 index, const struct task_struct *p, struct pc_task *t, u64 now)
{
	u64 kernels = kernels_group(p), at;
	u32 group = READ_ONCE(t->group);
	struct pc_group *g;

	/*
	 * A task leaves the DSQ before it changes its group (ext_quiescent). An atomic operation that returns a value is a
	 * barrier.
	 */
	at = __sync_fetch_and_add(&t->at, 0) & (PC_AT_WHERE | PC_AT_STATE);
	if (at != PC_AT(PC_AT_PARKED, index) || READ_ONCE(t->group) != group)
		return;
	g = group_at(group);
	if (g && !is_fresh(g, now, PC_FACTOR_MAX_AGE_NS))
		refresh_group(group, t->shares ? 0 : kernels, now);
}

/* Releases parked tasks of a group as far as the group's pool has runtime. Return: the time until the group is due again. */
PC_VERIFIED_ALONE u64 unpark(u32 index, u64 now)
{
	struct pc_quota *q = quota_at(index);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 again, most = 1, old;
	bool spent = true;
	int i;

	if (!q)
		return PC_PARK_LATEST_NS;
	/* If thousands of tasks have waited for too long, a run has to release more than one of them. */
	old = 1 + (u32)q->parked / PC_UNPARK_OLD_OF;
	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, PC_PARK | index, 0)) {
		bpf_for(i, 0, PC_UNPARK_MAX) {
			struct pc_task *t;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			if (!t)
				continue;
			if (!i) {
				follow_parked(index, p, t, now);
				spent = is_spent(index);
				most = spent ? 0 : portions_of(index);
			}
			if ((u64)i >= most && ((u64)i >= most + old || pc_elapsed_ns(now, t->waits_ns) < PC_FAIR_WAIT_MAX_NS))
				break;
			let_go(&it, p, t);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	forget_parked(index, q);
	if (!spent)
		return PC_PARK_SOONEST_NS;
	again = pc_elapsed_ns(pc_quota_again_ns(q), bpf_ktime_get_ns());
	return pc_max_u64(PC_PARK_SOONEST_NS, pc_min_u64(again, PC_PARK_LATEST_NS));
}

/*
 * Releases the parked tasks of a group whose CPUs are going offline. A CPU cannot go offline before its parked tasks are
 * released. The kernel finds another CPU for each of these tasks.
 */
PC_VERIFIED_ALONE int unpark_gone(u32 index)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	int i;

	bpf_rcu_read_lock();
	if (!bpf_iter_scx_dsq_new(&it, PC_PARK | index, 0)) {
		bpf_for(i, 0, PC_UNPARK_DEPTH) {
			struct pc_task *t;
			struct pc_rq *rq;

			p = bpf_iter_scx_dsq_next(&it);
			if (!p)
				break;
			t = task_of(p);
			rq = t ? rq_of(t->queue) : NULL;
			if (rq && rq->offline)
				let_go(&it, p, t);
		}
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	return 0;
}

/* The state of one run of the timer. */
struct pc_park_look {
	u64 now;	/* run queue clock, like pc_task.waits_ns */
	u64 began_ns;	/* CLOCK_MONOTONIC */
	u64 again_ns;	/* time until the next run */
	u32 gone;	/* 1: a CPU has gone offline recently */
	u32 late;	/* 1: this run has lasted for PC_LOOK_NS */
	u32 left_out;	/* first group that was due but was skipped; 0: none */
};

/* Serves a group that has parked tasks, if the group is due. */
static __always_inline void look_at_parked(u32 index, struct pc_park_look *look)
{
	struct pc_quota *q = quota_at(index);
	u64 again;

	if (!q)
		return;
	if (look->gone)
		unpark_gone(index);
	if (q->look_ns > look->now) {
		again = q->look_ns - look->now;
	} else if (look->late) {
		again = PC_PARK_SOONEST_NS;
		if (!look->left_out)
			look->left_out = index;
	} else {
		again = unpark(index, look->now);
		q->look_ns = look->now + again;
		look->late = pc_elapsed_ns(bpf_ktime_get_ns(), look->began_ns) >= PC_LOOK_NS;
	}
	look->again_ns = pc_min_u64(look->again_ns, again);
}

/* Moves away tasks that came to the queue of an offline CPU after ext_cpu_offline had emptied the queue. */
static __noinline void empty_gone(void)
{
	int cpu;

	bpf_for(cpu, 0, PC_CPUS_MAX) {
		struct pc_rq *rq = rq_of(cpu);

		if (!rq)
			break;
		if (rq->offline && READ_ONCE(rq->queued) > 0) {
			empty_queue(cpu);
			wake_idle(cpu);
		}
	}
}

/* The group with which the next run begins. */
static u32 park_begin;

static int park_look(void *map, u32 *key, struct pc_park_timer *value)
{
	u32 zero = 0, begin = park_begin;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	struct pc_park_look look = {
		.now = rq_now(),
		.began_ns = bpf_ktime_get_ns(),
		.again_ns = READ_ONCE(has_quotas) ? PC_PARK_LATEST_NS : PC_PARK_REST_NS,
		.gone = READ_ONCE(gone_looks) > 0,
	};
	int i, bit;

	if (!ext_on || !all)
		return 0;
	/*
	 * Before 6.19, the verifier treats this callback as sleepable, because a sleepable program starts the timer. So this
	 * callback, and the functions that iterate over tasks, take the RCU read lock themselves.
	 */
	bpf_rcu_read_lock();
	if (look.gone)
		empty_gone();
	bpf_rcu_read_unlock();
	/* Visit each group once, starting with `begin`. The groups before `begin` in the same word come last. */
	bpf_for(i, 0, PC_PARK_WORDS + 1) {
		u32 n = (begin / 64 + i) % PC_PARK_WORDS;
		u64 word = READ_ONCE(all->groups[n]), before = (1ull << begin % 64) - 1;

		if (!i)
			word &= ~before;
		else if (i == PC_PARK_WORDS)
			word &= before;
		if (!word)
			continue;
		bpf_for(bit, 0, 64)
			if (word & 1ull << bit)
				look_at_parked(n * 64 + bit, &look);
	}
	if (look.left_out)
		park_begin = look.left_out;
	if (look.gone)
		__sync_fetch_and_add(&gone_looks, -1);
	bpf_timer_start(&value->timer, look.again_ns, 0);
	return 0;
}

static __always_inline s32 start_park_timer(void)
{
	u32 zero = 0;
	struct pc_park_timer *timer = bpf_map_lookup_elem(&park_timer, &zero);
	s64 error;

	if (!timer)
		return -2;
	gone_looks = 0;
	error = bpf_timer_init(&timer->timer, &park_timer, CLOCK_MONOTONIC);
	/* EBUSY: the timer is left over from an earlier attachment of the scheduler. */
	if (error && error != -16)
		return error;
	error = bpf_timer_set_callback(&timer->timer, park_look);
	if (!error)
		error = bpf_timer_start(&timer->timer, PC_PARK_LATEST_NS, 0);
	return error;
}

#endif
