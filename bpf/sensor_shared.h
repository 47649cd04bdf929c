/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the sensor's BPF programs and the daemon share. The arrays vcpus, vms
 * and cpus are mmap-able BPF arrays, so the daemon reads and writes them
 * without a system call. The Rust types are generated from this header
 * (crates/policy/src/bindings.rs, `make generate`).
 */
#ifndef PARACORD_SENSOR_SHARED_H
#define PARACORD_SENSOR_SHARED_H

#include "../policy/boost_types.h"
#include "../policy/perf_types.h"
#include "../policy/energy_types.h"
#include "../policy/quota_types.h"

#define PC_VCPUS_MAX	4096
#define PC_VMS_MAX	1024
#define PC_CPUS_MAX	4096	/* the loader shrinks the array to the CPUs that can exist */
#define PC_HIST_BUCKETS	32	/* bucket n: [2^n, 2^(n+1)) ns; 0 also takes 0 */

/* vcpu.life */
#define PC_VCPU_FREE	0
#define PC_VCPU_NEW	1	/* seen by BPF, the daemon has not set it up yet */
#define PC_VCPU_READY	2	/* set by the daemon: policy runs */
#define PC_VCPU_GONE	3	/* thread exited; the daemon frees the index */

/* Written by BPF. Counters only grow. */
struct pc_vcpu_counters {
	u64 exits;
	u64 wakeups;		/* times that it ran after a sleep */
	u64 irqs;		/* interrupts or kicks wanted */
	u64 boosts[PC_REASONS];	/* a boost with two reasons counts in both */
	u64 unboosts;
	u64 forced;		/* unboosts by a grant's or budget's end */
	u64 throttles;		/* budget exhaustions */
	u64 boosted_ns;		/* running time under boost */
	u64 running_ns;
	u64 guest_read_errors;	/* region page absent or slot out of range */
	u64 actuations_dropped;	/* ring buffer full; retried at the next event */
	u64 suppressed;		/* boosts held back by the actuation rate limit */
	u64 evaluations;	/* policy steps */
	u64 requests;		/* changes of what the guest asks for that were seen */
	u64 wakeup_latency[2][PC_HIST_BUCKETS]; /* wakeup to running: [0] unboosted, [1] boosted */
};

/* pc_vcpu_setup.refused */
#define PC_REFUSED_RT	1	/* a limit that a real-time thread gets past: not by rt */
#define PC_REFUSED_ALL	3	/* they run when nothing else wants to: not by ext either */

/* Written by the daemon. */
struct pc_vcpu_setup {
	u32 vm;			/* index into vms */
	u32 hints_at_exit;	/* copy of the VM's configuration: spares the unboosted exit a look-up */
	u64 slot_hva;		/* address of the slot in the VMM; 0: no region */
	u32 guest_line_bytes;	/* as the guest declared, checked */
	u32 guest_features;	/* accepted and offered */
	u32 guest_requests;	/* 1: the guest's requests count */
	u32 refused;		/* PC_REFUSED_* of the control groups above it: it is not boosted */
	u64 asked_hva;		/* of paracord_pmu_guest.asked in the VMM; 0: the daemon serves no counters */
	u32 reserve;		/* index into reserves: what the CPU quotas above it leave; 0: there are none */
	u32 io;			/* 1: no vCPU, but a thread of the VMM's own that works for the VM */
};

/* Control groups with a CPU quota above vCPUs; index 0 is nobody's. */
#define PC_RESERVES_MAX		1024
/* Levels of them above one vCPU. */
#define PC_RESERVE_DEPTH_MAX	8

/* pc_vcpu.entered: whether it has run a vCPU since. */
#define PC_ENTERED_NO		0
#define PC_ENTERED_YES		1
#define PC_ENTERED_REFUSED	2	/* its user has as many vCPUs as a user may have */

