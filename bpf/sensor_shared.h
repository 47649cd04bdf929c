/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Data that the sensor's BPF programs and the daemon share. The arrays vcpus, vms and cpus are mmapable BPF arrays: the daemon
 * reads and writes them without a system call. The Rust types are generated from this header (crates/policy/src/generated.rs,
 * `make generate`).
 */
#ifndef PARACORD_SENSOR_SHARED_H
#define PARACORD_SENSOR_SHARED_H

#include "../policy/boost_types.h"
#include "../policy/perf_types.h"
#include "../policy/energy_types.h"
#include "../policy/quota_types.h"

#define PC_VCPUS_MAX	4096
#define PC_VMS_MAX	1024
#define PC_CPUS_MAX	4096	/* the loader shrinks the arrays to the number of possible CPUs */
#define PC_HIST_BUCKETS	32	/* bucket n counts [2^n, 2^(n+1)) ns; bucket 0 also 0 ns, the last bucket all longer times */

/* vcpu.life */
#define PC_VCPU_FREE	0
#define PC_VCPU_NEW	1	/* found by BPF, but not set up by the daemon yet */
#define PC_VCPU_READY	2	/* set up by the daemon: the policy evaluates this vCPU */
#define PC_VCPU_GONE	3	/* the thread has exited; the daemon frees the index */

/* Written by BPF. All values only increase. */
struct pc_vcpu_counters {
	u64 exits;
	u64 wakeups;		/* times that the vCPU began to run after a sleep */
	u64 irqs;		/* kicks of the vCPU by KVM, for example for an interrupt */
	u64 boosts[PC_REASONS];	/* a boost with two reasons counts for both */
	u64 unboosts;
	u64 forced;		/* unboosts that were forced (pc_boost_decision.forced) */
	u64 throttles;		/* throttles that have begun */
	u64 boosted_ns;		/* running time while boosted */
	u64 running_ns;
	u64 guest_read_errors;	/* reads of the region that failed because a page was absent */
	u64 actuations_dropped;	/* messages lost because the ring buffer was full; a lost boost or unboost is sent again */
	u64 suppressed;		/* boosts that the actuation rate limit held back */
	u64 evaluations;	/* policy steps */
	u64 requests;		/* changes of the guest's request that were seen */
	u64 wakeup_latency[2][PC_HIST_BUCKETS]; /* time from wakeup to running: [0] unboosted, [1] boosted */
};

/*
 * The host line of a vCPU whose region lies in the guest's own memory (host_line.h). The daemon writes the first two members: it
 * makes `sequence` odd, changes `image`, and makes `sequence` even again.
 */
#define PC_HOST_LINE_WORDS	8
#define PC_HOST_LINE_AGAIN	1u	/* value of `written`: the image is written at the next exit, even if it has not changed */

struct pc_host_line {
	u64 image[PC_HOST_LINE_WORDS];	/* the content that the line should have, without `announcement` */
	u32 sequence;			/* 0: the daemon has written no image yet */
	u32 written;			/* `sequence` of the last image that was written or given up; or PC_HOST_LINE_AGAIN */
	u32 announcement;		/* guest_announcements of the last announcement by this vCPU */
	u32 known;			/* 1: the line contains `there`, unless somebody else has written to it */
	u64 there[PC_HOST_LINE_WORDS];	/* what the sensor has written to the line */
	u32 barrier;
	u32 reserved;
	u64 writes;
	u64 write_errors;		/* the page was not present or not writable */
	u64 changed;			/* times that the line no longer contained `there`, so that it was left alone */
	u64 left_ns;			/* the line is left alone while pc_vcpu.announced_ns has this value; 0: it is not */
};

/* A struct paracord_domain (abi/paracord_abi.h) of the table that guests without a device get. */
#define PC_DOMAIN_WORDS		24

struct pc_domain_image {
	u64 words[PC_DOMAIN_WORDS];
};

