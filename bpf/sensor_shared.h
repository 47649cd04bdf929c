/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the sensor's BPF programs and the daemon share. The arrays vcpus, vms and cpus are mmapable BPF arrays: the daemon
 * reads and writes them without a system call. The Rust types are generated from this header
 * (crates/policy/src/generated.rs, `make generate`).
 */
#ifndef PARACORD_SENSOR_SHARED_H
#define PARACORD_SENSOR_SHARED_H

#include "../policy/boost_types.h"
#include "../policy/perf_types.h"
#include "../policy/energy_types.h"
#include "../policy/quota_types.h"

#define PC_VCPUS_MAX	4096
#define PC_VMS_MAX	1024
#define PC_CPUS_MAX	4096	/* the loader shrinks the arrays to the possible CPUs */
#define PC_HIST_BUCKETS	32	/* bucket n: [2^n, 2^(n+1)) ns; bucket 0 also has 0 */

/* vcpu.life */
#define PC_VCPU_FREE	0
#define PC_VCPU_NEW	1	/* found by BPF, not set up by the daemon yet */
#define PC_VCPU_READY	2	/* set by the daemon: the policy runs */
#define PC_VCPU_GONE	3	/* the thread has exited; the daemon frees the index */

/* Written by BPF. Counters only grow. */
struct pc_vcpu_counters {
	u64 exits;
	u64 wakeups;		/* times the vCPU ran after a sleep */
	u64 irqs;		/* interrupts or kicks that were requested */
	u64 boosts[PC_REASONS];	/* a boost with two reasons counts in both */
	u64 unboosts;
	u64 forced;		/* unboosts because a grant or a budget ended */
	u64 throttles;		/* times a budget was exhausted */
	u64 boosted_ns;		/* running time while boosted */
	u64 running_ns;
	u64 guest_read_errors;	/* region page absent or slot out of range */
	u64 actuations_dropped;	/* ring buffer full; retried at the next event */
	u64 suppressed;		/* boosts that the actuation rate limit held back */
	u64 evaluations;	/* policy steps */
	u64 requests;		/* changes of the guest's request that were seen */
	u64 wakeup_latency[2][PC_HIST_BUCKETS]; /* wakeup to running: [0] unboosted, [1] boosted */
};

/* pc_vcpu_setup.refused */
#define PC_REFUSED_RT	1	/* a limit that does not bind a real-time thread: not boosted by rt */
#define PC_REFUSED_ALL	3	/* not boosted by ext either: for example in a group with cpu.idle */

/* Written by the daemon. */
struct pc_vcpu_setup {
	u32 vm;			/* index into vms */
	u32 hints_at_exit;	/* copy of the VM's configuration: saves an unboosted exit a lookup */
	u64 slot_hva;		/* address of the slot in the VMM; 0: no region */
	u32 guest_line_bytes;	/* as declared by the guest, checked */
	u32 guest_features;	/* accepted by the guest and offered */
	u32 guest_requests;	/* 1: the requests of the guest count */
	u32 refused;		/* PC_REFUSED_* of the cgroups above it: the vCPU is not boosted */
	u64 asked_hva;		/* address of paracord_pmu_guest.asked in the VMM; 0: the daemon serves no counters */
	u32 reserve;		/* index into reserves: what the CPU quotas above it leave; 0: no quotas */
	u32 io;			/* 1: not a vCPU, but another thread of the VMM that works for the VM */
};

/* Cgroups with a CPU quota above vCPUs; index 0 belongs to no group. */
#define PC_RESERVES_MAX		1024
/* Levels of such cgroups above one vCPU. */
#define PC_RESERVE_DEPTH_MAX	8

/* pc_vcpu.entered: whether a thread that was found as another VMM thread has run a vCPU since. */
#define PC_ENTERED_NO		0
#define PC_ENTERED_YES		1
#define PC_ENTERED_REFUSED	2	/* its user has as many vCPUs as allowed */

