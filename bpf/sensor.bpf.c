// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor: watches the vCPU threads of all VMs, asks policy/boost.h what to
 * do with them, and tells the daemon. It changes nothing by itself.
 *
 *  program           hook                        for
 *  sensor_exit       raw_tp kvm_exit             finds vCPU threads; ends boosts
 *  sensor_switch     tp_btf sched_switch         SLEEP, PREEMPT, RUN, WAKEUP; latency
 *  sensor_kick(_new) fentry [__]kvm_vcpu_kick    IRQ, WAKEUP for a vCPU that does not run
 *  sensor_wake_up    fentry kvm_vcpu_wake_up     the same where the hardware posts interrupts
 *  sensor_gone       tp_btf sched_process_exit   GONE (or the last switch: note_end())
 *  sensor_tick       syscall                     the daemon's housekeeping
 *  sensor_where      syscall                     where vCPUs run (whereabouts.h)
 *  sensor_adopt      syscall                     threads of a VMM's own that work for its VM (adopt.h)
 *  overflow          perf_event                  counters of guests that overflow (bell.h)
 *
 * Cost. A task that is no vCPU has no BPF task storage: two loads at a context
 * switch. (One that lived while the scheduler was in force, which has gone since, keeps its own: a look-up more.)
 * Wakeups of the host are not watched: KVM kicks a vCPU to wake it. Which vCPU
 * runs on a CPU is noted there when it is switched in: an unboosted one pays two array
 * look-ups at a VM exit, one that serves a wakeup a look at the clock besides, and one whose guest's governor asks
 * for performance a read of four bytes of its line; so does one whose guest's counters the daemon serves (bell.h). Only the
 * other exits of a boosted vCPU, and the switches of any, reach the policy.
 *
 * kvm_exit is a plain raw tracepoint, and the vCPU is found through the thread's
 * preempt notifier: the tracepoint's arguments differ between kernels and
 * architectures (arm64's have no vCPU), this does not.
 */
#include "kernel_types.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "../abi/paracord_abi.h"
#include "../policy/boost.h"
#include "../policy/guest_view.h"
#include "../policy/perf.h"
#include "sensor_shared.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_VCPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_vcpu);
} vcpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_VMS_MAX);
	__type(key, u32);
	__type(value, struct pc_vm);
} vms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_RESERVES_MAX);
	__type(key, u32);
	__type(value, struct pc_reserve);
} reserves SEC(".maps");

/* Filled by the daemon. First in, first out: an index is reused as late as can be. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, PC_VCPUS_MAX);
	__type(value, u32);
} free_indices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_adoption);
} adoption SEC(".maps");

/* By user. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_USERS_MAX);
	__type(key, u32);
	__type(value, u32);
} user_taken SEC(".maps");

/* Written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_USERS_MAX);
	__type(key, u32);
	__type(value, u32);
} user_returned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_task);
} tasks SEC(".maps");

/* struct kvm_vcpu * to index, for kicks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_VCPUS_MAX);
	__type(key, u64);
	__type(value, u32);
} kvm_vcpus SEC(".maps");

/*
 * Index of the vCPU whose struct kvm_vcpu hashes to here, if its record agrees: spares
 * most kicks the look-up in kvm_vcpus.
 */
#define PC_KICK_HINT_BITS	8
u32 kick_hints[1 << PC_KICK_HINT_BITS];

/* Boosts are rare: one ring keeps the decisions of one vCPU in their order. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} messages SEC(".maps");

/* The vCPU that a task is; NULL: none. */
static __always_inline struct pc_vcpu *vcpu_of(const struct pc_task *t, u32 *index)
{
	if (!t || !t->vcpu || t->vcpu == PC_NO_INDEX)
		return NULL;
	*index = t->vcpu - 1;
	return bpf_map_lookup_elem(&vcpus, index);
}