/* A pass over the table in the guest's own memory (domain_table.h). Only the vCPU's thread accesses this structure. */
struct pc_domain_pass {
	u64 hva;		/* address of the region's header in the VMM */
	u64 kvm;		/* struct kvm of the VM when the address was translated */
	u64 generation;		/* generation of the VM's memory slots at that time */
	u64 announced_ns;	/* time of the announcement that started the pass */
	u32 is_due;		/* 1: the pass has not ended */
	u32 next;		/* index of the next domain; if this pass ends too early, the next pass continues there */
	u32 announcement;	/* number of the announcement that started the pass */
	u32 reserved;
};

/* pc_vcpu_setup.refused: the actuators that do not boost the thread */
#define PC_REFUSED_RT	1	/* rt, because a limit of the thread's cgroups does not bind real-time threads */
#define PC_REFUSED_ALL	3	/* rt and ext, for example because the thread's cgroup has cpu.idle set */

/* pc_vcpu_setup.writes */
#define PC_WRITE_LINE		1	/* the host line at slot_gpa */
#define PC_WRITE_DOMAINS	2	/* the table of performance domains */

/* Written by the daemon. */
struct pc_vcpu_setup {
	u32 vm;			/* index into vms */
	u32 hints_at_exit;	/* copied from the VM's configuration, to save the lookup at an exit of an unboosted vCPU */
	u64 slot_hva;		/* address of the guest line in the VMM; 0: no region */
	u32 guest_line_bytes;	/* size of the guest line: declared by the guest, checked by the daemon */
	u32 guest_features;	/* features that the host offers and the guest has accepted */
	u32 guest_requests;	/* 1: the guest's requests are honoured */
	u32 refused;		/* PC_REFUSED_*; 0: boosts are allowed */
	u64 asked_hva;		/* address of paracord_pmu_guest.asked in the VMM; 0: the daemon serves no counters of the vCPU */
	u32 reserve;		/* index into reserves, for the CPU quotas of the vCPU's cgroups; 0: no quotas */
	u32 io;			/* 1: not a vCPU thread, but another thread of the VMM that works for the VM */
	u32 may_announce;	/* 1: a region in the guest's own memory is allowed */
	u32 writes;		/* PC_WRITE_*: what is to be written into the region at region_gpa */
	u64 region_gpa;		/* guest-physical address of the region that the guest has announced; 0: none, or slot_hva is set */
	u64 slot_gpa;		/* guest-physical address of the guest line in that region */
};

/*
 * Number of records in `reserves`. Each cgroup that has a CPU quota and contains vCPUs has a record. Record 0 belongs to no cgroup.
 */
#define PC_RESERVES_MAX		1024
/* Maximum number of nested cgroups with a CPU quota above one vCPU. */
#define PC_RESERVE_DEPTH_MAX	8

/* pc_vcpu.entered: whether a thread that the daemon adopted as a non-vCPU thread has entered a guest since then. */
#define PC_ENTERED_NO		0
#define PC_ENTERED_YES		1
#define PC_ENTERED_REFUSED	2	/* the thread has, but its user already has the maximum number of vCPU records */

