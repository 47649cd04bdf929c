/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of a group that has used up its quota wait in a queue of the group, where no CPU looks for tasks. A timer
 * releases them when the pool has runtime again.
 *
 * A task is checked when it is enqueued and while it runs. A task that waits in the queue of a CPU when its group runs
 * out of quota begins to run, finds nothing to pay with, and is put back at once: this is a debt of microseconds, and no
 * queue has to be searched. A parked task does not count in the sum of its group: other groups under the same parent have
 * what it leaves.
 */
#ifndef PARACORD_BPF_SCHED_PARK_H
#define PARACORD_BPF_SCHED_PARK_H

#define PC_PARK_WORDS		(PC_GROUPS_MAX / 64)
/*
 * The most tasks of a group that one look releases. Up to this number, a look releases one task for each portion in the
 * pool.
 */
#define PC_UNPARK_MAX		64
/* One look releases one task that has waited for too long, plus one per this many parked tasks of the group. */
#define PC_UNPARK_OLD_OF	1024
/* How long one look may take. The other groups come at the next look. */
#define PC_LOOK_NS		(50 * PC_NSEC_PER_USEC)
/*
 * After a CPU has gone offline: tasks of a group that a look checks, and the number of looks that do this, because some
 * tasks may have been on their way to a queue.
 */
#define PC_UNPARK_DEPTH		4096
#define PC_GONE_LOOKS		4
/* Intervals of the timer: the shortest one while tasks wait; while there are quotas; while there are none. */
#define PC_PARK_SOONEST_NS	(500 * PC_NSEC_PER_USEC)
#define PC_PARK_LATEST_NS	(5 * PC_NSEC_PER_MSEC)
#define PC_PARK_REST_NS		(256 * PC_NSEC_PER_MSEC)

struct pc_parked {
	u64 groups[PC_PARK_WORDS];	/* a bit for each group in whose queue a task waits */
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

/* How many of the PC_GONE_LOOKS looks are left. */
static u32 gone_looks;

/*
 * Whether a quota can hold back the task at all. A task that may not migrate is never held back: it is in the middle of
 * something in the kernel, possibly with a lock held (PREEMPT_RT). BPF itself disables migration of the current task,
 * once.
 */
static __always_inline bool may_hold(const struct task_struct *p, const struct pc_task *t)
{
	/* Without the kick nothing would wake the CPU for a task that is released. */
	return PC_CAN_KICK && t->limited && !t->reads && !(p->flags & (PC_PF_EXITING | PC_PF_KTHREAD)) &&
	       p->migration_disabled <= (is_current(p) ? 1 : 0);
}

/* Whether nothing is left on the CPU of `rq` with which the task could go on. */
static __always_inline bool is_short(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq)
{
	if (!may_hold(p, t) || (rq->paying == t->limited && rq->portion_ns > 0) || rq->offline)
		return false;
	return is_spent(t->limited);
}

/*
 * Whether a task may not begin to run on the CPU of `rq` now. A task that has waited for too long may run for a moment:
 * the kernel ejects a scheduler that lets a task wait for ever, whatever the quota.
 */
static __always_inline bool is_held(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq,
				    u64 now)
{
	return !(t->waits_ns && pc_elapsed_ns(now, t->waits_ns) >= PC_FAIR_WAIT_MAX_NS) && is_short(p, t, rq);
}

/* A task waits for the quota of a group. */
static __always_inline void note_parked(u32 index)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (all && index < PC_GROUPS_MAX && !(*(volatile u64 *)&all->groups[index / 64] & bit))
		__sync_fetch_and_or(&all->groups[index / 64], bit);
}

/*
 * No task seems to wait there any more: none is in the queue, and none is on its way to the queue. A CPU that parks a
 * task counts the task before it checks the bit. This function clears the bit before it reads the count again. So one of
 * the two CPUs sees what the other one has written.
 */
static __always_inline void forget_parked(u32 index, const struct pc_quota *q)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (!all || index >= PC_GROUPS_MAX || *(volatile s32 *)&q->parked > 0 ||
	    scx_bpf_dsq_nr_queued(PC_PARK | index) > 0)
		return;
	/* An atomic operation that returns the old value is a barrier on all architectures. */
	if ((__sync_fetch_and_and(&all->groups[index / 64], ~bit) & bit) && *(volatile s32 *)&q->parked > 0)
		note_parked(index);
}

/* Parks a task instead of adding it to the queue of a CPU. It gets its place there again by its virtual time. */
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

/* Releases the first parked task to an idle CPU, or to the queue of its own CPU. False: the task is no longer parked here. */
static __always_inline bool let_go(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct pc_task *t)
{
	u32 cpu = t->queue;
	u64 was = place_of(t), there = in_queue(t, PC_AT_RELEASED, cpu);
	struct pc_rq *rq = rq_of(cpu);
	s32 idle = -1;
	bool moved;

	if (!rq)
		return false;
	/* The kernel finds another CPU even if the task is pinned to the CPU that goes offline. */
	if (rq->offline) {
		moved = move_to(it, p, SCX_DSQ_GLOBAL);
		wake_idle(cpu);
		return moved;
	}
	/*
	 * A task that goes to its own CPU goes through the queue, even if the CPU is idle. After a move to the local DSQ
	 * there, the next switch of the CPU would not update the clock (wakeup_preempt()), and the kernel would charge
	 * the idle time of the CPU to the task.
	 */
	if (!scx_bpf_test_and_clear_cpu_idle(cpu) && describes_cpumask() && !is_pinned(p) && gives_away(rq, rq_now()))
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		moved = move_to(it, p, SCX_DSQ_LOCAL_ON | idle);
		/*
		 * The CPU looks for work in any case. Kernels before 6.19 wake no CPU for a task that is already on its
		 * run queue.
		 */
		wake_idle(idle);
		return moved;
	}
	/* The task is counted there before it is visible there, unless it was taken away from here. */
	if (state_of(was) != PC_AT_PARKED || !wait_instead(t, was, there))
		return false;
	if (!move_to_vtime(it, p, cpu, pc_fair_place(t->vtime, rq->base, rq->slice_ns))) {
		/* The task was taken away and parked again meanwhile: it still waits here. */
		wait_instead(t, there, was);
		return false;
	}
	wake_idle(cpu);
	watch_claimed(rq, cpu);
	return true;
}