struct pc_vcpu {
	u32 life;		/* PC_VCPU_*: BPF sets NEW and GONE, the daemon READY and FREE */
	u32 tid;
	u32 tgid;
	u32 vcpu_id;		/* KVM vcpu_id; ~0: kernel without BTF for KVM */
	u64 start_ns;		/* start of the thread (boot time clock): detects a reused tid */
	u64 kvm_vcpu;		/* key of the lookup at kicks; 0: none */
	u64 task;		/* struct task_struct of the thread; 0: not known */
	u32 cpu;		/* last host CPU */
	u32 lock;		/* 1: an evaluator of this vCPU runs */
	u32 pending;		/* PC_EV_* that are posted and not yet evaluated */
	u32 on_cpu;
	u32 actuated;		/* PC_LEVEL_* that the daemon was told last */
	u32 asleep;		/* 1: it went to sleep and has not run since */
	u32 level;		/* PC_LEVEL_* that was decided; the scheduler acts on it */
	u32 asks;		/* perf_request of the guest and, from bit 16 on, perf_limit, as last read */
	u64 waited_before_ns;	/* time in run queues until it went to sleep (sched_info.run_delay) */
	u64 wakeup_ns;		/* first kick since it went to sleep; 0: none */
	u64 run_since_ns;
	u64 told_ns;		/* when the daemon was last told what the guest requests */
	u32 told_asks;		/* `asks` at that time; 0: no request */
	u32 asked;		/* number of the last batch for counters for which a worker was woken */
	u64 deaf_until_ns;	/* set by the daemon: no worker is woken before, the VM's budget for counters is used up */
	struct pc_guest_view guest;	/* last copy; written in the context of the vCPU thread */
	u64 preempt_count_hva;	/* preempt_count_gpa, translated; 0: none */
	u64 preempt_count_gpa;	/* the gpa that was translated last */
	u64 translate_ns;	/* time of the last translation */
	u32 uid;		/* user whose quota of records is charged; PC_UID_OTHERS */
	u32 charged;		/* 1: a record is charged to this user */
	u32 ran_boosted;	/* 1: under the scheduler, it was boosted at some time since it began to run */
	u32 entered;		/* PC_ENTERED_*: for a thread that was found as another VMM thread */
	struct pc_boost_state state;
	struct pc_vcpu_counters counters;
	struct pc_vcpu_setup setup;
};

/*
 * How many vCPU records a user other than root may take. A user holds what the sensor has charged to it (user_taken)
 * minus what the daemon has given back (user_returned). If there are many users, the daemon forgets those that hold
 * nothing (crates/sensor/src/users.rs).
 */
#define PC_USERS_MAX	4096	/* users that are told apart; later users share PC_UID_OTHERS */
#define PC_UID_OTHERS	0xffffffffu

struct pc_adoption {
	u32 per_user;		/* set by the daemon; 0: no limit */
	u32 own_boosts;		/* set by the daemon; 1: boosts take effect in the scheduler, and make no thread real-time */
	u64 refused;		/* threads whose user's quota was used up */
	u64 full;		/* threads for which no record was left */
};

/* Context of the program sensor_adopt. */
struct pc_adopt_call {
	u32 tid;
	u32 index;
	u32 found;		/* output: 0, 1 */
	u32 tgid;		/* process of the thread */
};

#define PC_VCPUS	0
#define PC_IO_THREADS	1

/* The threads of a VM that share a budget. */
struct pc_vm_threads {
	struct pc_boost_config config;	/* written by the daemon */
	struct pc_bucket budget;	/* written by BPF */
};

struct pc_vm {
	struct pc_vm_threads threads[2];	/* PC_VCPUS, PC_IO_THREADS: pc_vcpu_setup::io */
	u32 tgid;			/* written by the daemon; 0: free */
	u32 home;			/* home node, plus 1; 0: not known yet */
};

/* One per host CPU, on a cache line of its own. */
struct pc_cpu {
	struct pc_bucket boosted;	/* boosted time that the kept share of the CPU leaves */
	u32 running;			/* index + 1 of the running vCPU; 0: none */
	u32 reserved32;
	u64 reserved[5];
};

/*
 * Task storage: one per vCPU thread; under the scheduler (ext.bpf.c) one per task. Without the scheduler only `vcpu` is
 * used.
 */
#define PC_NO_INDEX	0xffffffffu
#define PC_NO_QUEUE	0xffffffffu

/* pc_task.at: CPU + 1, or for a PARKED task the index of its group; a state; a flag; the weight of the task there. */
#define PC_AT_WHERE		0xffffull
#define PC_AT_STATE_SHIFT	16
#define PC_AT_STATE		(7ull << 16)
#define PC_AT_READS		(1ull << 20)	/* preempted as an RCU reader */
#define PC_AT_WEIGHT_SHIFT	32
/* States (bpf/sched_state.h). */
#define PC_AT_NOWHERE		0
#define PC_AT_QUEUE		1
#define PC_AT_RELEASED		2
#define PC_AT_PARKED		3
#define PC_AT_LOCAL		4
#define PC_AT_RUN		5
#define PC_AT_LEAVE		6