struct pc_vcpu {
	u32 life;		/* PC_VCPU_*: BPF sets NEW and GONE, the daemon READY and FREE */
	u32 tid;
	u32 tgid;
	u32 vcpu_id;		/* KVM's vcpu_id; ~0: not known, for example because the kernel has no BTF for KVM */
	u64 start_ns;		/* start time of the thread (boot time clock), by which a reused tid is detected */
	u64 kvm_vcpu;		/* address of the vCPU's struct kvm_vcpu, which is the key for kicks; 0: not known */
	u64 task;		/* struct task_struct of the thread; 0: not known */
	u32 cpu;		/* last host CPU */
	u32 lock;		/* 1: an evaluator works on this vCPU */
	u32 pending;		/* PC_EV_* that were posted and have not been evaluated yet */
	u32 on_cpu;
	u32 actuated;		/* PC_LEVEL_* that was last reported to the daemon */
	u32 asleep;		/* 1: the vCPU went to sleep and has not run since then */
	u32 level;		/* PC_LEVEL_* that the policy has decided; the scheduler acts on it */
	u32 asks;		/* last read from the guest: perf_request in bits 0 to 15, perf_limit in bits 16 to 31 */
	u64 waited_before_ns;	/* sched_info.run_delay (total time in run queues) when the vCPU went to sleep */
	u64 wakeup_ns;		/* time of the first kick since the vCPU went to sleep; 0: no kick */
	u64 run_since_ns;
	u64 told_ns;		/* when the guest's request was last reported to the daemon */
	u32 told_asks;		/* `asks` in that report; 0: no request */
	u32 asked;		/* value of paracord_pmu_guest.asked for which a worker was last woken */
	u64 deaf_until_ns;	/* set by the daemon if the VM's counter budget is used up: requests wake no worker until then */
	struct pc_guest_view guest;	/* last copy of the guest line's hints; written in the context of the vCPU thread */
	/* Addresses in the VMM (translate.h). They are valid while the VM is slots_kvm and the generation is slots_generation. */
	u64 preempt_count_hva;	/* preempt_count_gpa as an address in the VMM; 0: not translated */
	u64 preempt_count_gpa;	/* last read from the guest line */
	u64 line_hva;		/* line_gpa as an address in the VMM */
	u64 line_gpa;		/* setup.slot_gpa that was translated; 0: none */
	u64 slots_kvm;		/* struct kvm of the VM */
	u64 slots_generation;	/* generation of the memory slots of that VM */
	u64 translate_ns;	/* time of the last attempt to translate */
	u64 announced_ns;	/* value of pc_announcement.announced_ns that this vCPU saw last */
	u64 announced_ran_ns;	/* running time of the vCPU when it first saw that value */
	u32 translate;		/* 1: the addresses are translated again at the next VM exit */
	u32 line_writable;	/* 1: the guest may write to the memory slot that contains line_gpa, so the sensor may, too */
	u32 uid;		/* user whose quota of records is charged, or PC_UID_OTHERS */
	u32 charged;		/* 1: this record is charged to that user */
	u32 ran_boosted;	/* 1: the vCPU was boosted at some time since it was switched in (set only with the scheduler) */
	u32 entered;		/* PC_ENTERED_*, for a thread that was adopted as a non-vCPU thread */
	struct pc_boost_state state;
	struct pc_vcpu_counters counters;
	struct pc_vcpu_setup setup;
	struct pc_host_line line;
	struct pc_domain_pass domains;
	u64 requested_ns;	/* when the guest's request was last read from the guest's own memory */
};

/*
 * A user other than root may hold only a limited number of vCPU records. The number that a user holds is user_taken (charged by the
 * sensor) minus user_returned (returned by the daemon). If there are many users, the daemon forgets those that hold no record
 * (crates/sensor/src/users.rs).
 */
#define PC_USERS_MAX	4096	/* users that are counted separately; later users share PC_UID_OTHERS */
#define PC_UID_OTHERS	0xffffffffu

struct pc_adoption {
	u32 per_user;		/* limit of records per user, set by the daemon; 0: no limit */
	u32 own_boosts;		/* set by the daemon; 1: the scheduler applies boosts, and no thread is made real-time */
	u64 refused;		/* threads that got no record because their user's quota was used up */
	u64 full;		/* threads that got no record because none was free */
};

/* Context of the program sensor_adopt. */
struct pc_adopt_call {
	u32 tid;
	u32 index;
	u32 found;		/* output; 1: the thread is alive and had no record */
	u32 tgid;		/* process of the thread */
};

#define PC_VCPUS	0
#define PC_IO_THREADS	1

/* The threads of a VM that share one budget. */
struct pc_vm_threads {
	struct pc_boost_config config;	/* written by the daemon */
	struct pc_bucket budget;	/* written by BPF */
};

struct pc_vm {
	struct pc_vm_threads threads[2];	/* index: pc_vcpu_setup.io (PC_VCPUS, PC_IO_THREADS) */
	u32 tgid;			/* written by the daemon; 0: the record is free */
	u32 home;			/* home node + 1; 0: not known yet */
};

/* Bytes of struct paracord_header (abi/paracord_abi.h). */
#define PC_HEADER_BYTES		128

