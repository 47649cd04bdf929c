/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tasks of a group that has used its quota up wait in a queue of the group's own, where no CPU looks. A timer lets them go
 * when the pool has something again.
 *
 * A task is looked at where it is enqueued, and while it runs. One that waits in a CPU's queue when its group runs out
 * begins to run, finds nothing to pay with and is put back at once: that is a debt of microseconds, and nothing has to be
 * searched. Meanwhile it counts for nothing in its group's sum: others under the same parent have what it leaves.
 */
#ifndef PARACORD_BPF_SCHED_PARK_H
#define PARACORD_BPF_SCHED_PARK_H

#define PC_PARK_WORDS		(PC_GROUPS_MAX / 64)
/* Tasks that one look lets go, of each group: so many at most, and one for each portion that there is. */
#define PC_UNPARK_MAX		64
/* Of so many that wait for a group's quota, one more that has waited for too long goes at a look. */
#define PC_UNPARK_OLD_OF	1024
/* What one look may take; the other groups come at the next one. */
#define PC_LOOK_NS		(50 * PC_NSEC_PER_USEC)
/* Tasks of a group that are looked at after a CPU has gone, and looks that do so: some may have been on their way. */
#define PC_UNPARK_DEPTH		4096
#define PC_GONE_LOOKS		4
/* How soon the timer looks again while somebody waits; while there are quotas; while there are none. */
#define PC_PARK_SOONEST_NS	(500 * PC_NSEC_PER_USEC)
#define PC_PARK_LATEST_NS	(5 * PC_NSEC_PER_MSEC)
#define PC_PARK_REST_NS		(256 * PC_NSEC_PER_MSEC)

struct pc_parked {
	u64 groups[PC_PARK_WORDS];	/* a bit for each in whose queue somebody waits */
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

/* Looks that are left of PC_GONE_LOOKS. */
static u32 gone_looks;

/*
 * Whether a quota holds the task back at all. Not one that may not change its CPU: it is in the middle of something in the
 * kernel, with a lock perhaps (PREEMPT_RT). BPF itself keeps the current task on its CPU, once.
 */
static __always_inline bool may_hold(const struct task_struct *p, const struct pc_task *t)
{
	/* Without the kick nobody would wake the CPU for one that is let go. */
	return PC_CAN_KICK && t->limited && !t->reads && !(p->flags & (PC_PF_EXITING | PC_PF_KTHREAD)) &&
	       p->migration_disabled <= (is_current(p) ? 1 : 0);
}

/* Whether nothing is left on the CPU of `rq` for a task to go on. */
static __always_inline bool is_short(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq)
{
	if (!may_hold(p, t) || (rq->paying == t->limited && rq->portion_ns > 0) || rq->offline)
		return false;
	return is_spent(t->limited);
}

/*
 * Whether a task may not begin to run on the CPU of `rq` now. Who has waited for too long may, for a moment: the kernel
 * ejects a scheduler that lets a task wait for ever, whatever its quota.
 */
static __always_inline bool is_held(const struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq,
				    u64 now)
{
	return !(t->waits_ns && pc_elapsed_ns(now, t->waits_ns) >= PC_FAIR_WAIT_MAX_NS) && is_short(p, t, rq);
}

/* Somebody waits for a group's quota. */
static __always_inline void note_parked(u32 index)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (all && index < PC_GROUPS_MAX && !(*(volatile u64 *)&all->groups[index / 64] & bit))
		__sync_fetch_and_or(&all->groups[index / 64], bit);
}

/*
 * Nobody waits there any more, it seems: neither in the queue nor on the way to it. Who comes now has been counted before it
 * looks at the bit, and is counted here after the bit is gone: one of both sees the other.
 */
static __always_inline void forget_parked(u32 index, const struct pc_quota *q)
{
	u32 zero = 0;
	struct pc_parked *all = bpf_map_lookup_elem(&parked, &zero);
	u64 bit = 1ull << index % 64;

	if (!all || index >= PC_GROUPS_MAX || *(volatile s32 *)&q->parked > 0 ||
	    scx_bpf_dsq_nr_queued(PC_PARK | index) > 0)
		return;
	/* As one that returns what was there it is a barrier on all machines. */
	if ((__sync_fetch_and_and(&all->groups[index / 64], ~bit) & bit) && *(volatile s32 *)&q->parked > 0)
		note_parked(index);
}