/* pc_task.birth */
#define PC_BIRTH_NEW		1	/* the task has not been enqueued yet */
#define PC_BIRTH_CHILDLESS	2	/* the task has made no task since it was made */

struct pc_task {
	u32 vcpu;		/* index of the vCPU + 1; 0: not a vCPU; PC_NO_INDEX: none was free */
	u32 queue;		/* CPU to whose base vtime refers; PC_NO_QUEUE: new task */
	u64 vtime;		/* its virtual time while it does not run */
	u64 waits_ns;		/* runnable since then, wherever it was moved meanwhile; 0: it runs or sleeps */
	u32 inverse;		/* PC_INVERSE of its weight in its group */
	u32 group;		/* index; PC_GROUP_ROOT: not in a group */
	u32 counted;		/* its weight in the sum of its group; 0: not runnable */
	u8 known;		/* 1: load tracking has begun */
	u8 shares;		/* 1: its group has no record of its own, `group` is a group above */
	u16 children;		/* number of tasks it has made, wraps */
	u64 seen_ns;		/* when it was last accounted, on a clock that all CPUs share */
	struct pc_clamp own;	/* what the task itself may request */
	struct pc_clamp clamp;	/* within its group */
	struct pc_perf_task perf;
	u64 placed_ns;		/* when a better CPU was last looked for, while it ran or when it woke */
	u32 weight;		/* 2^32 / inverse: in 64ths */
	u8 sync;		/* 1: it wakes, and its waker is about to sleep */
	u8 reads;		/* 1: it was preempted as an RCU reader */
	u8 birth;		/* PC_BIRTH_* */
	u8 lazy;		/* 1: in a group with cpu.idle */
	u32 limited;		/* index of the group whose quota it uses; 0: none */
	u64 at;			/* where the task is: PC_AT_* */
	u32 generation;		/* generation of the group when the task entered it */
	u32 debit_ns;		/* running time that it waits for as a new task */
	u32 unused_ns;		/* the part of the most that it may owe that it has not run yet; 0: it is not new */
	u32 credit_ns;		/* unused_ns of its last child at the end of that child */
	u16 number;		/* its number among the children of its maker */
	u8 called;		/* 1: another task has called it, and it should run next */
	u8 reserved8;
	u32 last_child;		/* tid of the child that it made last; 0: none */
	s32 after_ns;		/* its running time since then; at most PC_FAIR_TICK_NS matters */
	u32 owed_ns;		/* what its maker ran from making this task to its own end; this task pays for it */
	u64 called_ns;		/* when it was called last */
	u64 stands_ns;		/* next on its CPU since then, kept from running by a task of another thread; 0: it is not */
};

/* Cgroups with the cpu controller. Cgroups beyond this number share the index of their parent. */
#define PC_GROUPS_MAX	8192
#define PC_GROUP_ROOT	0
/* Levels of cgroups that have records of their own. */
#define PC_GROUP_DEPTH_MAX	32

struct pc_group {
	s64 active;		/* sum of the weights of runnable tasks and active child groups */
	u64 factor;		/* pc_group_factor() as of factor_ns */
	u64 factor_ns;
	u32 weight;		/* cpu.weight */
	u32 parent;		/* index of the group above */
	u32 used;		/* 0: free */
	u8 idle;		/* cpu.idle, which replaces the weight */
	u8 lazy;		/* 1: the group or a group above has cpu.idle, as of factor_ns */
	u16 limited;		/* index of the nearest group, this one or above, with a quota, as of factor_ns; 0: none */
	struct pc_clamp own;	/* clamps of its tasks, as set */
	struct pc_clamp clamp;	/* within those of the groups above, as of factor_ns */
	u32 counted;		/* what the sum of its parent contains for it; 0: not active */
	u32 generation;		/* number of groups that have used this index */
};

/* Existing cgroups without a record of their own: their tasks count as tasks of the nearest group above that has one. */
struct pc_unrecorded {
	u32 full;		/* no record was left */
	u32 deep;		/* the group, or a group above, is too deep (PC_GROUP_DEPTH_MAX) */
};