/*
 * The region that the guest of a VM has announced. There is one record per VM. BPF writes it in the context of a vCPU. A reader
 * copies the record between two reads of `sequence` that return the same even number.
 */
struct pc_announcement {
	u32 lock;		/* 1: a vCPU writes the record */
	u32 sequence;		/* odd while the record is written */
	u64 gpa;		/* guest-physical address; 0: none, or withdrawn */
	u64 kvm;		/* struct kvm of the VM that announced the region, because one process may run several VMs */
	u64 announced_ns;	/* time of the last announcement that was stored in this record */
	u64 looked_ns;		/* time of the last announcement that was processed */
	u64 count;		/* announcements */
	u64 ignored;		/* announcements that were dropped: too soon after another one, or while another one was stored */
	u64 unreadable;		/* announcements of an address that is not in the guest's memory, or whose page is not present */
	u8 header[PC_HEADER_BYTES]; /* copy of the region's header */
};

/* One per host CPU, on a cache line of its own. */
struct pc_cpu {
	struct pc_bucket boosted;	/* budget for boosts on this CPU: the period minus pc_boost_config.cpu_kept_ns */
	u32 running;			/* index of the running vCPU + 1; 0: none */
	u32 reserved32;
	u64 reserved[5];
};

/*
 * Task storage (struct pc_task): one per thread with a vCPU record; with the scheduler (ext.bpf.c), one per task. Without the
 * scheduler, only `vcpu` is used.
 */
#define PC_NO_INDEX	0xffffffffu
#define PC_NO_QUEUE	0xffffffffu

/*
 * pc_task.at has four parts: WHERE, which is the CPU + 1, or the index of the group of a PARKED task; STATE; the flag READS; and
 * WEIGHT, which is the weight that the sum of the CPU's queue contains for the task.
 */
#define PC_AT_WHERE		0xffffull
#define PC_AT_STATE_SHIFT	16
#define PC_AT_STATE		(7ull << 16)
#define PC_AT_READS		(1ull << 20)	/* the task was preempted in an RCU read-side critical section */
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
#define PC_BIRTH_CHILDLESS	2	/* the task was created under the scheduler, and has not forked yet */

struct pc_task {
	u32 vcpu;		/* index of the vCPU + 1; 0: not a vCPU; PC_NO_INDEX: a vCPU that got no record */
	u32 queue;		/* CPU to whose base `vtime` refers; PC_NO_QUEUE: none yet */
	u64 vtime;		/* virtual time of the task while the task does not run */
	u64 waits_ns;		/* when the task began to wait in a queue, unchanged by migrations; 0: it does not wait */
	u32 inverse;		/* PC_INVERSE of its effective weight, which depends on its groups */
	u32 group;		/* index of the group's record; PC_GROUP_ROOT: the root group */
	u32 counted;		/* weight that its group's sum contains for the task; 0: none, for example while the task sleeps */
	u8 known;		/* 1: load tracking has begun */
	u8 shares;		/* 1: its group has no record of its own, and `group` is the nearest ancestor that has one */
	u16 children;		/* number of children that the task has forked; wraps */
	u64 seen_ns;		/* when its load was last updated, on a clock that all CPUs share */
	struct pc_clamp own;	/* clamps that are set for the task itself */
	struct pc_clamp clamp;	/* effective clamps: `own` limited by the group; for a vCPU, with the guest's request */
	struct pc_perf_task perf;
	u64 placed_ns;		/* when a better CPU was last searched for, at a wakeup or while the task ran */
	u32 weight;		/* effective weight in 64ths: 2^32 / inverse */
	u8 sync;		/* 1: the current wakeup is a sync wakeup: the waker is about to sleep */
	u8 reads;		/* 1: the task was preempted in an RCU read-side critical section that it has not left */
	u8 birth;		/* PC_BIRTH_* */
	u8 lazy;		/* 1: its group or an ancestor has cpu.idle set */
	u32 limited;		/* index of the group whose quota the task uses; 0: none */
	u64 at;			/* PC_AT_*: where the task is */
	u32 generation;		/* generation of the group when the task entered it */
	u32 debit_ns;		/* running time that the task is charged in advance as a new task */
	u32 unused_ns;		/* most_owed(), the largest debit of a new task, minus its running time; 0: no longer new */
	u32 credit_ns;		/* unused_ns of its last child when that child exited */
	u16 number;		/* number of the task among the children of its parent */
	u8 called;		/* 1: a directed yield has called the task (sched_yield.h), which should run next */
	u8 reserved8;
	u32 last_child;		/* tid of its last child; 0: none */
	s32 after_ns;		/* running time since the task forked that child; not counted beyond PC_FAIR_TICK_NS */
	u32 owed_ns;		/* running time of the parent from this fork to the parent's exit; charged to this task */
	u64 called_ns;		/* when the task was called last */
	/* Since when the task has been next on its CPU but held back by a sibling CPU of the core; 0: not held back. */
	u64 stands_ns;
};

