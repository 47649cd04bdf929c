// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sensor observes the vCPU threads of all VMs, asks policy/boost.h what to do with them, and reports the decisions to the
 * daemon. The sensor itself changes no thread.
 *
 *  program           hook                        purpose
 *  sensor_exit       raw_tp kvm_exit             finds vCPU threads; ends boosts
 *  sensor_switch     tp_btf sched_switch         SLEEP, PREEMPT, RUN, WAKEUP; latency
 *  sensor_kick(_new) fentry [__]kvm_vcpu_kick    IRQ, and WAKEUP for a vCPU that sleeps
 *  sensor_wake_up    fentry kvm_vcpu_wake_up     the same, on hosts where the hardware posts interrupts
 *  sensor_gone       tp_btf sched_process_exit   GONE, unless it is sent at the last switch (retire())
 *  sensor_exec       tp_btf sched_process_exec   EXEC
 *  sensor_fork       tp_btf sched_process_fork   THREADS
 *  sensor_tick       syscall                     the daemon's housekeeping
 *  sensor_where      syscall                     where vCPUs run (whereabouts.h)
 *  sensor_adopt      syscall                     other threads of a VMM that work for its VM (adopt.h)
 *  sensor_announce_* raw_tp kvm_msr, kvm_hvc_arm64  regions in guests' own memory (announce.h)
 *  sensor_bell_*     raw_tp kvm_hypercall, kvm_hvc_arm64  counters of guests without a device (pmu_mail.h)
 *  overflow          perf_event                  overflows of guests' counters (bell.h)
 *
 * Cost at a context switch: for a task that is not a vCPU, the sensor needs two loads, because such a task has no BPF task
 * storage. After paracord's scheduler has been unloaded, each task still has the storage that it got from the scheduler, and
 * costs one more lookup. The sensor does not trace the host's wakeups. KVM kicks a vCPU to wake it, and the sensor traces the
 * kicks.
 *
 * Cost at a VM exit: when a vCPU is switched in, its index is stored in the record of the CPU. So an exit of an unboosted vCPU
 * costs two array lookups. An exit of a boosted vCPU that serves a wakeup also costs a read of the clock. Exits cost more in
 * these cases:
 * - The guest may make performance requests: the exit reads four bytes of the guest line.
 * - The daemon serves the guest's counters through a device: the exit reads four bytes of the device's region (bell.h).
 * - The guest has moved its guest line or its preempt_count: the exit translates the address again, at most ten times a second
 *   (translate.h).
 * - The content of a host line in the guest's own memory has changed, for example because a boost has begun or ended: the exit
 *   writes the line (host_line.h).
 * - The guest has just announced a region: the exit compares one performance domain in the region, and writes it if necessary
 *   (domain_table.h).
 *
 * The policy runs only at switches and kicks of vCPUs, at the daemon's ticks, and at exits of a boosted vCPU that does not serve
 * a wakeup. With hints_at_exit, it also runs at exits of an unboosted vCPU.
 *
 * sensor_exit does not use the arguments of kvm_exit, because they differ between kernels and architectures; on arm64, they do
 * not include the vCPU. Instead, sensor_exit finds the vCPU through the thread's preempt notifier, which is the same on all
 * kernels and architectures.
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

/*
 * Free indices of the array vcpus. The daemon fills this queue. The queue is FIFO, so that an index is reused as late as
 * possible.
 */
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

/* For each user: number of records that the sensor has charged to the user. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_USERS_MAX);
	__type(key, u32);
	__type(value, u32);
} user_taken SEC(".maps");

/* For each user: number of records that the daemon has returned. */
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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_VMS_MAX);
	__type(key, u32);
	__type(value, struct pc_announcement);
} announcements SEC(".maps");

/* Maps the struct kvm_vcpu * of a kicked vCPU to the index of the vCPU's record. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PC_VCPUS_MAX);
	__type(key, u64);
	__type(value, u32);
} kvm_vcpus SEC(".maps");

/*
 * Hints for kicks: each slot contains the index of a vCPU whose struct kvm_vcpu * hashes to this slot. A hint is used only if the
 * record at this index contains the struct kvm_vcpu * of the kicked vCPU. With the hints, most kicks need no lookup in kvm_vcpus.
 */
#define PC_KICK_HINT_BITS	8
u32 kick_hints[1 << PC_KICK_HINT_BITS];

