/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Evaluates the events of the vCPUs. Each vCPU has at most one evaluator at a time. Code that posts an event never waits for an
 * evaluator: it sets the event in the vCPU's `pending`, and tries to take the vCPU's `lock`. If another evaluator holds the lock,
 * the code returns, because that evaluator checks `pending` again after it has released the lock. So the policy steps of a vCPU
 * are serialized, and the messages about the vCPU are in order.
 *
 * Tolerated races:
 * - An evaluator does at most PC_ROUNDS_MAX rounds. Events that are still pending after the last round wait for the next event of
 *   this vCPU. If the vCPU runs, the next event is a VM exit, which comes within one host tick.
 * - On kernels before 6.10, an evaluator can be preempted. The events of the vCPU then wait until the evaluator runs again. In
 *   the worst case, the evaluator runs in an ordinary task that the vCPU itself has preempted. The events then wait for about a
 *   second, until that task gets the CPU time that the kernel reserves for ordinary tasks.
 * - No RUN event is posted for an unboosted vCPU. If another CPU boosts a vCPU while that vCPU is being switched in, charging
 *   starts only at that vCPU's next exit.
 */
#ifndef PARACORD_BPF_EVALUATE_H
#define PARACORD_BPF_EVALUATE_H

#define PC_ROUNDS_MAX	4
/* The code that posts one of these events has just refreshed v->guest. */
#define PC_EV_WITH_VIEW	(PC_EV_EXIT | PC_EV_PREEMPT)

/* These functions have existed since Linux 6.10. On older kernels, preemption stays enabled. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline void preempt_off(void)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void preempt_on(void)
{
	if (bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_enable();
}

/*
 * Sends a message to the daemon. Return: 0, or -1 if the ring buffer is full. Preemption is disabled, because the reader of the
 * ring buffer stops at a message that is reserved but not submitted. If a boosted vCPU preempted the sender between the reservation
 * and the submission, the daemon could not read the message that ends the boost, and the vCPU would stay boosted until the sender
 * runs again.
 */
static __always_inline int send(const struct pc_msg *what)
{
	struct pc_msg *msg;
	int err = -1;

	preempt_off();
	msg = bpf_ringbuf_reserve(&messages, sizeof(*msg), 0);
	if (msg) {
		*msg = *what;
		bpf_ringbuf_submit(msg, 0);
		err = 0;
	}
	preempt_on();
	return err;
}