/* pc_rq.features: mechanisms of the performance policy. The daemon sets them. */
#define PC_PERF_TRACK	(1u << 0)	/* utilisation of tasks and CPUs */
#define PC_PERF_REQUEST	(1u << 1)	/* frequencies are requested from the governor */
#define PC_PERF_CARRY	(1u << 2)	/* the level of a burst is carried over a sleep */
#define PC_PERF_CHARGE	(1u << 3)	/* a capped task is charged for the time that its work takes at its cap */
#define PC_PERF_SHARED	(1u << 4)	/* other CPUs share the frequency */
#define PC_PERF_PLACE	(1u << 5)	/* tasks are placed by energy */
#define PC_PERF_HOLD	(1u << 6)	/* a request falls only after a hold window */

/* pc_rq.runs: what runs on a CPU, as far as it belongs to the scheduler. */
#define PC_RUNS_NOTHING	0	/* idle, or a task of a higher class */
#define PC_RUNS_TASK	1
#define PC_RUNS_VCPU	2	/* plus the index of the vCPU */

/* pc_rq.turn */
#define PC_TURN_WHOLE	0	/* a slice */
#define PC_TURN_LEAST	1	/* the shortest one, because a task woke that is owed more */
#define PC_TURN_OWED	2	/* a moment, because the quota is used up or a boosted vCPU has called the task */

/*
 * pc_rq.tickless: 0: the CPU has a tick. PC_TICKLESS: the kernel stops the tick where it can (nohz_full).
 * PC_TICKLESS_TURNS: the same, and tasks take turns there.
 */
#define PC_TICKLESS		1
#define PC_TICKLESS_TURNS	2

/* pc_rq.calls: by a task of another CPU; by the task that runs here, which gives way whatever its level. */
#define PC_CALLS_ELSEWHERE	1
#define PC_CALLS_HERE		2

/* Rings of CPUs: the CPUs that share a last-level cache, the CPUs of a node, all CPUs. */
#define PC_NEAR_CACHE	0
#define PC_NEAR_NODE	1
#define PC_NEAR_ALL	2
#define PC_NEAR_LEVELS	3
/* Further nodes are one with the last node. If there are more caches, caches are not told apart. */
#define PC_NODES_MAX	64
#define PC_CACHES_MAX	512
#define PC_NO_CACHE	0xffffu
#define PC_NO_NODE	0xffffu

/* The place of a CPU in the topology. */
struct pc_near {
	u16 next[PC_NEAR_LEVELS];	/* next CPU in each ring; itself: the ring has no more CPUs than the one before */
	u16 within;		/* PC_NEAR_*: the widest ring within its node */
	u16 node;		/* PC_NO_NODE: the machine has one node */
	u16 cache;		/* PC_NO_CACHE: all CPUs of the node share one, or there are too many */
};

/* One per host CPU: the queue of the scheduler, and what runs. */
struct pc_rq {
	u64 base;		/* virtual time that the queue has reached */
	u64 cur_vtime;		/* of the running task, at cur_since_ns */
	u64 cur_since_ns;
	u32 cur_inverse;
	u32 runs;		/* PC_RUNS_* */
	s32 queued;		/* number of waiting tasks */
	u32 promotes;		/* 1: a task that waits here was boosted meanwhile */
	u32 expired;		/* 1: the running task gives way at the next tick */
	u32 slice_ns;		/* pc_fair_slice_ns(); set by the loader */
	u32 cur_cap;		/* clamp.max of the running task */
	u32 cur_speed;		/* 0..1024: capacity of the CPU at its frequency, if the running task is capped */
	u32 features;		/* PC_PERF_*; set by the daemon */
	u32 requested;		/* 0..1024: what was last requested of the CPU */
	struct pc_perf_cpu perf;
	u64 left;		/* runnable contributions that left for other CPUs; this CPU subtracts them */
	u64 removed;		/* parts of sleepers that woke elsewhere, in the unit of perf.sleeping */
	u64 search_ns;		/* when a search of the queue is due */
	u64 sum_ns;		/* when the sums of perf were last right, on a clock that all CPUs share */
	struct pc_near near;	/* set by the loader */
	u16 victim[PC_NEAR_LEVELS];	/* the CPU of each ring that is looked at next */
	u16 looks;		/* number of looks of balance() */
	u16 domain;		/* domain of the energy model; set by the daemon */
	u16 capacity;		/* 0..1024, at the highest frequency; set by the daemon */
	u16 offline;		/* 0/1 */
	u16 search;		/* 1: the queue has to be searched for tasks that have waited for too long */
	u16 direct;		/* 1: a task waits in the local DSQ (goes_direct()) */
	u16 asks;		/* 1: a request of the scheduler is in force at the governor */
	u16 turn;		/* PC_TURN_* of the running task */
	u16 tickless;		/* PC_TICKLESS_*; set by the loader and by this CPU */
	s32 readers;		/* how many of `queued` were preempted as RCU readers */
	u16 put_back;		/* PC_LEVEL_* of a vCPU that was put back boosted since a task began to run here */
	u16 aged;		/* 1: the next task has waited for too long */
	u32 calls;		/* PC_CALLS_*: a task that waits here was called */
	u64 pace;		/* policy/balance.h */
	u64 pace_ns;		/* time of `pace` */
	s64 waiting;		/* sum of the weights of waiting tasks */
	u64 balanced_ns;	/* when this CPU last looked for tasks of other CPUs */
	s64 portion_ns;		/* what is left of a portion of the quota of `paying` */
	u32 paying;		/* index of the group whose quota the running task uses; 0: none */
	u32 paying_generation;	/* pc_quota.generation */
	u64 until_ns;		/* when the turn of the running task is over, if another task waits */
	u64 timer_ns;		/* when the timer of this CPU checks that; 0: it is not set */
	u64 turn_vtime;		/* virtual time of the running task at the start of its turn; four cache lines */
};