/* Boosts are rare, so one ring buffer is enough. A single buffer also keeps the decisions about a vCPU in order. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
} messages SEC(".maps");

/* The vCPU record of a task; NULL: none. */
static __always_inline struct pc_vcpu *vcpu_of(const struct pc_task *t, u32 *index)
{
	if (!t || !t->vcpu || t->vcpu == PC_NO_INDEX)
		return NULL;
	*index = t->vcpu - 1;
	return bpf_map_lookup_elem(&vcpus, index);
}

#ifdef PC_EXT
u32 ext_on;	/* 1: paracord's scheduler is enabled */
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
#include "host_line.h"
#include "domain_table.h"
#include "reserve.h"
#include "evaluate.h"
#include "whereabouts.h"
#include "bell.h"
#include "adopt.h"
#include "announce.h"
#include "pmu_mail.h"

static __always_inline struct pc_vcpu *find_vcpu(struct task_struct *task, u32 *index)
{
	return vcpu_of(bpf_task_storage_get(&tasks, task, 0, 0), index);
}

/*
 * Reports a change of the guest's performance request to the daemon, at a limited rate. The daemon acts on requests only if
 * paracord's scheduler is not enabled. A guest that is no longer allowed to make requests counts as a guest without a request.
 * Return: 0.
 */
static __noinline int tell_request(u32 index)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	struct pc_msg msg;
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
	msg = (struct pc_msg){ .kind = PC_MSG_ASKS, .vcpu = index, .tid = v->tid, .asks = asks, .now_ns = now };
	if (send(&msg))
		return 0;	/* the daemon is told at a later exit */
	v->told_asks = asks;
	v->told_ns = now;
	return 0;
}

/* Whether the daemon knows the guest's current performance request, or need not know it. */
static __always_inline bool is_told(const struct pc_vcpu *v)
{
	return ext_on || v->told_asks == (v->setup.guest_requests ? v->asks : 0);
}

/* Whether an exit matters for boosts. */
static __always_inline bool matters(const struct pc_vcpu *v, u64 *now)
{
	if (!v->state.boosted && !v->setup.hints_at_exit)
		return false;
	*now = bpf_ktime_get_ns();
	return v->pending || !pc_boost_is_quiet(&v->state, *now);
}

/* Handles an exit: reads what the guest's line contains, and evaluates the policy if the exit matters for it. */
static __always_inline void look_at_boost(struct pc_vcpu *v, u32 index)
{
	bool evaluates;
	u64 now;

	evaluates = matters(v, &now);
	if (evaluates)
		read_guest_line(v, now);
	else if (v->setup.guest_requests)
		read_request(v);
	if (!is_told(v))
		tell_request(index);
	if (evaluates)
		evaluate(index, PC_EV_EXIT);
}

SEC("raw_tp/kvm_exit")
int sensor_exit(void *ctx)
{
	u32 index, cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	struct pc_vcpu *v;

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
	if (v->translate || v->line_gpa != v->setup.slot_gpa)
		translate(index);
	if (domain_is_due(v))
		write_domain(index);
	if (v->setup.asked_hva)
		ring_bell(index, cpu);
	look_at_boost(v, index);
	/* The line contains the result of this exit. */
	if (host_line_is_due(v))
		write_host_line(index);
	return 0;
}

/* Whether the kernel measures how long tasks wait (CONFIG_SCHED_INFO), and whether the clock of this measurement can be read. */
static __always_inline bool has_waiting_account(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info) && bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(struct cfs_rq, rq);
}

/*
 * Marks the record of a thread as gone, and tells the daemon why: PC_MSG_GONE or PC_MSG_EXEC. Return: 1 at the first call for a
 * thread that had a record; otherwise 0.
 *
 * A thread that calls execve(2) is no longer a vCPU. If it is not the thread group leader, it takes over the leader's ID, and its
 * former ID may soon belong to another thread. Only the message tells the daemon the new ID. If the message cannot be sent, this
 * function keeps the record. switched_out() calls this function again when it sees that the ID of the thread differs from the ID
 * in the record.
 *
 * For a thread that exits, this function is called after the thread has set PF_EXITING (sensor_adopt()).
 *
 * Usually the program at sched_process_exit calls this function. Since Linux 7.0, that program can be preempted. If another
 * thread exits on the same CPU in the meantime, the kernel does not run the program for the other thread
 * (bpf_prog_get_recursion_context()). In this case, the program at sched_switch calls this function at the last switch of the
 * other thread. The program at sched_switch cannot be preempted.
 */