/* Maximum number of records of cgroups with the cpu controller. Cgroups beyond this number share the record of their parent. */
#define PC_GROUPS_MAX	8192
#define PC_GROUP_ROOT	0
/* Maximum depth of a cgroup that has a record of its own. */
#define PC_GROUP_DEPTH_MAX	32

struct pc_group {
	s64 active;		/* sum of the weights of runnable tasks and active child groups */
	u64 factor;		/* pc_group_factor() as of factor_ns */
	u64 factor_ns;		/* when the group was last updated (refresh_level()) */
	u32 weight;		/* cpu.weight */
	u32 parent;		/* index of the parent group */
	u32 used;		/* 0: free */
	u8 idle;		/* cpu.idle, which replaces the weight */
	u8 lazy;		/* 1: the group or an ancestor has cpu.idle set, as of factor_ns */
	u16 limited;		/* index of the nearest group with a quota, this group or an ancestor, as of factor_ns; 0: none */
	struct pc_clamp own;	/* clamps that are set for its tasks */
	struct pc_clamp clamp;	/* effective clamps: `own` limited by all ancestors, as of factor_ns */
	u32 counted;		/* weight that the sum of the parent group contains for this group; 0: not active */
	u32 generation;		/* number of groups that have used this index */
};

/* Number of cgroups that have no record of their own. Their tasks count as tasks of the nearest ancestor that has a record. */
struct pc_unrecorded {
	u32 full;		/* no record was free for the cgroup or an ancestor */
	u32 deep;		/* the cgroup is deeper than PC_GROUP_DEPTH_MAX */
};

/* pc_rq.features: enabled mechanisms of the performance policy. The daemon sets them. */
#define PC_PERF_TRACK	(1u << 0)	/* track the utilization of tasks and CPUs */
#define PC_PERF_REQUEST	(1u << 1)	/* request frequencies from the governor */
#define PC_PERF_CARRY	(1u << 2)	/* carry the level of a burst over a sleep */
#define PC_PERF_CHARGE	(1u << 3)	/* charge a capped task for the time that its work would take at its cap */
#define PC_PERF_SHARED	(1u << 4)	/* the CPU shares its frequency with other CPUs */
#define PC_PERF_PLACE	(1u << 5)	/* place tasks by energy */
#define PC_PERF_HOLD	(1u << 6)	/* lower a request only after a hold window */

/* pc_rq.runs: which task of the scheduler runs on the CPU. */
#define PC_RUNS_NOTHING	0	/* none: the CPU is idle, or runs a task of a higher class */
#define PC_RUNS_TASK	1
#define PC_RUNS_VCPU	2	/* a vCPU: this value plus the index of the vCPU */

/* pc_rq.turn: how long the current turn lasts. */
#define PC_TURN_WHOLE	0	/* one slice */
#define PC_TURN_LEAST	1	/* pc_fair_turn_min_ns(), because a task that should have had this turn has woken */
#define PC_TURN_OWED	2	/* a short turn, because the quota is used up or a boosted vCPU has called the task */

/*
 * pc_rq.tickless. 0: the CPU always has a tick. PC_TICKLESS: the kernel stops the tick where it can (nohz_full).
 * PC_TICKLESS_TURNS: the kernel could stop the tick, but tasks take turns on the CPU.
 */
