/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An idle CPU makes no new performance request, and its last request stays active. The last request matters if CPUs share a
 * frequency, because schedutil then uses the largest of their requests. So a timer lowers the request of an idle CPU as the
 * contributions of sleeping tasks to the CPU's sum decay.
 *
 * After the daemon has switched requests off, the timer also replaces each request of the scheduler that is still active with a
 * request for the highest frequency. The kernel uses this frequency by default if a scheduler requests nothing. Only a timer can
 * make a request for another CPU, because the code that makes such a request must not hold a run queue lock.
 */
#ifndef PARACORD_BPF_SCHED_IDLE_H
#define PARACORD_BPF_SCHED_IDLE_H

/*
 * Timer period while the request of an idle CPU still has to fall. The contributions of sleeping tasks halve in this time. The
 * kernel also updates the load of idle CPUs at this interval.
 */
#define PC_IDLE_NS		(32 * PC_NSEC_PER_MSEC)
/*
 * Other timer periods: PC_IDLE_REST_NS if no request has to fall; PC_IDLE_OFF_NS if requests are switched off or no CPU shares
 * its frequency.
 */
#define PC_IDLE_REST_NS		(256 * PC_NSEC_PER_MSEC)
#define PC_IDLE_OFF_NS		(1 * PC_NSEC_PER_SEC)
/* A request below 1/64 of the largest capacity counts as no request. */
#define PC_IDLE_FLOOR		(PC_CAPACITY / 64)

struct pc_idle_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_idle_timer);
} idle_timer SEC(".maps");

static int idle_look(void *map, u32 *key, struct pc_idle_timer *value)
{
	u64 now = rq_now(), again = PC_IDLE_OFF_NS;
	u32 cpu;

	if (!ext_on)
		return 0;
	bpf_for(cpu, 0, PC_CPUS_MAX) {
		struct pc_rq *rq = rq_of(cpu);
		u32 wanted;

		if (!rq)
			break;
		if (!(rq->features & PC_PERF_REQUEST)) {
			if (rq->asks) {
				rq->asks = 0;
				scx_bpf_cpuperf_set(cpu, PC_CAPACITY);
			}
			continue;
		}
		if (!(rq->features & PC_PERF_SHARED))
			continue;
		again = pc_min_u64(again, PC_IDLE_REST_NS);
		if (!runs_nothing(rq) || !rq->requested)
			continue;
		wanted = pc_min_u32(sum_of(rq, now), PC_CAPACITY);
		if (wanted < PC_IDLE_FLOOR)
			wanted = 0;
		else
			again = PC_IDLE_NS;
		if (wanted >= rq->requested)
			continue;
		request(rq, cpu, wanted);
	}
	bpf_timer_start(&value->timer, again, 0);
	return 0;
}

/* Starts the timer. If this fails, the requests of idle CPUs stay active. */
static __always_inline void start_idle_timer(void)
{
	u32 zero = 0;
	struct pc_idle_timer *timer = bpf_map_lookup_elem(&idle_timer, &zero);

	if (!timer)
		return;
	/*
	 * This call fails if the timer is left over from an earlier attachment of the scheduler. The old timer can be used
	 * nevertheless.
	 */
	bpf_timer_init(&timer->timer, &idle_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, idle_look);
	bpf_timer_start(&timer->timer, PC_IDLE_NS, 0);
}

#endif