static __noinline int retire(struct task_struct *task, u32 kind)
{
	struct pc_task *t = bpf_task_storage_get(&tasks, task, 0, 0);
	struct pc_vcpu *v;
	u32 index, tid, now_tid, *named;
	u64 key;
	int lost;

	index = t ? __sync_lock_test_and_set(&t->vcpu, 0) : 0;
	if (!index || index == PC_NO_INDEX)
		return 0;
	index--;
	v = bpf_map_lookup_elem(&vcpus, &index);
	if (!v)
		return 0;
	/*
	 * The compiler must not merge these two loads, because the verifier refuses a load whose pointer may be of two different
	 * types.
	 */
	tid = READ_ONCE(v->tid);
	now_tid = READ_ONCE(task->pid);
	if (kind == PC_MSG_EXEC)
		tid = now_tid;
	lost = send_message(kind, index, tid, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns());
	if (lost && kind == PC_MSG_EXEC) {
		__sync_lock_test_and_set(&t->vcpu, index + 1);
		return 0;
	}
	key = v->kvm_vcpu;
	named = key ? bpf_map_lookup_elem(&kvm_vcpus, &key) : NULL;
	/* At the last switch, KVM may already have freed the vCPU, and the vCPU of another VM may now have the same address. */
	if (named && *named == index)
		bpf_map_delete_elem(&kvm_vcpus, &key);
	v->kvm_vcpu = 0;
	v->task = 0;
	WRITE_ONCE(v->life, PC_VCPU_GONE);
	return 1;
}

static __always_inline void switched_out(struct task_struct *task, struct pc_vcpu *v, u32 index,
					 bool runnable, u64 now)
{
	v->counters.running_ns += pc_elapsed_ns(now, v->run_since_ns);
	WRITE_ONCE(v->on_cpu, 0);
	if (task->pid != (s32)v->tid) {
		retire(task, PC_MSG_EXEC);
		return;
	}
	if (runnable) {
		if (pc_boost_wants_view(&v->state, now))
			read_guest_line(v, now);
		evaluate(index, PC_EV_PREEMPT);
		return;
	}
	if (task->__state & PC_TASK_DEAD) {
		retire(task, PC_MSG_GONE);
		return;
	}
	if (has_waiting_account(task))
		v->waited_before_ns = task->sched_info.run_delay;
	WRITE_ONCE(v->wakeup_ns, 0);
	WRITE_ONCE(v->asleep, 1);
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
 * Counts the latency from wakeup to running. Called when a vCPU is switched in after it slept. The latency is measured from the
 * kick of the vCPU. If no kick was seen, because the VMM woke the vCPU or the kernel lacks the probed function, the latency is
 * taken from the kernel's account of waiting time.
 *
 * At the tracepoint sched_switch, the kernel has not updated this account for the current switch yet. run_delay contains only the
 * time for which the task waited on other CPUs, and last_queued is the time at which the task was queued on this CPU. If the task
 * preempts the running task at once, the kernel does not update the clock of the account between the wakeup and the switch, so
 * the latency counts as 0.
 */
static __always_inline void note_latency(struct pc_vcpu *v, struct task_struct *task, u64 now)
{
	u64 ns, kicked_ns = READ_ONCE(v->wakeup_ns);
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
	WRITE_ONCE(v->on_cpu, 1);
	if (v->asleep) {
		WRITE_ONCE(v->asleep, 0);
		v->counters.wakeups++;
		note_latency(v, task, now);
		/* A vCPU that is not boosted here had no budget when it went to sleep, and was not kicked while it slept. */
		if (!v->state.boosted)
			events |= PC_EV_WAKEUP;
	}
	if (events != PC_EV_RUN || READ_ONCE(v->state.boosted) || READ_ONCE(v->lock))
		evaluate(index, events);
}

/* Whether a task may be a vCPU whose switches are not already handled by paracord's scheduler (sched_ops.h). */
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
	/* ext_running may already have stored the next vCPU in here->running. */
	if (ext_on)
		out = may_be_vcpu(prev) ? running_vcpu(prev) : 0;
	if (out) {
		if (here->running == out)
			here->running = 0;
		index = out - 1;
		v = bpf_map_lookup_elem(&vcpus, &index);
		if (v)
			switched_out(prev, v, index, preempt || !prev->__state, now);
	} else if (prev->__state & PC_TASK_DEAD && may_be_vcpu(prev)) {
		/* The thread got its record after it was switched in. */
		retire(prev, PC_MSG_GONE);
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
	/* The verifier lets the program hash a pointer only after another pointer has been subtracted from it. */
	u64 key = kvm_vcpu - (u64)kick_hints;
	u32 slot = (key * 0x9e3779b97f4a7c15ull) >> (64 - PC_KICK_HINT_BITS);
	u32 *hint = &kick_hints[slot & ((1 << PC_KICK_HINT_BITS) - 1)];
	u32 *found, index = READ_ONCE(*hint), events = PC_EV_IRQ;
	u64 now;
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);

	/*
	 * The slot has no hint yet, or its hint names another vCPU or a vCPU that is gone. (The record of such a vCPU has no
	 * kvm_vcpu.)
	 */
	if (!v || v->kvm_vcpu != kvm_vcpu) {
		found = bpf_map_lookup_elem(&kvm_vcpus, &kvm_vcpu);
		if (!found)
			return 0;
		index = *found;
		v = bpf_map_lookup_elem(&vcpus, &index);
		if (!v)
			return 0;
		WRITE_ONCE(*hint, index);
	}
	__sync_fetch_and_add(&v->counters.irqs, 1);
	now = bpf_ktime_get_ns();
	/* The probed function wakes the vCPU after this program has run. */
	if (READ_ONCE(v->asleep)) {
		events |= PC_EV_WAKEUP;
		if (!READ_ONCE(v->wakeup_ns))
			WRITE_ONCE(v->wakeup_ns, now);
	}
	/* No evaluation is needed if the vCPU was boosted when it went to sleep (the usual case), or if it serves a wakeup. */
	if (pc_boost_note_irq(&v->state, now))
		return 0;
	return evaluate(index, events);
}