#define PC_TICKLESS		1
#define PC_TICKLESS_TURNS	2

/*
 * pc_rq.calls: who has called a task that waits on this CPU (sched_yield.h). ELSEWHERE: a task of another CPU. HERE: the task
 * that runs on this CPU, which yields to the called task even if it is boosted.
 */
#define PC_CALLS_ELSEWHERE	1
#define PC_CALLS_HERE		2

/* Rings of CPUs: the CPUs that share a last-level cache, the CPUs of a node, all CPUs. */
#define PC_NEAR_CACHE	0
#define PC_NEAR_NODE	1
#define PC_NEAR_ALL	2
#define PC_NEAR_LEVELS	3
/*
 * Nodes beyond PC_NODES_MAX count as part of the last node. If there are more than PC_CACHES_MAX caches, CPUs are not told apart
 * by their caches.
 */
#define PC_NODES_MAX	64
#define PC_CACHES_MAX	512
#define PC_NO_CACHE	0xffffu
#define PC_NO_NODE	0xffffu

/* The place of a CPU in the topology. */
struct pc_near {
	u16 next[PC_NEAR_LEVELS];	/* next CPU in each ring; the CPU itself if the ring adds no CPU to the ring before it */
	u16 within;		/* PC_NEAR_*: widest ring that stays within the node */
	u16 node;		/* PC_NO_NODE: the machine has one node */
	u16 cache;		/* PC_NO_CACHE: all CPUs of the node share one cache, or there are too many caches */
};

/* One per host CPU: the state of the CPU's queue and of the running task. The structure fills four cache lines. */
struct pc_rq {
	u64 base;		/* virtual time that the queue has reached */
	u64 cur_vtime;		/* virtual time of the running task at cur_since_ns */
	u64 cur_since_ns;	/* when the running task was last charged */
	u32 cur_inverse;	/* PC_INVERSE of its effective weight */
	u32 runs;		/* PC_RUNS_* */
	s32 queued;		/* number of waiting tasks */
	u32 promotes;		/* 1: a task on this queue may have been boosted since promote() last searched the queue */
	u32 expired;		/* 1: the running task is preempted at the next tick */
	u32 slice_ns;		/* pc_fair_slice_ns(); set by the loader */
	u32 cur_cap;		/* clamp.max of the running task */
	u32 cur_speed;		/* 0..1024: capacity of the CPU at its current frequency; set only for a capped task */
	u32 features;		/* PC_PERF_*; set by the daemon */
	u32 requested;		/* 0..1024: last performance request for the CPU */
	struct pc_perf_cpu perf;
	u64 left;		/* contributions of runnable tasks that were migrated; this CPU subtracts them */
	u64 removed;		/* contributions of sleepers that woke on other CPUs, in the unit of perf.sleeping */
	u64 search_ns;		/* when the next search of the queue is due */
	u64 sum_ns;		/* when the sums in `perf` were last updated, on a clock that all CPUs share */
	struct pc_near near;	/* set by the loader */
	u16 victim[PC_NEAR_LEVELS];	/* for each ring, the CPU that is searched next */
	u16 looks;		/* number of searches by balance() */
	u16 domain;		/* domain of the energy model; set by the daemon */
	u16 capacity;		/* 0..1024, at the highest frequency; set by the daemon */
	u16 offline;		/* 1: the CPU is offline */
	u8 search;		/* 1: the queue has to be searched for tasks that have waited for too long */
	u8 direct;		/* 1: a task waits in the local DSQ (goes_direct()) */
	u16 asks;		/* 1: the scheduler has made a request to the governor, and has not withdrawn it */
	u16 turn;		/* PC_TURN_* of the running task */
	u16 tickless;		/* PC_TICKLESS*; set by the loader and by this CPU */
	u8 put_back;		/* PC_LEVEL_* of a boosted vCPU that has been requeued since the last ext_running() on this CPU */
	u8 aged;		/* 1: the task that runs next was fetched because it had waited for too long */
	s32 readers;		/* how many of the `queued` tasks were preempted in an RCU read-side critical section */
	u32 taken;		/* PC_TAKEN_SHIFT; when a real-time task last took this CPU, or made a boosted vCPU move here */
	u32 calls;		/* PC_CALLS_*; 0: no task that waits here was called */
	u64 pace;		/* pace of this CPU at pace_ns (policy/balance.h) */
	u64 pace_ns;
	s64 waiting;		/* sum of the weights of waiting tasks */
	u64 balanced_ns;	/* when this CPU last searched the queues of other CPUs */
	s64 portion_ns;		/* rest of this CPU's portion of the quota of `paying` */
	u32 paying;		/* index of the group whose quota the running task uses; 0: none */
	u32 paying_generation;	/* generation of that quota (pc_quota.generation) */
	u64 until_ns;		/* when the turn of the running task is over, if another task waits */
	u64 timer_ns;		/* when the timer of this CPU expires to check until_ns; 0: it is not set */
	u64 turn_vtime;		/* virtual time of the running task at the start of its turn */
};

