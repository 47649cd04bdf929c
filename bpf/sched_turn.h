/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A short turn of a task that runs although its group's quota is used up: it has waited for too long, or reads under RCU. A
 * tick would end it too late.
 */
#ifndef PARACORD_BPF_SCHED_TURN_H
#define PARACORD_BPF_SCHED_TURN_H

#define PC_TURN_NS	(50 * PC_NSEC_PER_USEC)

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

/* Whose turn it was has had it. */
static int turn_ends(void *map, u32 *key, struct pc_turn_timer *value)
{
	u32 cpu = value->cpu;
	struct pc_rq *rq = rq_of(cpu);

	if (ext_on && rq && *(volatile u32 *)&rq->turn)
		preempt_cpu(rq, cpu);
	return 0;
}

static __always_inline void begin_turn(struct pc_rq *rq, u32 cpu)
{
	struct pc_turn_timer *timer = bpf_map_lookup_elem(&turn_timers, &cpu);

	rq->turn = 1;
	if (timer)
		bpf_timer_start(&timer->timer, PC_TURN_NS, 0);
}

static __always_inline s64 make_turn_timer(u32 cpu)
{
	struct pc_turn_timer *timer = bpf_map_lookup_elem(&turn_timers, &cpu);
	s64 error;

	if (!timer)
		return -2;
	timer->cpu = cpu;
	error = bpf_timer_init(&timer->timer, &turn_timers, CLOCK_MONOTONIC);
	return error && error != -16 ? error : bpf_timer_set_callback(&timer->timer, turn_ends);
}

#endif
