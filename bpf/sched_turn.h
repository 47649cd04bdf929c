/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ends the turn of a running task between two ticks. The kernel checks the slice of a task only in its tick, which comes every 1
 * to 10 ms. Here, a per-CPU timer ends the turn of an ordinary task after one slice if another task waits, as HRTICK does in the
 * kernel's fair class. A turn may be shorter than a slice (PC_TURN_LEAST, PC_TURN_OWED).
 *
 * The timer also ends the turn of a boosted vCPU whose grants are used up before the next tick (PC_TURN_BOOST). Without the timer,
 * a vCPU that computes would keep its boost until the next tick, because it makes no VM exit. With a grant of 0.5 ms for an
 * interrupt and a tick of 4 ms, the vCPU would run boosted for eight times its grant. Other vCPUs of its VM would have to wait,
 * although the vCPU may itself wait for their answer. If a boost begins in the middle of a turn, a tick ends it.
 *
 * The timer is set when a task begins to wait, and when a task begins to run while another task waits. On a CPU that may be without
 * a tick, it is also set when a boosted vCPU begins to run alone. If the timer is already set for the same or an earlier time, it
 * is not set again. So it is set about once per slice or grant, however often tasks come and go. A timer that expires before the
 * end of the turn is set again.
 */
#ifndef PARACORD_BPF_SCHED_TURN_H
#define PARACORD_BPF_SCHED_TURN_H

/* Length of the turn of a task that runs although its quota is used up: a task that has waited for too long, or an RCU reader. */
#define PC_TURN_NS		(50 * PC_NSEC_PER_USEC)
/* Shortest timeout of the timer. If less than this is left of a turn, the turn ends immediately. */
#define PC_TURN_REST_NS		(20 * PC_NSEC_PER_USEC)
/* A timer that is late by this much is considered lost, and is set again. */
#define PC_TURN_LOST_NS		(20 * PC_NSEC_PER_MSEC)

/* One per CPU. */
struct pc_turn_timer {
	struct bpf_timer timer;
	u32 cpu;
	u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_turn_timer);
} turn_timers SEC(".maps");

/* Sets the timer of a CPU to the end of the current turn, unless the timer is already set for this time or an earlier one. */
static __always_inline void watch_turn(struct pc_rq *rq, u32 cpu, u64 now)
{
	u64 at = READ_ONCE(rq->until_ns), set = READ_ONCE(rq->timer_ns);
	struct pc_turn_timer *timer;

	/* Without scx_bpf_kick_cpu(), the timer could not preempt a task. */
	if (!PC_CAN_KICK || (set && !pc_fair_before(at, set) && pc_fair_before(now, set + PC_TURN_LOST_NS)))
		return;
	timer = bpf_map_lookup_elem(&turn_timers, &cpu);
	if (!timer)
		return;
	WRITE_ONCE(rq->timer_ns, at);
	bpf_timer_start(&timer->timer, pc_max_u64(pc_elapsed_ns(at, now), PC_TURN_REST_NS), 0);
}

/* Whether a task waits for the CPU, in its queue or in its local DSQ (goes_direct()). */
static __always_inline bool is_waited_for(const struct pc_rq *rq)
{
	return READ_ONCE(rq->queued) > 0 || READ_ONCE(rq->direct);
}

/*
 * Whether a task waits for a CPU. While a boosted vCPU runs, this check includes the boosted vCPUs that wait in the local DSQ. On a
 * CPU that may be without a tick, it includes two more kinds of tasks: tasks that the kernel itself has inserted into the local
 * DSQ, for example tasks that exit; and tasks that wait on another hardware thread of the core.
 */
static __always_inline bool is_waited_for_on(const struct pc_rq *rq, u32 cpu)
{
	bool boost = READ_ONCE(rq->turn) == PC_TURN_BOOST;

	return is_waited_for(rq) || (rq->tickless && shares_core(cpu, rq_now())) ||
	       ((boost || rq->tickless) && scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0);
}