struct pc_vcpu {
	u32 life;		/* PC_VCPU_*: BPF sets NEW and GONE, daemon READY and FREE */
	u32 tid;
	u32 tgid;
	u32 vcpu_id;		/* KVM vcpu_id; ~0: kernel without BTF for KVM */
	u64 start_ns;		/* thread start (boot time clock): tells a reused tid */
	u64 kvm_vcpu;		/* key of the kick look-up; 0: none */
	u64 task;		/* its struct task_struct; 0: not known */
	u32 cpu;		/* last host CPU */
	u32 lock;		/* evaluator of this vCPU; 0: free */
	u32 pending;		/* PC_EV_* posted and not yet evaluated */
	u32 on_cpu;
	u32 actuated;		/* PC_LEVEL_* that the daemon was last told */
	u32 asleep;		/* went to sleep and has not run since */
	u32 level;		/* PC_LEVEL_* decided; what the scheduler acts on */
	u32 asks;		/* the guest's perf_request and, from bit 16 on, perf_limit, as last read */
	u64 waited_before_ns;	/* time in run queues until it went to sleep (sched_info.run_delay) */
	u64 wakeup_ns;		/* first kick since it went to sleep; 0: none */
	u64 run_since_ns;
	u64 told_ns;		/* when the daemon was last told what the guest asks for */
	u32 told_asks;		/* `asks` then; 0: nothing */
	u32 asked;		/* number of the last batch for counters that a worker was woken for */
	u64 deaf_until_ns;	/* daemon: no worker is woken before, as the VM's budget for counters is used up */
	struct pc_guest_view guest;	/* last copy; written in the vCPU's own context */
	u64 preempt_count_hva;	/* translated preempt_count_gpa; 0: none */
	u64 preempt_count_gpa;	/* the gpa that was translated */
	u64 translate_ns;	/* last translation */
	u32 uid;		/* whose quota of records it takes; PC_UID_OTHERS */
	u32 charged;		/* 1: it takes one */
	u32 ran_boosted;	/* 1: under the scheduler, it was boosted at some time since it began to run */
	u32 entered;		/* PC_ENTERED_*: of one that was found as a thread of the VMM's own */
	struct pc_boost_state state;
	struct pc_vcpu_counters counters;
	struct pc_vcpu_setup setup;
};

/*
 * How many records of vCPUs a user other than root may take. What a user holds is what the sensor has charged it for
 * (user_taken) less what the daemon has given back (user_returned). The daemon forgets users who hold nothing when there
 * are many (crates/sensor/src/users.rs).
 */
#define PC_USERS_MAX	4096	/* users that are told apart; those that come later share PC_UID_OTHERS */
#define PC_UID_OTHERS	0xffffffffu

struct pc_adoption {
	u32 per_user;		/* daemon; 0: no limit */
	u32 own_boosts;		/* daemon; 1: boosts take effect in the scheduler, and make no thread real-time */
	u64 refused;		/* threads that found their user's quota used up */
	u64 full;		/* ... that found no record left */
};

/* Context of the program sensor_adopt. */
struct pc_adopt_call {
	u32 tid;
	u32 index;
	u32 found;		/* out: 0, 1 */
	u32 tgid;		/* its process */
};

#define PC_VCPUS	0
#define PC_IO_THREADS	1

/* Threads of a VM that share a budget. */
struct pc_vm_threads {
	struct pc_boost_config config;	/* daemon */
	struct pc_bucket budget;	/* BPF */
};

struct pc_vm {
	struct pc_vm_threads threads[2];	/* PC_VCPUS, PC_IO_THREADS: pc_vcpu_setup::io */
	u32 tgid;			/* daemon; 0: free */
	u32 home;			/* node where it is at home, plus 1; 0: not known yet */
};

/* One per host CPU, on a cache line of its own. */
struct pc_cpu {
	struct pc_bucket boosted;	/* boosted time that the kept share leaves */
	u32 running;			/* index + 1 of the vCPU that runs on it; 0: none */
	u32 reserved32;
	u64 reserved[5];
};

/*
 * One per thread that is a vCPU; under the scheduler (ext.bpf.c) one per task. Task
 * storage. Only `vcpu` is used without the scheduler.
 */
#define PC_NO_INDEX	0xffffffffu
#define PC_NO_QUEUE	0xffffffffu

