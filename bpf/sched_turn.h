/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns that end between two ticks. The kernel checks slices in its tick, which comes every 1 to 10 ms. A timer per CPU
 * ends the turn of an ordinary task after a slice if another task waits, as the kernel's own scheduler does (HRTICK). It
 * ends the turn of a task sooner if the quota of its group is used up.
 *
 * The timer is set when a task begins to wait, or begins to run while another task waits, unless it is already set: about
 * once per slice, however often tasks come and go. The timer may be early, and then checks again later.
 */
#ifndef PARACORD_BPF_SCHED_TURN_H
#define PARACORD_BPF_SCHED_TURN_H

/* The turn of a task whose group has used up its quota: the task has waited for too long, or reads under RCU. */
#define PC_TURN_NS		(50 * PC_NSEC_PER_USEC)
/* The timer is not set for less than this. A rest of a turn that is shorter is not a turn. */
#define PC_TURN_REST_NS		(20 * PC_NSEC_PER_USEC)
/* A timer that is late by this much has been lost. */
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

/* Makes the timer check what runs on a CPU, at the latest when the turn is over. */
static __always_inline void watch_turn(struct pc_rq *rq, u32 cpu, u64 now)
{
	u64 at = *(volatile u64 *)&rq->until_ns, set = *(volatile u64 *)&rq->timer_ns;
	struct pc_turn_timer *timer;

	/* Without the kick the timer could do nothing. */
	if (!PC_CAN_KICK || (set && !pc_fair_before(at, set) && pc_fair_before(now, set + PC_TURN_LOST_NS)))
		return;
	timer = bpf_map_lookup_elem(&turn_timers, &cpu);
	if (!timer)
		return;
	*(volatile u64 *)&rq->timer_ns = at;
	bpf_timer_start(&timer->timer, pc_max_u64(pc_elapsed_ns(at, now), PC_TURN_REST_NS), 0);
}

/* A task waits for the CPU, in its queue or as the next one to run. */
static __always_inline bool is_waited_for(const struct pc_rq *rq)
{
	return *(volatile s32 *)&rq->queued > 0 || *(volatile u16 *)&rq->direct;
}

/*
 * The same for a CPU that may be without a tick. Waiting tasks have to be found there even if the scheduler has not
 * inserted them: the kernel puts some tasks into the local DSQ without telling the scheduler (tasks that exit, for
 * example). A task may also wait on another thread of the core.
 */
static __always_inline bool is_waited_for_on(const struct pc_rq *rq, u32 cpu)
{
	return is_waited_for(rq) ||
	       (rq->tickless && (shares_core(cpu, rq_now()) || scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0));
}

/* A task was inserted into the local DSQ of a CPU that seemed idle. The CPU may have begun to run another task. */
static __always_inline void watch_claimed(struct pc_rq *rq, u32 cpu)
{
	if (rq->tickless)
		watch_turn(rq, cpu, rq_now());
}

/*
 * On a CPU that the kernel can leave without a tick (nohz_full), a task that no other task waits for has an infinite
 * slice. The kernel stops the tick only then, and only if the slice is infinite when the task begins to run. A task that
 * arrives sets the timer. A task that stays only for a moment does not bring back the tick: the tick starts when the
 * timer has ended a turn and another task waits for the next turn.
 */
static __always_inline bool runs_without_tick(const struct pc_rq *rq, u32 limited)
{
	return PC_CAN_KICK && rq->tickless == PC_TICKLESS && !limited;
}

/*
 * The turn of a task that could go on is over. Return: 1 if the task should be put back, as the last one, so that it
 * begins again without a tick; 0 if another task waits, and tasks take turns from now on.
 */
PC_VERIFIED_ALONE int goes_on_without_tick(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (!rq || !rq->tickless)
		return 0;
	rq->tickless = is_waited_for_on(rq, cpu) ? PC_TICKLESS_TURNS : PC_TICKLESS;
	return runs_without_tick(rq, rq->paying);
}

/* For a task that is about to run on a CPU that may be without a tick. */
static __always_inline void begin_without_tick(struct task_struct *p, struct pc_rq *rq, u32 cpu, const struct pc_task *t)
{
	if (!is_waited_for_on(rq, cpu))
		rq->tickless = PC_TICKLESS;
	p->scx.slice = runs_without_tick(rq, t->limited) ? SCX_SLICE_INF : rq->slice_ns;
}

/* The running task has a turn from now on. `boosted`: it has no turns, and its own timer does not interrupt it. */
static __always_inline void begin_turn(struct pc_rq *rq, u32 cpu, bool boosted, u64 now)
{
	*(volatile u16 *)&rq->turn = PC_TURN_WHOLE;
	*(volatile u64 *)&rq->until_ns = now + rq->slice_ns;
	rq->turn_vtime = rq->cur_vtime;
	if (!boosted && is_waited_for_on(rq, cpu))
		watch_turn(rq, cpu, now);
}

/* Makes the current turn end as soon as a turn may end. Return: whether it has lasted that long. */
static __always_inline bool shorten_turn(struct pc_rq *rq, u64 now)
{
	u64 least = pc_fair_turn_min_ns(rq->slice_ns), until = *(volatile u64 *)&rq->until_ns;

	if (rq->turn == PC_TURN_WHOLE) {
		until -= rq->slice_ns - least;
		*(volatile u64 *)&rq->until_ns = until;
		*(volatile u16 *)&rq->turn = PC_TURN_LEAST;
	}
	return rq->turn == PC_TURN_LEAST && !pc_fair_before(now, until);
}

/* Begins a short turn, whether a task waits or not. */
static __always_inline void begin_short_turn(struct pc_rq *rq, u32 cpu, u64 lasts_ns, u64 now)
{
	*(volatile u16 *)&rq->turn = PC_TURN_OWED;
	*(volatile u64 *)&rq->until_ns = now + lasts_ns;
	if (!PC_CAN_KICK)
		*(volatile u32 *)&rq->expired = 1;
	watch_turn(rq, cpu, now);
}

static int look_at_turn(void *map, u32 *key, struct pc_turn_timer *value)
{
	u32 cpu = value->cpu;
	struct pc_rq *rq = rq_of(cpu);
	u64 now;

	if (!rq)
		return 0;
	*(volatile u64 *)&rq->timer_ns = 0;
	/* A boosted vCPU has no turns. */
	if (!ext_on || (*(volatile u16 *)&rq->turn != PC_TURN_OWED && (!is_waited_for_on(rq, cpu) || !runs_ordinary(rq))))
		return 0;
	now = rq_now();
	if (pc_fair_before(now + PC_TURN_REST_NS, *(volatile u64 *)&rq->until_ns))
		watch_turn(rq, cpu, now);
	else
		preempt_cpu(rq, cpu);
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
	/* EBUSY: the timer exists since the scheduler was in force before. */
	return error && error != -16 ? error : bpf_timer_set_callback(&timer->timer, look_at_turn);
}

#endif