/* Instead of a CPU's queue. It finds its place there again by its virtual time. */
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

/* Lets the first that waits go, to an idle CPU or to the queue of its own. False: it is not there any more. */
static __always_inline bool let_go(struct bpf_iter_scx_dsq *it, struct task_struct *p, struct pc_task *t)
{
	u32 cpu = t->queue;
	u64 was = place_of(t), there = in_queue(t, PC_AT_RELEASED, cpu);
	struct pc_rq *rq = rq_of(cpu);
	s32 idle = -1;
	bool moved;

	if (!rq)
		return false;
	/* Where it is pinned to a CPU that goes, the kernel finds another. */
	if (rq->offline) {
		moved = move_to(it, p, SCX_DSQ_GLOBAL);
		wake_idle(cpu);
		return moved;
	}
	/*
	 * To its own CPU it goes through the queue, also if that is idle: a move to the local queue there lets the CPU's next switch
	 * go without a look at the clock (wakeup_preempt()), and the kernel would count its idle time as the task's.
	 */
	if (!scx_bpf_test_and_clear_cpu_idle(cpu) && describes_cpumask() && !is_pinned(p) && gives_away(rq, rq_now()))
		idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0) {
		moved = move_to(it, p, SCX_DSQ_LOCAL_ON | idle);
		/* It looks for work in any case, and kernels before 6.19 wake no CPU for a task of its own. */
		wake_idle(idle);
		return moved;
	}
	/* It counts there before it is seen there, unless it has been taken away from here. */
	if (state_of(was) != PC_AT_PARKED || !wait_instead(t, was, there))
		return false;
	if (!move_to_vtime(it, p, cpu, pc_fair_place(t->vtime, rq->base, rq->slice_ns))) {
		/* It was taken away and has been parked anew meanwhile: it still waits here. */
		wait_instead(t, there, was);
		return false;
	}
	wake_idle(cpu);
	watch_claimed(rq, cpu);
	return true;
}

/* Tasks that may begin to use up what the pools of a group and those above it have. */
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
 * What the files say of the group of a task that is parked for `index`: nobody else reads them while all of the group
 * waits. The timer has no lock of the task's, which may move to another group meanwhile: then nothing is read.
 */
static __always_inline void follow_parked(u32 index, const struct task_struct *p, struct pc_task *t, u64 now)
{
	u64 kernels = kernels_group(p), at;
	u32 group = *(volatile u32 *)&t->group;
	struct pc_group *g;

	/* It leaves the queue before it moves (ext_quiescent). An atomic that returns what was there is a barrier. */
	at = __sync_fetch_and_add(&t->at, 0) & (PC_AT_WHERE | PC_AT_STATE);
	if (at != PC_AT(PC_AT_PARKED, index) || *(volatile u32 *)&t->group != group)
		return;
	g = group_at(group);
	if (g && !is_fresh(g, now, PC_FACTOR_MAX_AGE_NS))
		refresh_group(group, t->shares ? 0 : kernels, now);
}

/* Lets tasks of a group go, as far as its pool has something. Return: when to look again. */
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
	/* Of thousands who have waited for too long more than one has to go at a time. */
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

/* A CPU that goes has to wait for all tasks that were parked from there: the kernel finds another CPU for each. */
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

/* A look of the timer. */
struct pc_park_look {
	u64 now;	/* of the run queues' clock, which says since when tasks wait */
	u64 began_ns;	/* CLOCK_MONOTONIC */
	u64 again_ns;	/* when to look again */
	u32 gone;	/* 1: a CPU has gone not long ago */
	u32 late;	/* 1: it has taken long enough */
	u32 left_out;	/* the first group that was due and not looked at; 0: there was none */
};

/* A group in whose queue somebody waits. */
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

/* Who came to the queue of a CPU that goes after that was emptied (ext_cpu_offline). */
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
	/* The kernel takes the callback of a timer that a sleepable program has started for sleepable (before 6.19). */
	bpf_rcu_read_lock();
	if (look.gone)
		empty_gone();
	bpf_rcu_read_unlock();
	/* Once around: of the word in which it begins, the groups before that one come last. */
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
	/* EBUSY: it has been made when the scheduler was loaded before. */
	if (error && error != -16)
		return error;
	error = bpf_timer_set_callback(&timer->timer, park_look);
	if (!error)
		error = bpf_timer_start(&timer->timer, PC_PARK_LATEST_NS, 0);
	return error;
}

#endif