/* Context of the program ext_clamp: what a task or cgroup may request. */
#define PC_CLAMP_TASK	1
#define PC_CLAMP_GROUP	2

struct pc_clamp_call {
	u32 kind;		/* PC_CLAMP_TASK, PC_CLAMP_GROUP */
	u32 set;		/* 0: only read */
	u64 id;			/* thread ID, or cgroup ID (inode number) */
	struct pc_clamp own;	/* input if `set`; output */
	struct pc_clamp clamp;	/* output: the clamps in force */
	u32 found;		/* output: 0, 1 */
	u32 reserved;
};

/* Clamps that a thread has requested from the kernel (ext_kernel_clamps). */
#define PC_CLAMP_UNSET	0xffffffffu

struct pc_kernel_clamp {
	u32 tid;
	u32 min;		/* PC_CLAMP_UNSET: the thread did not request this one */
	u32 max;
	u32 reserved;
};

/* Why the kernel has unloaded the scheduler. */
struct pc_ext_exit {
	u32 kind;		/* enum scx_exit_kind; 0: it is loaded, or never was */
	u32 reserved;
	s64 code;
	char reason[128];
	char message[1024];
};

/* Context of the program sensor_tick: which vCPUs to evaluate, and why. */
#define PC_TICK_MAX	16

struct pc_tick {
	u32 events;		/* PC_EV_TICK, PC_EV_CONFIG */
	u32 count;
	u32 index[PC_TICK_MAX];
};

/* Context of the program sensor_where: `vcpu` is input, the rest is output. */
#define PC_WHERE_MAX	16

struct pc_where_one {
	u32 vcpu;
	u32 cpu;		/* last host CPU */
	u32 frequency;		/* 1..1024 of the highest frequency of this CPU; 0: not known */
	u32 reserved;
	u64 waited_ns;		/* total time spent in run queues */
};

struct pc_where {
	u32 count;
	u32 reserved;
	struct pc_where_one of[PC_WHERE_MAX];
};

/* Ring buffer messages to the daemon. */
#define PC_MSG_NEW	1	/* a vCPU was seen for the first time */
#define PC_MSG_BOOST	2
#define PC_MSG_UNBOOST	3
#define PC_MSG_GONE	4
#define PC_MSG_EXT_GONE	5	/* the scheduler was unloaded: pc_ext_exit has the reason */
#define PC_MSG_ASKS	6	/* the request of a guest has changed, and paracord's scheduler does not act on it */

struct pc_msg {
	u32 kind;		/* PC_MSG_* */
	u32 vcpu;		/* index into vcpus */
	u32 tid;
	u8  reasons;
	u8  forced;
	u8  cause;		/* PC_THROTTLE_* */
	u8  level;		/* PC_LEVEL_* of a boost; a second BOOST of the same vCPU raises it */
	u64 now_ns;		/* time of the decision, CLOCK_MONOTONIC */
	u32 asks;		/* for PC_MSG_ASKS: as in pc_vcpu */
	u32 reserved;
};

#endif