/*
 * Called after a task was inserted into the local DSQ of a CPU that was claimed as idle. If the CPU may be without a tick, sets
 * the CPU's timer, because the CPU may have begun to run another task.
 */
static __always_inline void watch_claimed(struct pc_rq *rq, u32 cpu)
{
	if (rq->tickless)
		watch_turn(rq, cpu, rq_now());
}

/*
 * Whether a task gets an infinite slice. A task without a quota gets one on a CPU that the kernel can leave without a tick
 * (nohz_full), while no other task waits. The kernel stops the tick only if the slice is infinite when the task begins to run.
 *
 * When another task arrives on such a CPU, the timer is set. If that task stays only for a short time, the tick does not start
 * again. The tick starts again if another task still waits when the timer ends a turn.
 */
static __always_inline bool runs_without_tick(const struct pc_rq *rq, u32 limited)
{
	return PC_CAN_KICK && rq->tickless == PC_TICKLESS && !limited;
}

/*
 * Called when the turn of a task is over and the task is still runnable. Return: 1 if nothing should be dispatched; 0 if another
 * task waits, so that the tasks take turns, or if the CPU needs its tick. If the result is 1, the kernel then requeues the task
 * as the only runnable one (SCX_ENQ_LAST), and the task begins to run again without a tick.
 */
PC_VERIFIED_ALONE int goes_on_without_tick(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq || !rq->tickless)
		return 0;
	rq->tickless = is_waited_for_on(rq, cpu) ? PC_TICKLESS_TURNS : PC_TICKLESS;
	return runs_without_tick(rq, rq->paying);
}

/* Sets the slice of a task that is about to run on a CPU that may be without a tick. */
static __always_inline void begin_without_tick(struct task_struct *p, struct pc_rq *rq, u32 cpu, const struct pc_task *t)
{
	if (!is_waited_for_on(rq, cpu))
		rq->tickless = PC_TICKLESS;
	p->scx.slice = runs_without_tick(rq, t->limited) ? SCX_SLICE_INF : rq->slice_ns;
}

/* How long the boost of the vCPU with this index lasts at most, by its grants; 0: the vCPU is not boosted, or there is none. */
PC_VERIFIED_ALONE u64 boost_left_ns(u32 index)
{
	struct pc_vcpu *v = index < PC_VCPUS_MAX ? bpf_map_lookup_elem(&vcpus, &index) : NULL;
	struct pc_vm *vm;
	u32 of_vm;

	if (!v || level_of(v) == PC_LEVEL_NONE)
		return 0;
	of_vm = v->setup.vm;
	vm = bpf_map_lookup_elem(&vms, &of_vm);
	return vm ? pc_boost_left_ns(&vm->threads[v->setup.io & 1].config, &v->state, bpf_ktime_get_ns()) : 0;
}

/* Sets the end of a turn. `boost_ns`: what is left of the running vCPU's boost; 0: the running task is not boosted. */
static __always_inline void set_turn(struct pc_rq *rq, u64 boost_ns, u64 now)
{
	/* If more is left than a tick, a tick ends the boost. */
	bool boost = boost_ns && (boost_ns < PC_FAIR_TICK_NS || rq->tickless);

	WRITE_ONCE(rq->turn, boost ? PC_TURN_BOOST : PC_TURN_WHOLE);
	/* At the end of the turn, the grants must be used up. */
	WRITE_ONCE(rq->until_ns, now + (boost ? boost_ns + PC_TURN_REST_NS : rq->slice_ns));
}

/*
 * Whether the timer ends the current turn of a CPU if another task waits. The turn of a vCPU whose boost has ended during the turn
 * becomes an ordinary turn.
 */
static __always_inline bool turn_ends(struct pc_rq *rq, u64 now)
{
	bool ordinary = runs_ordinary(rq), boost = READ_ONCE(rq->turn) == PC_TURN_BOOST;

	if (ordinary && boost)
		set_turn(rq, 0, now);
	return ordinary || boost;
}