static __always_inline int send_message(u32 kind, u32 index, u32 tid, u32 level,
					const struct pc_boost_decision *decision, u64 now)
{
	struct pc_msg msg = { .kind = kind, .vcpu = index, .tid = tid, .level = (u8)level, .now_ns = now };

	if (decision) {
		msg.reasons = decision->reasons;
		msg.forced = decision->forced;
		msg.cause = decision->cause;
	}
	return send(&msg);
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
 * Whether the vCPU is the only normal task that waits for its CPU or runs on it. If so, all tasks ahead of the vCPU are
 * real-time. Always false under paracord's scheduler, where a boost costs nothing.
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

/* Whether execve(2) has changed the ID of the vCPU's thread. The former ID may already belong to another thread. */
static __always_inline bool has_another_tid(const struct pc_vcpu *v)
{
	struct task_struct *task = (void *)v->task;

	return task && BPF_CORE_READ(task, pid) != (s32)v->tid;
}

/*
 * Whether the daemon need not know a boost. Under paracord's scheduler (`own`), a boost takes effect without the daemon. The daemon
 * then uses messages about a vCPU only to write the vCPU's host line in the region of a device. A vCPU without such a line sends
 * none, because all messages go through one ring buffer, and each of them wakes the daemon. If the daemon knows of a boost, it is
 * also told of its end.
 */
static __always_inline bool needs_no_message(const struct pc_vcpu *v, u32 own)
{
	return own && !v->setup.slot_hva && (v->unreported || !v->actuated);
}

/* Notes a boost of which the daemon is not told, or the end of such a boost. */
static __always_inline void keep_unreported(struct pc_vcpu *v, struct pc_cpu *cpu, u32 level)
{
	if (level && !v->unreported)
		__sync_fetch_and_add(&cpu->boosts, 1);
	else if (!level && v->unreported)
		__sync_fetch_and_add(&cpu->unboosts, 1);
	v->actuated = level;
	WRITE_ONCE(v->unreported, level != PC_LEVEL_NONE);
}

static __always_inline void step(u32 index, struct pc_vcpu *v, u32 events)
{
	struct pc_boost_obs obs = { .events = events };
	struct pc_boost_decision decision;
	struct pc_vm *vm;
	struct pc_vm_threads *threads;
	struct pc_cpu *cpu;
	u32 vm_index, cpu_index, reserve, refused, own, was, zero = 0, level = PC_LEVEL_NONE;
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
	obs.running = READ_ONCE(v->on_cpu);
	/*
	 * `own` is 1 if paracord's scheduler applies the boosts. The scheduler makes no thread real-time, and charges quotas
	 * itself. The scheduler applies boosts only if both `ext_on` and `own_boosts` are set. While the scheduler is being
	 * attached or detached, one of these two flags is 0, and boosted threads are real-time.
	 */
	host = bpf_map_lookup_elem(&adoption, &zero);
	own = host ? ext_on & READ_ONCE(host->own_boosts) & 1 : 0;
	reserve = READ_ONCE(v->setup.reserve) & (own - 1);
	/*
	 * Use arithmetic instead of branches, as in pc_boost_step(), because the verifier would follow both sides of each branch.
	 */
	refused = READ_ONCE(v->setup.refused);
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
	was = v->level;
	if (level != was) {
		WRITE_ONCE(v->level, level);
		boost_changed(index, v, events);
	}
	if (level != was || decision.throttled)
		host_line_changes(v, level && !was);

	if (needs_no_message(v, own))
		return keep_unreported(v, cpu, level);
	/* The scheduler goes, or the vCPU has got a host line: from now on, the daemon is told of the boost. */
	if (v->unreported)
		keep_unreported(v, cpu, PC_LEVEL_NONE);
	/*
	 * Compare the level with the level that was last reported to the daemon. So if a message was lost, or if a change of the
	 * mode requires a message, the message is sent at the next event. During a boost, the reported level can only rise, and
	 * only once. So the number of messages that a guest can cause is proportional to the number of its boosts.
	 */
	if (level ? level <= v->actuated || has_another_tid(v) : !v->actuated)
		return;
	if (send_message(level ? PC_MSG_BOOST : PC_MSG_UNBOOST, index, v->tid, level, &decision, now))
		v->counters.actuations_dropped++;
	else
		v->actuated = level;
}

/*
 * Handles the pending events of a vCPU, unless another evaluator has the lock. Return: 1 if there may be more events; otherwise
 * 0. This function is global, like evaluate(), so that the verifier checks it only once and not at each call.
 *
 * Preemption must be disabled while the lock is held. The evaluator may run in an ordinary task that kicks the vCPU. If the woken
 * vCPU preempted this task while the task holds the lock, the vCPU would run boosted, and no evaluator could end its boost.
 */
__noinline int evaluate_pending(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	int more = 0;
	u32 events;

	if (!v)
		return 0;
	preempt_off();
	if (!__sync_val_compare_and_swap(&v->lock, 0, 1)) {
		events = __sync_lock_test_and_set(&v->pending, 0);
		if (events)
			step(index, v, events);
		/*
		 * This exchange is a full barrier between the release of the lock and the read of `pending`. It pairs with
		 * evaluate(), where the fetch_or on `pending` comes before the compare-and-swap on `lock`.
		 */
		__sync_lock_test_and_set(&v->lock, 0);
		more = READ_ONCE(v->pending) != 0;
	}
	preempt_on();
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