/* Only one of these two programs is loaded. In newer kernels, kvm_vcpu_kick() is a wrapper around __kvm_vcpu_kick(). */
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

/*
 * With APICv or AVIC, KVM rarely kicks a vCPU, but still wakes a vCPU that sleeps. kvm_vcpu_kick() also calls kvm_vcpu_wake_up(),
 * so one kick may run both programs, and then counts twice in `irqs`.
 */
SEC("fentry/kvm_vcpu_wake_up")
int sensor_wake_up(u64 *ctx)
{
	return kicked(ctx[0]);
}

/* Called when the current thread stops being a vCPU. `kind`: the reason (PC_MSG_GONE or PC_MSG_EXEC). Return: 0. */
static __noinline int leaves(struct task_struct *task, u32 kind)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);

	if (!task->bpf_storage)
		return 0;
	preempt_off();
	/* The thread will be switched out once more, but not as a vCPU. */
	if (retire(task, kind) && here) {
		here->running = 0;
#ifdef PC_EXT
		runs_as_task(cpu);
#endif
	}
	preempt_on();
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sensor_gone, struct task_struct *task)
{
	return leaves(task, PC_MSG_GONE);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sensor_exec, struct task_struct *task)
{
	return leaves(task, PC_MSG_EXEC);
}

/*
 * Tells the daemon that a VMM has a new thread. QEMU makes the workers that read its disks when it needs them, and these workers
 * end when they have been idle for ten seconds. The kernel has added `child` to its process before this tracepoint. The daemon
 * clears pc_vm.new_threads before it reads the list of threads, so it sees `child`, or gets another message.
 */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sensor_fork, struct task_struct *parent, struct task_struct *child)
{
	struct pc_vcpu *v;
	struct pc_vm *vm;
	u32 index, of_vm;

	if (!parent->bpf_storage || child->tgid != parent->tgid)
		return 0;
	v = find_vcpu(parent, &index);
	if (!v || READ_ONCE(v->life) != PC_VCPU_READY)
		return 0;
	of_vm = v->setup.vm;
	vm = bpf_map_lookup_elem(&vms, &of_vm);
	if (!vm || vm->tgid != v->tgid || __sync_lock_test_and_set(&vm->new_threads, 1))
		return 0;
	if (send_message(PC_MSG_THREADS, index, v->tid, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns()))
		WRITE_ONCE(vm->new_threads, 0);
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