#ifdef PC_EXT
u32 ext_on;	/* the scheduler is in force */
#include "../policy/energy.h"
#include "scx.h"
#include "sched_rq.h"
#include "sched_group.h"
#include "sched_state.h"
#include "sched_perf.h"
#include "sched_turn.h"
#include "sched_queue.h"
#include "sched_topology.h"
#include "sched_place.h"
#include "sched_boost.h"
#else
#define ext_on	0
#define is_in_scx(task)	false
static __always_inline void boost_changed(u32 index, struct pc_vcpu *v, u32 events) {}
#endif
#include "guest_line.h"
#include "reserve.h"
#include "evaluate.h"
#include "whereabouts.h"
#include "bell.h"
#include "adopt.h"

static __always_inline struct pc_vcpu *find_vcpu(struct task_struct *task, u32 *index)
{
	return vcpu_of(bpf_task_storage_get(&tasks, task, 0, 0), index);
}

/*
 * Without a scheduler of ours the daemon acts on what a guest asks for: it is told, seldom. A guest that may not ask any
 * more asks for nothing.
 */
static __noinline int tell_request(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	struct pc_msg *msg;
	u32 asks, told;
	u64 now;

	if (!v || ext_on)
		return 0;
	asks = v->setup.guest_requests ? v->asks : 0;
	told = v->told_asks;
	if (!pc_request_moved(told & 0xffff, asks & 0xffff) && !pc_request_moved(told >> 16, asks >> 16))
		return 0;
	now = bpf_ktime_get_ns();
	if (pc_elapsed_ns(now, v->told_ns) < PC_REQUEST_TELL_NS)
		return 0;
	msg = bpf_ringbuf_reserve(&messages, sizeof(*msg), 0);
	if (!msg)
		return 0;	/* told at a later exit */
	*msg = (struct pc_msg){ .kind = PC_MSG_ASKS, .vcpu = index, .tid = v->tid, .asks = asks, .now_ns = now };
	bpf_ringbuf_submit(msg, 0);
	v->told_asks = asks;
	v->told_ns = now;
	return 0;
}

/* Whether there is nothing to tell, at a glance. */
static __always_inline bool is_told(const struct pc_vcpu *v)
{
	return ext_on || v->told_asks == (v->setup.guest_requests ? v->asks : 0);
}

/* An exit that says nothing about boosts. */
static __always_inline int quiet_exit(struct pc_vcpu *v, u32 index)
{
	if (v->setup.guest_requests)
		read_request(v);
	return is_told(v) ? 0 : tell_request(index);
}

SEC("raw_tp/kvm_exit")
int sensor_exit(void *ctx)
{
	u32 index, cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	struct pc_vcpu *v;
	u64 now;

	if (!here)
		return 0;
	if (!here->running)
		return adopt_thread();
	index = here->running - 1;
	v = bpf_map_lookup_elem(&vcpus, &index);
	if (!v)
		return 0;
	v->counters.exits++;
	if (v->setup.io && v->entered == PC_ENTERED_NO)
		return become_vcpu(index);
	if (v->setup.asked_hva)
		ring_bell(index, cpu);
	if (!v->state.boosted && !v->setup.hints_at_exit)
		return quiet_exit(v, index);
	now = bpf_ktime_get_ns();
	if (!v->pending && pc_boost_is_quiet(&v->state, now))
		return quiet_exit(v, index);
	read_guest_line(v, now);
	if (!is_told(v))
		tell_request(index);
	return evaluate(index, PC_EV_EXIT);
}

/* The scheduler's own account of waiting: CONFIG_SCHED_INFO, and a way to its clock. */
static __always_inline bool has_waiting_account(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info) && bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(struct cfs_rq, rq);
}

/*
 * A thread ends: true if it had a record, once. Here after it has set PF_EXITING (sensor_adopt()).
 *
 * Usually its exit's tracepoint says so. Since 7.0 that can be preempted, and then the kernel does not run the program for
 * another thread that ends on this CPU (bpf_prog_get_recursion_context()): what remains is its last switch, which cannot be.
 */
