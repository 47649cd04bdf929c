/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One evaluator per vCPU, and nobody waits: a poster leaves its event in
 * `pending` and tries to take `lock`; who fails leaves, since the owner looks at
 * `pending` again after it let go. Steps of a vCPU are serial, their messages in order.
 *
 * Races tolerated:
 *  - After PC_ROUNDS_MAX rounds of events from elsewhere the rest waits for the
 *    next event of this vCPU (while it runs: the next exit, at most a host tick).
 *  - On kernels before 6.10 an evaluator can be preempted: the vCPU's events wait for it,
 *    in the worst case (an ordinary task, by the vCPU itself) until the kernel's
 *    reserve for ordinary tasks lets it go on, about a second.
 *  - A RUN that was not posted because the vCPU was unboosted, while another CPU
 *    boosts it: charging starts at its next exit.
 */
#ifndef PARACORD_BPF_EVALUATE_H
#define PARACORD_BPF_EVALUATE_H

#define PC_ROUNDS_MAX	4
/* Events whose poster has just refreshed the guest's view. */
#define PC_EV_WITH_VIEW	(PC_EV_EXIT | PC_EV_PREEMPT)

static __always_inline int send_message(u32 kind, u32 index, u32 tid, u32 level,
					const struct pc_boost_decision *decision, u64 now)
{
	struct pc_msg *msg = bpf_ringbuf_reserve(&messages, sizeof(*msg), 0);

	if (!msg)
		return -1;
	*msg = (struct pc_msg){ .kind = kind, .vcpu = index, .tid = tid,
			       .level = (u8)level, .now_ns = now };
	if (decision) {
		msg->reasons = decision->reasons;
		msg->forced = decision->forced;
		msg->cause = decision->cause;
	}
	bpf_ringbuf_submit(msg, 0);
	return 0;
}

static __always_inline void count(struct pc_vcpu *v, const struct pc_boost_decision *decision)
{
	struct pc_vcpu_counters *c = &v->counters;
	int r;

	c->evaluations++;
	c->boosted_ns += decision->charged_ns;
	c->suppressed += decision->suppressed;
	c->throttles += decision->throttled;
	if (decision->action == PC_BOOST) {
		for (r = 0; r < PC_REASONS; r++)
			if (decision->reasons & (1 << r))
				c->boosts[r]++;
	} else if (decision->action == PC_UNBOOST) {
		c->unboosts++;
		c->forced += decision->forced;
	}
}

/*
 * No other normal task waits for the vCPU's CPU or runs there: what is ahead of it, if anything, is real-time. The scheduler's
 * own queues are not looked at: there a boost costs nothing.
 */
static __always_inline bool is_alone(const struct pc_vcpu *v)
{
	struct task_struct *task = (void *)v->task;
	struct cfs_rq *queue;

	if (!task || ext_on)
		return false;
	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(struct rq, cfs))
		return false;
	queue = (void *)BPF_CORE_READ(task, se.cfs_rq, rq) + bpf_core_field_offset(struct rq, cfs);
	if (bpf_core_field_exists(queue->h_nr_queued))
		return BPF_CORE_READ(queue, h_nr_queued) == 1;
	if (bpf_core_field_exists(struct cfs_rq___old, h_nr_running))
		return BPF_CORE_READ((struct cfs_rq___old *)queue, h_nr_running) == 1;
	return false;
}

/* Since 6.10; older kernels do without. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void step(u32 index, struct pc_vcpu *v, u32 events)
{
	struct pc_boost_obs obs = { .events = events };
	struct pc_boost_decision decision;
	struct pc_vm *vm;
	struct pc_vm_threads *threads;
	struct pc_cpu *cpu;
	u32 vm_index, cpu_index, reserve, refused, own, zero = 0, level = PC_LEVEL_NONE;
	struct pc_adoption *host;
	u64 now;

	now = bpf_ktime_get_ns();
	cpu_index = v->cpu;
	cpu = bpf_map_lookup_elem(&cpus, &cpu_index);
	if (!cpu)
		return;
	if (events == PC_EV_RUN && v->actuated && pc_boost_resume(&v->state, &cpu->boosted, now))
		return;
	vm_index = v->setup.vm;
	vm = bpf_map_lookup_elem(&vms, &vm_index);
	if (!vm)
		return;
	threads = &vm->threads[v->setup.io & 1];
	obs.running = *(volatile u32 *)&v->on_cpu;
	/* The scheduler's boosts make no thread real-time: it charges quotas itself. While it comes and goes others do. */
	host = bpf_map_lookup_elem(&adoption, &zero);
	own = host ? ext_on & *(volatile u32 *)&host->own_boosts & 1 : 0;
	reserve = *(volatile u32 *)&v->setup.reserve & (own - 1);
	/* By arithmetic, as in pc_boost_step(). */
	refused = *(volatile u32 *)&v->setup.refused;
	obs.refused = ((refused | (u32)reserve_is_empty(reserve)) & ~own & 1) | (refused >> 1 & 1);
	if (events & PC_EV_WITH_VIEW)
		obs.guest = v->guest;
	if (!v->state.boosted && !obs.running && (events & (PC_EV_IRQ | PC_EV_PREEMPT)))
		obs.alone = is_alone(v);
	decision = pc_boost_step(&threads->config, &v->state, &threads->budget, &cpu->boosted, &obs, now);
	charge_reserve(reserve, decision.charged_ns);
	count(v, &decision);
	if (v->state.boosted && threads->config.mode == PC_MODE_ON)
		level = pc_boost_level(v->state.reasons);
	if (level != v->level) {
		*(volatile u32 *)&v->level = level;
		boost_changed(index, v, events);
	}

	/*
	 * Compare with what the daemon was told: a lost message repairs itself, so does a change of mode.
	 * A boost's level only rises, once at most: what a guest can cause stays in proportion to its boosts.
	 */
	if (level ? level <= v->actuated : !v->actuated)
		return;
	if (send_message(level ? PC_MSG_BOOST : PC_MSG_UNBOOST, index, v->tid, level, &decision, now))
		v->counters.actuations_dropped++;
	else
		v->actuated = level;
}

/*
 * Takes the lock and the pending events, if nobody else has them. Return: 1 if there
 * may be more. A global function, like evaluate(): verified once, not at each call.
 *
 * Without preemption: a kick comes from ordinary tasks too, and the vCPU that one of
 * them is about to wake could preempt it here, boosted, with nobody left to end that.
 */
__noinline int evaluate_pending(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	int more = 0;
	u32 events;

	if (!v)
		return 0;
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
	if (!__sync_val_compare_and_swap(&v->lock, 0, 1)) {
		events = __sync_lock_test_and_set(&v->pending, 0);
		if (events)
			step(index, v, events);
		/* Full barrier; pairs with the poster's fetch_or before its compare-and-swap. */
		__sync_lock_test_and_set(&v->lock, 0);
		more = *(volatile u32 *)&v->pending != 0;
	}
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_enable();
	return more;
}

__noinline int evaluate(u32 index, u32 events)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	int i;

	if (!v || v->life != PC_VCPU_READY)
		return 0;
	__sync_fetch_and_or(&v->pending, events);
	for (i = 0; i < PC_ROUNDS_MAX; i++)
		if (!evaluate_pending(index))
			return 0;
	return 0;
}

#endif