/* How many tasks may begin to use up what the pools of a group and of the groups above it have. */
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
 * Reads the files of the group of a task that is parked for `index`: no other task reads them while the whole group
 * waits. The timer does not hold the lock of the task, which may move to another group meanwhile: nothing is read then.
 */
static __always_inline void follow_parked(u32 index, const struct task_struct *p, struct pc_task *t, u64 now)
{
	u64 kernels = kernels_group(p), at;
	u32 group = *(volatile u32 *)&t->group;
	struct pc_group *g;

	/*
	 * A task leaves the queue before it moves (ext_quiescent). An atomic operation that returns the old value is a
	 * barrier.
	 */
	at = __sync_fetch_and_add(&t->at, 0) & (PC_AT_WHERE | PC_AT_STATE);
	if (at != PC_AT(PC_AT_PARKED, index) || *(volatile u32 *)&t->group != group)
		return;
	g = group_at(group);
	if (g && !is_fresh(g, now, PC_FACTOR_MAX_AGE_NS))
		refresh_group(group, t->shares ? 0 : kernels, now);
}

/* Releases tasks of a group, as far as its pool has runtime. Return: the time until the next look. */
static __noinline u64 unpark(u32 index, u64 now)
{
	struct pc_quota *q = quota_at(index);
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	u64 again, most = 1, old;
	bool spent = true;
	int i;

	if (!q)
		return PC_PARK_LATEST_NS;
	/* If thousands of tasks have waited for too long, more than one has to be released at a time. */
	old = 1 + (u32)q->parked / PC_UNPARK_OLD_OF;
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
	forget_parked(index, q);
	if (!spent)
		return PC_PARK_SOONEST_NS;
	again = pc_elapsed_ns(pc_quota_again_ns(q), bpf_ktime_get_ns());
	return pc_max_u64(PC_PARK_SOONEST_NS, pc_min_u64(again, PC_PARK_LATEST_NS));
}

/*
 * A CPU that goes offline has to wait for all tasks that were parked from there: the kernel finds another CPU for each of
 * them.
 */
static __noinline void unpark_gone(u32 index)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	int i;

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
}

/* One look of the timer. */
struct pc_park_look {
	u64 now;	/* run queue clock, as pc_task.waits_ns */
	u64 began_ns;	/* CLOCK_MONOTONIC */
	u64 again_ns;	/* time until the next look */
	u32 gone;	/* 1: a CPU has gone offline recently */
	u32 late;	/* 1: this look has used up its time */
	u32 left_out;	/* first group that was due and not looked at; 0: none */
};

/* Looks at a group in whose queue a task waits. */
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

/* Moves tasks that came to the queue of an offline CPU after it was emptied (ext_cpu_offline). */
static __noinline void empty_gone(void)
{
	int cpu;

	bpf_for(cpu, 0, PC_CPUS_MAX) {
		struct pc_rq *rq = rq_of(cpu);

		if (!rq)
			break;
		if (rq->offline && *(volatile s32 *)&rq->queued > 0) {
			empty_queue(cpu);
			wake_idle(cpu);
		}
	}
}

/* The group with which the next look begins. */
static u32 park_begin;

static int park_look(void *map, u32 *key, struct pc_park_timer *value)
{
	u32 zero = 0, begin = park_begin;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	struct pc_park_look look = {
		.now = rq_now(),
		.began_ns = bpf_ktime_get_ns(),
		.again_ns = *(volatile u32 *)&has_quotas ? PC_PARK_LATEST_NS : PC_PARK_REST_NS,
		.gone = *(volatile u32 *)&gone_looks > 0,
	};
	int i, bit;

	if (!ext_on || !all)
		return 0;
	/* Before 6.19 the verifier takes the callback for sleepable, because a sleepable program starts the timer. */
	bpf_rcu_read_lock();
	if (look.gone)
		empty_gone();
	bpf_rcu_read_unlock();
	/* One round: the groups before `begin` in its word come last. */
	bpf_for(i, 0, PC_PARK_WORDS + 1) {
		u32 n = (begin / 64 + i) % PC_PARK_WORDS;
		u64 word = *(volatile u64 *)&all->groups[n], before = (1ull << begin % 64) - 1;

		if (!i)
			word &= ~before;
		else if (i == PC_PARK_WORDS)
			word &= before;
		if (!word)
			continue;
		bpf_rcu_read_lock();
		bpf_for(bit, 0, 64)
			if (word & 1ull << bit)
				look_at_parked(n * 64 + bit, &look);
		bpf_rcu_read_unlock();
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
	/* EBUSY: the timer exists since the scheduler was loaded before. */
	if (error && error != -16)
		return error;
	error = bpf_timer_set_callback(&timer->timer, park_look);
	if (!error)
		error = bpf_timer_start(&timer->timer, PC_PARK_LATEST_NS, 0);
	return error;
}

#endif