/* Context of the program ext_clamp: reads or sets the clamps of a task or cgroup. */
#define PC_CLAMP_TASK	1
#define PC_CLAMP_GROUP	2

struct pc_clamp_call {
	u32 kind;		/* PC_CLAMP_TASK, PC_CLAMP_GROUP */
	u32 set;		/* 1: set the clamps; 0: only read them */
	u64 id;			/* thread ID, or cgroup ID (inode number) */
	struct pc_clamp own;	/* input if `set`, and output */
	struct pc_clamp clamp;	/* output: effective clamps */
	u32 found;		/* output; 1: the task or cgroup has a record */
	u32 reserved;
};

/* Clamps that a thread has requested from the kernel (ext_kernel_clamps). */
#define PC_CLAMP_UNSET	0xffffffffu

struct pc_kernel_clamp {
	u32 tid;
	u32 min;		/* PC_CLAMP_UNSET: the thread did not request this clamp */
	u32 max;
	u32 reserved;
};

/* Why the kernel has unloaded the scheduler. */
struct pc_ext_exit {
	u32 kind;		/* enum scx_exit_kind; 0: the scheduler is loaded, or was never loaded */
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

/* Context of the program sensor_where: `count`, `invariance_key` and `vcpu` are input; the rest is output. */
#define PC_WHERE_MAX	16

struct pc_where_one {
	u32 vcpu;
	u32 cpu;		/* last host CPU */
	u32 frequency;		/* 1..1024, as a share of the CPU's highest frequency; 0: not known */
	u32 reserved;
	u64 waited_ns;		/* total time spent in run queues */
};

struct pc_where {
	u32 count;
	u32 reserved;
	u64 invariance_key;	/* x86: address of arch_scale_freq_key; 0: the kernel has none */
	struct pc_where_one of[PC_WHERE_MAX];
};

/* Ring buffer messages to the daemon. */
#define PC_MSG_NEW	1	/* the first VM exit of a thread was seen */
#define PC_MSG_BOOST	2
#define PC_MSG_UNBOOST	3
#define PC_MSG_GONE	4	/* the thread has ended */
#define PC_MSG_EXEC	7	/* the thread has called execve(2) and is no vCPU any more; pc_msg.tid: its ID since then */
#define PC_MSG_EXT_GONE	5	/* the scheduler was unloaded: pc_ext_exit has the reason */
#define PC_MSG_ASKS	6	/* a guest's request has changed; not sent while paracord's scheduler is enabled */

struct pc_msg {
	u32 kind;		/* PC_MSG_* */
	u32 vcpu;		/* index into vcpus */
	u32 tid;
	u8  reasons;
	u8  forced;
	u8  cause;		/* PC_THROTTLE_* */
	u8  level;		/* PC_LEVEL_* of a boost; a second PC_MSG_BOOST for the same vCPU raises it */
	u64 now_ns;		/* time of the decision, CLOCK_MONOTONIC */
	u32 asks;		/* for PC_MSG_ASKS: pc_vcpu.asks */
	u32 reserved;
};

#endif