/* Begins the turn of the running task. `boost_ns`: as for set_turn(). */
static __always_inline void begin_turn(struct pc_rq *rq, u32 cpu, u64 boost_ns, u64 now)
{
	bool boost;

	set_turn(rq, boost_ns, now);
	rq->turn_vtime = rq->cur_vtime;
	boost = rq->turn == PC_TURN_BOOST;
	if ((boost && rq->tickless) || ((boost || !boost_ns) && is_waited_for_on(rq, cpu)))
		watch_turn(rq, cpu, now);
}

/* Shortens the current turn to pc_fair_turn_min_ns(). Return: whether the turn has already lasted that long. */
static __always_inline bool shorten_turn(struct pc_rq *rq, u64 now)
{
	u64 least = pc_fair_turn_min_ns(rq->slice_ns), until = READ_ONCE(rq->until_ns);

	if (rq->turn == PC_TURN_WHOLE) {
		until -= rq->slice_ns - least;
		WRITE_ONCE(rq->until_ns, until);
		WRITE_ONCE(rq->turn, PC_TURN_LEAST);
	}
	return rq->turn == PC_TURN_LEAST && !pc_fair_before(now, until);
}

/* Limits the running task's turn to `lasts_ns` from now. The turn then ends even if no other task waits. */
static __always_inline void begin_short_turn(struct pc_rq *rq, u32 cpu, u64 lasts_ns, u64 now)
{
	WRITE_ONCE(rq->turn, PC_TURN_OWED);
	WRITE_ONCE(rq->until_ns, now + lasts_ns);
	if (!PC_CAN_KICK)
		preempt_at_tick(rq);
	watch_turn(rq, cpu, now);
}

/*
 * Moves the end of a vCPU's turn if its boost lasts longer than it seemed at the start of the turn, because the boost has got
 * another reason or another grant. Return: whether the turn goes on.
 */
static __always_inline bool prolong_turn(struct pc_rq *rq, u64 now)
{
	u64 left = boost_left_ns(READ_ONCE(rq->runs) - PC_RUNS_VCPU);

	if (left <= PC_TURN_REST_NS)
		return false;
	set_turn(rq, left, now);
	return true;
}

static int look_at_turn(void *map, u32 *key, struct pc_turn_timer *value)
{
	u32 cpu = value->cpu, turn;
	struct pc_rq *rq = rq_of(cpu);
	bool waited_for;
	u64 now;

	if (!rq)
		return 0;
	WRITE_ONCE(rq->timer_ns, 0);
	if (!ext_on)
		return 0;
	turn = READ_ONCE(rq->turn);
	waited_for = is_waited_for_on(rq, cpu);
	/*
	 * A turn ends only if another task waits. There are two exceptions. A short turn (PC_TURN_OWED) always ends. And the turn
	 * of a boosted vCPU ends on a CPU without a tick, because nothing else might end its boost for a long time, and all this
	 * time would then be charged at once.
	 */
	if (turn != PC_TURN_OWED && !(waited_for && runs_ordinary(rq)) &&
	    !(turn == PC_TURN_BOOST && (waited_for || rq->tickless)))
		return 0;
	now = rq_now();
	if (pc_fair_before(now + PC_TURN_REST_NS, READ_ONCE(rq->until_ns)))
		watch_turn(rq, cpu, now);
	else if (turn != PC_TURN_BOOST || !prolong_turn(rq, now))
		preempt_cpu(rq, cpu);
	else if (READ_ONCE(rq->turn) == PC_TURN_BOOST)
		watch_turn(rq, cpu, now);
	return 0;
}

static __always_inline s64 make_turn_timer(u32 cpu)
{
	struct pc_turn_timer *timer = bpf_map_lookup_elem(&turn_timers, &cpu);
	s64 error;

	if (!timer)
		return -2;
	timer->cpu = cpu;
	error = bpf_timer_init(&timer->timer, &turn_timers, CLOCK_MONOTONIC);
	/* EBUSY: the timer is left over from an earlier attachment of the scheduler. */
	return error && error != -16 ? error : bpf_timer_set_callback(&timer->timer, look_at_turn);
}

#endif