static __noinline int note_end(struct task_struct *task)
{
	struct pc_task *t = bpf_task_storage_get(&tasks, task, 0, 0);
	struct pc_vcpu *v;
	u32 index;
	u64 key;

	index = t ? __sync_lock_test_and_set(&t->vcpu, 0) : 0;
	if (!index || index == PC_NO_INDEX)
		return 0;
	index--;
	v = bpf_map_lookup_elem(&vcpus, &index);
	if (!v)
		return 0;
	key = v->kvm_vcpu;
	if (key)
		bpf_map_delete_elem(&kvm_vcpus, &key);
	v->kvm_vcpu = 0;
	v->task = 0;
	*(volatile u32 *)&v->life = PC_VCPU_GONE;
	send_message(PC_MSG_GONE, index, v->tid, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns());
	return 1;
}

static __always_inline void switched_out(struct task_struct *task, struct pc_vcpu *v, u32 index,
					 bool runnable, u64 now)
{
	v->counters.running_ns += pc_elapsed_ns(now, v->run_since_ns);
	*(volatile u32 *)&v->on_cpu = 0;
	if (runnable) {
		if (pc_boost_wants_view(&v->state, now))
			read_guest_line(v, now);
		evaluate(index, PC_EV_PREEMPT);
		return;
	}
	if (task->__state & PC_TASK_DEAD) {
		note_end(task);
		return;
	}
	if (has_waiting_account(task))
		v->waited_before_ns = task->sched_info.run_delay;
	*(volatile u64 *)&v->wakeup_ns = 0;
	*(volatile u32 *)&v->asleep = 1;
	evaluate(index, PC_EV_SLEEP);
}

static __always_inline u32 latency_bucket(u64 ns)
{
	u32 bucket = 0;

	if (ns >> 32)
		return PC_HIST_BUCKETS - 1;
	if (ns >> 16) { ns >>= 16; bucket += 16; }
	if (ns >> 8) { ns >>= 8; bucket += 8; }
	if (ns >> 4) { ns >>= 4; bucket += 4; }
	if (ns >> 2) { ns >>= 2; bucket += 2; }
	if (ns >> 1)
		bucket += 1;
	return bucket;
}

/*
 * From wakeup to running, of a vCPU that is being switched in after it slept: since its kick. If
 * nobody kicked it (VMM, or a kernel without the probe), what the scheduler's account says. The tracepoint
 * comes before that is closed: run_delay has what the task waited on other CPUs' queues,
 * last_queued the time that it came to this one's. Its clock is not read again for a task
 * that preempts at once: such a wakeup counts as no time at all.
 */
static __always_inline void note_latency(struct pc_vcpu *v, struct task_struct *task, u64 now)
{
	u64 ns, kicked_ns = *(volatile u64 *)&v->wakeup_ns;
	u32 bucket;

	if (kicked_ns) {
		ns = pc_elapsed_ns(now, kicked_ns);
	} else if (has_waiting_account(task)) {
		ns = task->sched_info.run_delay - v->waited_before_ns;
		if (task->sched_info.last_queued)
			ns += pc_elapsed_ns(task->se.cfs_rq->rq->clock, task->sched_info.last_queued);
	} else {
		return;
	}
	bucket = latency_bucket(ns) & (PC_HIST_BUCKETS - 1);
	if (v->state.boosted)
		v->counters.wakeup_latency[1][bucket]++;
	else
		v->counters.wakeup_latency[0][bucket]++;
}

static __always_inline void switched_in(struct task_struct *task, struct pc_vcpu *v, struct pc_cpu *here,
					u32 index, u32 cpu, u64 now)
{
	u32 events = PC_EV_RUN;

	here->running = index + 1;
	v->cpu = cpu;
	v->run_since_ns = now;
	*(volatile u32 *)&v->on_cpu = 1;
	if (v->asleep) {
		*(volatile u32 *)&v->asleep = 0;
		v->counters.wakeups++;
		note_latency(v, task, now);
		/* It went to sleep without a boost (no budget), and nobody kicked it. */
		if (!v->state.boosted)
			events |= PC_EV_WAKEUP;
	}
	if (events != PC_EV_RUN || *(volatile u8 *)&v->state.boosted || *(volatile u32 *)&v->lock)
		evaluate(index, events);
}

/* A vCPU perhaps, whose switches the scheduler's operations (sched_ops.h) do not see. */
static __always_inline bool may_be_vcpu(const struct task_struct *task)
{
	return task->bpf_storage && !(ext_on && is_in_scx(task));
}