/* pc_task.at: CPU + 1, or of a task that is PARKED the index of its group; a state; a flag; the weight that it has there. */
#define PC_AT_WHERE		0xffffull
#define PC_AT_STATE_SHIFT	16
#define PC_AT_STATE		(7ull << 16)
#define PC_AT_READS		(1ull << 20)	/* it was preempted while it read under RCU */
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
#define PC_BIRTH_NEW		1	/* it has not been enqueued yet */
#define PC_BIRTH_CHILDLESS	2	/* it has made no task since it was made */

struct pc_task {
	u32 vcpu;		/* index + 1; 0: no vCPU; PC_NO_INDEX: none was free */
	u32 queue;		/* CPU whose base vtime belongs to; PC_NO_QUEUE: new */
	u64 vtime;		/* of one that does not run */
	u64 waits_ns;		/* wants to run since then, wherever it was moved meanwhile; 0: it runs or sleeps */
	u32 inverse;		/* PC_INVERSE of its weight in its group */
	u32 group;		/* index; PC_GROUP_ROOT: in no group */
	u32 counted;		/* weight that it has in its group's sum; 0: not runnable */
	u8 known;		/* 1: load tracking has begun */
	u8 shares;		/* 1: its group has no record of its own, `group` is one above */
	u16 children;		/* that it has made, wraps */
	u64 seen_ns;		/* last accounted, by a clock that all CPUs share */
	struct pc_clamp own;	/* what it may ask for by itself */
	struct pc_clamp clamp;	/* in its group */
	struct pc_perf_task perf;
	u64 placed_ns;		/* when it was last looked for a better CPU, while it ran or as it woke */
	u32 weight;		/* 2^32 / inverse: 64ths */
	u8 sync;		/* 1: it wakes, and who wakes it is about to sleep */
	u8 reads;		/* 1: it was preempted while it read under RCU */
	u8 birth;		/* PC_BIRTH_* */
	u8 lazy;		/* 1: in a group with cpu.idle */
	u32 limited;		/* index of the group whose quota it uses; 0: none */
	u64 at;			/* where it is: PC_AT_* */
	u32 generation;		/* the group's, as it entered it */
	u32 debit_ns;		/* running time that it waits for as a new task */
	u32 unused_ns;		/* of the most that it may owe, what it has not run yet; 0: it is not new */
	u32 credit_ns;		/* the same of its last child, as that one ended */
	u16 number;		/* which of its maker's children it is */
	u8 called;		/* 1: another one has called it, and it is to run next */
	u8 reserved8;
	u32 last_child;		/* thread that it made last; 0: none */
	s32 after_ns;		/* running time since then; no more than PC_FAIR_TICK_NS matters */
	u32 owed_ns;		/* what its maker ran after it made this one and until it ended, to be paid for */
	u64 called_ns;		/* when it was called last */
	u64 stands_ns;		/* next on its CPU since then, and kept from running by another thread's task; 0: it is not */
};

/* Control groups with the cpu controller; more share their parent's index. */
#define PC_GROUPS_MAX	8192
#define PC_GROUP_ROOT	0
/* Levels of groups that have records of their own. */
#define PC_GROUP_DEPTH_MAX	32

struct pc_group {
	s64 active;		/* sum of the weights of runnable tasks and of groups that have some */
	u64 factor;		/* pc_group_factor() as of factor_ns */
	u64 factor_ns;
	u32 weight;		/* cpu.weight */
	u32 parent;		/* index */
	u32 used;		/* 0: free */
	u8 idle;		/* cpu.idle, which takes the place of its weight */
	u8 lazy;		/* 1: it or one above has cpu.idle, as of factor_ns */
	u16 limited;		/* index of the nearest group at or above that has a quota, as of factor_ns; 0: none */
	struct pc_clamp own;	/* of its tasks, as set */
	struct pc_clamp clamp;	/* under its parents', as of factor_ns */
	u32 counted;		/* what its parent's sum has of it; 0: it is not active */
	u32 generation;		/* of those that have had this index */
};

/* Control groups, there now, that have no record of their own: their tasks count as those of the next group above. */
struct pc_unrecorded {
	u32 full;		/* no record was left */
	u32 deep;		/* they, or one above, lie too deep (PC_GROUP_DEPTH_MAX) */
};

/* pc_rq.features: mechanisms of the performance policy; the daemon sets them. */
#define PC_PERF_TRACK	(1u << 0)	/* utilisation of tasks and CPUs */
#define PC_PERF_REQUEST	(1u << 1)	/* the governor is asked for frequencies */
#define PC_PERF_CARRY	(1u << 2)	/* a burst's level is carried over a sleep */
#define PC_PERF_CHARGE	(1u << 3)	/* capped tasks pay in time */
#define PC_PERF_SHARED	(1u << 4)	/* other CPUs have the same frequency */
#define PC_PERF_PLACE	(1u << 5)	/* tasks are placed by energy */
#define PC_PERF_HOLD	(1u << 6)	/* a request falls only after a window */

/* pc_rq.runs: what runs on a CPU, as far as it is the scheduler's. */
#define PC_RUNS_NOTHING	0	/* idle, or a task of a higher class */
#define PC_RUNS_TASK	1
#define PC_RUNS_VCPU	2	/* plus its index */

/* pc_rq.turn */
#define PC_TURN_WHOLE	0	/* a slice */
#define PC_TURN_LEAST	1	/* the least, as somebody woke who is owed more */
#define PC_TURN_OWED	2	/* a moment, as its quota is used up, or as a boosted vCPU has called it */

/* pc_rq.tickless: 0: the CPU has a tick; the kernel stops it where it can (nohz_full); the same, and tasks take turns there. */
#define PC_TICKLESS		1
#define PC_TICKLESS_TURNS	2

/* pc_rq.calls: by a task of another CPU; by the one that runs here, which gives way whatever its level. */
#define PC_CALLS_ELSEWHERE	1
#define PC_CALLS_HERE		2

/* Rings of CPUs: those that share a last cache, a node, all. */
#define PC_NEAR_CACHE	0
#define PC_NEAR_NODE	1
#define PC_NEAR_ALL	2
#define PC_NEAR_LEVELS	3
/* Beyond that, a node is one with the last one, and caches are not told apart. */
#define PC_NODES_MAX	64
#define PC_CACHES_MAX	512
#define PC_NO_CACHE	0xffffu
#define PC_NO_NODE	0xffffu

/* A CPU's place in the machine. */
struct pc_near {
	u16 next[PC_NEAR_LEVELS];	/* its successor in each ring; itself: the ring has no more CPUs than the one before */
	u16 within;		/* PC_NEAR_*: the widest ring within its node */
	u16 node;		/* PC_NO_NODE: the machine has one */
	u16 cache;		/* PC_NO_CACHE: all CPUs of the node share it */
};