static __always_inline u32 running_vcpu(struct task_struct *task)
{
	u32 index;
	struct pc_vcpu *v = find_vcpu(task, &index);

	return v && v->on_cpu ? index + 1 : 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sensor_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct pc_cpu *here;
	struct pc_vcpu *v;
	u32 cpu, out, index;
	u64 now;

	if (!may_be_vcpu(prev) && !may_be_vcpu(next))
		return 0;
	cpu = bpf_get_smp_processor_id();
	here = bpf_map_lookup_elem(&cpus, &cpu);
	if (!here)
		return 0;
	now = bpf_ktime_get_ns();
	out = here->running;
	/* The next one may be noted already (ext_running). */
	if (ext_on)
		out = may_be_vcpu(prev) ? running_vcpu(prev) : 0;
	if (out) {
		if (here->running == out)
			here->running = 0;
		index = out - 1;
		v = bpf_map_lookup_elem(&vcpus, &index);
		if (v)
			switched_out(prev, v, index, preempt || !prev->__state, now);
	}
	if (may_be_vcpu(next)) {
		v = find_vcpu(next, &index);
		if (v)
			switched_in(next, v, here, index, cpu, now);
	}
	return 0;
}

static __always_inline int kicked(u64 kvm_vcpu)
{
	/* The verifier lets a pointer be hashed after another one was subtracted. */
	u64 key = kvm_vcpu - (u64)kick_hints;
	u32 slot = (key * 0x9e3779b97f4a7c15ull) >> (64 - PC_KICK_HINT_BITS);
	u32 *hint = &kick_hints[slot & ((1 << PC_KICK_HINT_BITS) - 1)];
	u32 *found, index = *(volatile u32 *)hint, events = PC_EV_IRQ;
	u64 now;
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);

	/* Two vCPUs in one slot, or none yet. The record of a dead one names no kvm_vcpu. */
	if (!v || v->kvm_vcpu != kvm_vcpu) {
		found = bpf_map_lookup_elem(&kvm_vcpus, &kvm_vcpu);
		if (!found)
			return 0;
		index = *found;
		v = bpf_map_lookup_elem(&vcpus, &index);
		if (!v)
			return 0;
		*(volatile u32 *)hint = index;
	}
	__sync_fetch_and_add(&v->counters.irqs, 1);
	now = bpf_ktime_get_ns();
	/* The caller wakes it next. */
	if (*(volatile u32 *)&v->asleep) {
		events |= PC_EV_WAKEUP;
		if (!*(volatile u64 *)&v->wakeup_ns)
			*(volatile u64 *)&v->wakeup_ns = now;
	}
	/* Boosted while it slept, the usual case, or serving a wakeup. */
	if (pc_boost_note_irq(&v->state, now))
		return 0;
	return evaluate(index, events);
}

/* One of the two is loaded: newer kernels made kvm_vcpu_kick() a wrapper. */
SEC("fentry/kvm_vcpu_kick")
int sensor_kick(u64 *ctx)
{
	return kicked(ctx[0]);
}

SEC("fentry/__kvm_vcpu_kick")
int sensor_kick_new(u64 *ctx)
{
	return kicked(ctx[0]);
}

/* APICv, AVIC: KVM kicks seldom, but it wakes a vCPU that does not run. kvm_vcpu_kick() ends here too. */
SEC("fentry/kvm_vcpu_wake_up")
int sensor_wake_up(u64 *ctx)
{
	return kicked(ctx[0]);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sensor_gone, struct task_struct *task)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);

	/* It is switched out once more, as no vCPU. */
	if (task->bpf_storage && note_end(task) && here)
		here->running = 0;
	return 0;
}

SEC("syscall")
int sensor_tick(struct pc_tick *tick)
{
	u32 i;

#pragma unroll
	for (i = 0; i < PC_TICK_MAX; i++)
		if (i < tick->count)
			evaluate(tick->index[i], tick->events & (PC_EV_TICK | PC_EV_CONFIG));
	return 0;
}