/* One per host CPU: the scheduler's queue and what runs. */
struct pc_rq {
	u64 base;		/* virtual time that the queue has reached */
	u64 cur_vtime;		/* of the task that runs, at cur_since_ns */
	u64 cur_since_ns;
	u32 cur_inverse;
	u32 runs;		/* PC_RUNS_* */
	s32 queued;		/* tasks that wait */
	u32 promotes;		/* 1: somebody who waits here was boosted meanwhile */
	u32 expired;		/* 1: the task that runs gives way at the next tick */
	u32 slice_ns;		/* pc_fair_slice_ns(); loader */
	u32 cur_cap;		/* clamp.max of the task that runs */
	u32 cur_speed;		/* 0..1024: the CPU's capacity at its frequency, if that task is capped */
	u32 features;		/* PC_PERF_*; daemon */
	u32 requested;		/* 0..1024: what the CPU was last asked for */
	struct pc_perf_cpu perf;
	u64 left;		/* runnable contributions that left for other CPUs; taken off by this one */
	u64 removed;		/* sleepers' parts that woke elsewhere, as perf.sleeping counts them */
	u64 search_ns;		/* when a search of the queue is due */
	u64 sum_ns;		/* when perf's sums were last right, by a clock that all CPUs share */
	struct pc_near near;	/* loader */
	u16 victim[PC_NEAR_LEVELS];	/* the next CPU of each ring that is looked at */
	u16 looks;		/* of balance(), counted */
	u16 domain;		/* of the energy model; daemon */
	u16 capacity;		/* 0..1024, at the highest frequency; daemon */
	u16 offline;		/* 0/1 */
	u16 search;		/* 1: its queue is to be searched for somebody who waited too long */
	u16 direct;		/* 1: a task waits in the local queue (goes_direct()) */
	u16 asks;		/* 1: a request of ours is in force at the governor */
	u16 turn;		/* PC_TURN_*: of the task that runs */
	u16 tickless;		/* PC_TICKLESS_*; loader, and this CPU */
	s32 readers;		/* of `queued`, those that were preempted while they read under RCU */
	u16 put_back;		/* PC_LEVEL_* of one that was put back boosted since a task began to run here */
	u16 aged;		/* 1: the task that comes next has waited for too long */
	u32 calls;		/* PC_CALLS_*: somebody who waits here was called */
	u64 pace;		/* policy/balance.h */
	u64 pace_ns;		/* as of then */
	s64 waiting;		/* sum of the weights of tasks that wait */
	u64 balanced_ns;	/* when it last looked for tasks of others */
	s64 portion_ns;		/* what is left of a portion of `paying`'s quota */
	u32 paying;		/* index of the group whose quota the task that runs uses; 0: none */
	u32 paying_generation;	/* pc_quota.generation */
	u64 until_ns;		/* when the turn of what runs is over, if somebody waits */
	u64 timer_ns;		/* when the CPU's timer looks at that; 0: it is not set */
	u64 turn_vtime;		/* of what runs, as its turn began; four cache lines */
};

/* Context of the program ext_clamp: what a task or control group may ask for. */
#define PC_CLAMP_TASK	1
#define PC_CLAMP_GROUP	2

struct pc_clamp_call {
	u32 kind;		/* PC_CLAMP_TASK, PC_CLAMP_GROUP */
	u32 set;		/* 0: only look */
	u64 id;			/* thread id, or control group id (inode number) */
	struct pc_clamp own;	/* in, if `set`; out */
	struct pc_clamp clamp;	/* out: in force */
	u32 found;		/* out: 0, 1 */
	u32 reserved;
};

/* Clamps that a thread asked the kernel for (ext_kernel_clamps). */
#define PC_CLAMP_UNSET	0xffffffffu

struct pc_kernel_clamp {
	u32 tid;
	u32 min;		/* PC_CLAMP_UNSET: it did not ask for this one */
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

/* Context of the program sensor_where: `vcpu` in, the rest out. */
#define PC_WHERE_MAX	16

struct pc_where_one {
	u32 vcpu;
	u32 cpu;		/* last host CPU */
	u32 frequency;		/* 1..1024 of that CPU's highest; 0: not known */
	u32 reserved;
	u64 waited_ns;		/* time in run queues so far */
};

struct pc_where {
	u32 count;
	u32 reserved;
	struct pc_where_one of[PC_WHERE_MAX];
};

/* Ring buffer messages to the daemon. */
#define PC_MSG_NEW	1	/* vCPU seen for the first time */
#define PC_MSG_BOOST	2
#define PC_MSG_UNBOOST	3
#define PC_MSG_GONE	4
#define PC_MSG_EXT_GONE	5	/* the scheduler was unloaded: pc_ext_exit says why */
#define PC_MSG_ASKS	6	/* what a guest asks for has changed, and no scheduler of ours acts on it */

struct pc_msg {
	u32 kind;		/* PC_MSG_* */
	u32 vcpu;		/* index into vcpus */
	u32 tid;
	u8  reasons;
	u8  forced;
	u8  cause;		/* PC_THROTTLE_* */
	u8  level;		/* PC_LEVEL_* of a boost; a second BOOST of the same vCPU raises it */
	u64 now_ns;		/* time of the decision, CLOCK_MONOTONIC */
	u32 asks;		/* of ASKS: as in pc_vcpu */
	u32 reserved;
};

#endif
