/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Data that the sensor's BPF programs and the daemon share. The arrays vcpus, vms and cpus are mmapable BPF arrays, so the daemon
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
#define PC_CPUS_MAX	4096	/* the loader shrinks the per-CPU arrays to the number of possible CPUs */
#define PC_HIST_BUCKETS	32	/* bucket n: [2^n, 2^(n+1)) ns; bucket 0 includes 0 ns; the last bucket includes all longer times */

/* vcpu.life */
#define PC_VCPU_FREE	0
#define PC_VCPU_NEW	1	/* found by BPF, but not set up by the daemon yet */
#define PC_VCPU_READY	2	/* set up by the daemon: the policy evaluates this vCPU */
#define PC_VCPU_GONE	3	/* the thread has exited; the daemon frees the index */

/* Written by BPF. All values only increase. */
struct pc_vcpu_counters {
	u64 exits;
	u64 wakeups;		/* number of times that the vCPU began to run after a sleep */
	u64 irqs;		/* kicks of the vCPU by KVM; if sensor_wake_up is loaded, also KVM's wakeups, so a kick may count twice */
	u64 boosts[PC_REASONS];	/* a boost with two reasons counts for both */
	u64 unboosts;
	u64 forced;		/* unboosts that were forced (pc_boost_decision.forced) */
	u64 throttles;		/* throttles that have begun */
	u64 boosted_ns;		/* running time while boosted */
	u64 running_ns;
	u64 guest_read_errors;	/* failed reads of the region and failed writes of answers, for example if a page was absent */
	u64 actuations_dropped;	/* messages lost because the ring buffer was full; a boost or unboost is reported again later */
	u64 suppressed;		/* boosts that the actuation rate limit held back */
	u64 evaluations;	/* policy steps */
	u64 requests;		/* changes of the guest's performance request that the sensor has seen */
	u64 wakeup_latency[2][PC_HIST_BUCKETS]; /* time from wakeup to running: [0] unboosted, [1] boosted */
};

/*
 * The host line of a vCPU is the part of the vCPU's slot that only the host writes. This structure is used if the region with the
 * slot lies in the guest's own memory (host_line.h). The daemon writes the first two members: it makes `sequence` odd, changes
 * `image`, and makes `sequence` even again.
 */
#define PC_HOST_LINE_WORDS	8
#define PC_HOST_LINE_AGAIN	1u	/* value of `written`: write the image at the next VM exit, even if it has not changed */

struct pc_host_line {
	u64 image[PC_HOST_LINE_WORDS];	/* what the line should contain, except for what the sensor itself adds (compose_line()) */
	u32 sequence;			/* 0: the daemon has written no image yet */
	u32 written;			/* `sequence` of the last image that the sensor has tried to write; or PC_HOST_LINE_AGAIN */
	u32 announcement;		/* paracord_header.guest_announcements at this vCPU's last announcement */
	u32 known;			/* 1: the line contains `there` unless somebody else has written to the line */
	u32 changes;			/* number of changes of the vCPU's boost state; wraps */
	u32 changes_written;		/* value of `changes` when the sensor last tried to write the line */
	u32 boosts;			/* number of boosts of the vCPU; wraps */
	u32 barrier;
	u64 there[PC_HOST_LINE_WORDS];	/* what the sensor last wrote to the line */
	u64 writes;
	u64 write_errors;		/* failed accesses: the page was not present or not writable */
	u64 changed;			/* how often the sensor did not write because the line no longer contained `there` */
	u64 left_ns;			/* the line is not written while pc_vcpu.announced_ns has this value; 0: no restriction */
};

/*
 * One struct paracord_domain (abi/paracord_abi.h) of the table that the sensor writes into a guest's own memory (domain_table.h).
 */
#define PC_DOMAIN_WORDS		24

struct pc_domain_image {
	u64 words[PC_DOMAIN_WORDS];
};

/*
 * A pass over the table of performance domains in the guest's own memory (domain_table.h). Only the vCPU's thread accesses this
 * structure.
 */
struct pc_domain_pass {
	u64 hva;		/* address of the region's header in the VMM */
	u64 kvm;		/* struct kvm of the VM when `hva` was translated */
	u64 generation;		/* generation of the VM's memory slots at that time */
	u64 announced_ns;	/* time of the announcement that started the pass */
	u32 is_due;		/* 1: the pass has not ended */
	u32 next;		/* index of the next domain; if this pass ends too early, the next pass continues there */
	u32 announcement;	/* number of the announcement that started the pass */
	u32 reserved;
};

/* pc_vcpu_setup.refused: the actuators that must not boost the thread */
#define PC_REFUSED_RT	1	/* rt, because the thread's cgroups have a limit that does not apply to real-time threads */
#define PC_REFUSED_ALL	3	/* rt and ext, for example because the thread's cgroup has cpu.idle set */

/* pc_vcpu_setup.writes */
#define PC_WRITE_LINE		1	/* the host line of the slot at slot_gpa */
#define PC_WRITE_DOMAINS	2	/* the table of performance domains */

/* Written by the daemon. */
struct pc_vcpu_setup {
	u32 vm;			/* index into vms */
	u32 hints_at_exit;	/* copied from the VM's configuration, to save a lookup at each exit of an unboosted vCPU */
	u64 slot_hva;		/* address of the guest line in the VMM; 0: the line is not in a device's region */
	u32 guest_line_bytes;	/* size of the guest line, as declared by the guest and checked by the daemon */
	u32 guest_features;	/* features that the host offers and the guest has accepted */
	u32 guest_requests;	/* 1: the guest's performance requests are honoured */
	u32 refused;		/* PC_REFUSED_*; 0: boosts are allowed */
	u64 asked_hva;		/* address of paracord_pmu_guest.asked in the VMM; 0: no counters are served in a device's region */
	u32 reserve;		/* index into reserves, for the CPU quotas of the vCPU's cgroups; 0: no quotas */
	u32 io;			/* 1: the thread is not a vCPU thread, but another thread of the VMM that works for the VM */
	u32 may_announce;	/* 1: a region in the guest's own memory is allowed */
	u32 writes;		/* PC_WRITE_*: what the sensor writes into the region at region_gpa */
	u64 region_gpa;		/* guest-physical address of the region that the guest has announced; 0: none, or slot_hva is set */
	u64 slot_gpa;		/* guest-physical address of the guest line in that region */
	u32 counts;		/* 1: the daemon serves the counters of the vCPU through pmu_mails, for the slot at slot_gpa */
	u32 reserved32;
};

/* Bytes of struct paracord_pmu_guest and struct paracord_pmu_host (abi/paracord_abi.h). */
#define PC_PMU_ASK_BYTES	320
#define PC_PMU_ANSWER_BYTES	576

/*
 * The mail of a vCPU (pmu_mail.h): the vCPU's requests for counters, which the guest writes into a slot in its own memory, and
 * the answers to these requests. There is one record per vCPU. In the context of the vCPU thread, BPF copies the requests from
 * the guest's memory, and writes the answers into it. The daemon produces the answers.
 */
struct pc_pmu_mail {
	u32 asked;		/* number of the batch in `ask`; 0: no batch, or BPF is replacing the batch */
	u32 answered;		/* number of the batch to which `answer` belongs; 0: no answer, or the daemon is replacing it */
	u32 written;		/* number of the last answer that BPF has written into the guest's memory */
	u32 barrier;		/* target of atomic exchanges that serve only as barriers */
	u64 asked_ns;		/* when the batch was copied */
	u64 rung_ns;		/* when the worker (bell.h) was last woken for this batch; 0: not yet */
	u64 gpa;		/* guest-physical address of the slot from which the batch was copied */
	u64 kvm;		/* struct kvm of the VM when `gpa` was translated */
	u64 generation;		/* generation of the VM's memory slots at that time */
	u64 left_ns;		/* pc_host_line.left_ns at that time: if it differs, the slot may have been used for something else since */
	u8  ask[PC_PMU_ASK_BYTES];
	u8  answer[PC_PMU_ANSWER_BYTES];
};

/*
 * Number of records in `reserves`. Each cgroup that has a CPU quota and contains vCPU threads has a record. Record 0 belongs to
 * no cgroup.
 */
#define PC_RESERVES_MAX		4096
/* Maximum number of CPU quotas that may apply to a vCPU thread: those of its cgroup and of the cgroup's ancestors. */
#define PC_RESERVE_DEPTH_MAX	8

/* pc_vcpu.entered: whether a thread has entered a guest since the daemon adopted it as a non-vCPU thread. */
#define PC_ENTERED_NO		0
#define PC_ENTERED_YES		1
#define PC_ENTERED_REFUSED	2	/* it has entered a guest, but its user already holds the maximum number of vCPU records */

struct pc_vcpu {
	u32 life;		/* PC_VCPU_*: BPF sets NEW and GONE, the daemon READY and FREE */
	u32 tid;
	u32 tgid;
	u32 vcpu_id;		/* KVM's vcpu_id; ~0: not known, for example because the kernel has no BTF for KVM */
	u64 start_ns;		/* start time of the thread (boot time clock); a different start time reveals a reused tid */
	u64 kvm_vcpu;		/* address of the vCPU's struct kvm_vcpu, the key of the map kvm_vcpus; 0: not known */
	u64 task;		/* struct task_struct of the thread; 0: not known */
	u32 cpu;		/* host CPU on which the thread runs, or ran last */
	u32 lock;		/* 1: an evaluator is working on this vCPU */
	u32 pending;		/* PC_EV_* that were posted and have not been evaluated yet */
	u32 on_cpu;
	u32 actuated;		/* the PC_LEVEL_* that was last reported to the daemon, or that needs no report (`unreported`) */
	u32 asleep;		/* 1: the vCPU went to sleep and has not run since then */
	u32 level;		/* the PC_LEVEL_* that the policy has chosen; the scheduler acts on it */
	u32 asks;		/* the guest's request when last read: perf_request in bits 0 to 15, perf_limit in bits 16 to 31 */
	u64 waited_before_ns;	/* sched_info.run_delay (total time in run queues) when the vCPU went to sleep */
	u64 wakeup_ns;		/* time of the first kick since the vCPU went to sleep; 0: no kick */
	u64 run_since_ns;
	u64 told_ns;		/* when the guest's request was last reported to the daemon */
	u32 told_asks;		/* `asks` in that report; 0: no request */
	u32 asked;		/* the value of paracord_pmu_guest.asked for which a worker was last woken */
	u64 deaf_until_ns;	/* requests wake no worker before this time; set by the daemon when the VM's counter budget is used up */
	struct pc_guest_view guest;	/* last copy of the guest line's hints; written in the context of the vCPU thread */
	/*
	 * Addresses in the VMM (translate.h). They are valid as long as the VM is slots_kvm and the generation of its memory
	 * slots is slots_generation.
	 */
	u64 preempt_count_hva;	/* preempt_count_gpa as an address in the VMM; 0: not translated */
	u64 preempt_count_gpa;	/* last read from the guest line */
	u64 line_hva;		/* line_gpa as an address in the VMM */
	u64 line_gpa;		/* the value of setup.slot_gpa that was translated to line_hva; 0: none */
	u64 slots_kvm;		/* struct kvm of the VM */
	u64 slots_generation;	/* generation of the memory slots of that VM */
	u64 translate_ns;	/* time of the last attempt to translate */
	u64 announced_ns;	/* value of pc_announcement.announced_ns that this vCPU saw last */
	u64 announced_ran_ns;	/* running time of the vCPU when it first saw that value */
	u32 translate;		/* 1: the addresses are translated again at the next VM exit */
	u32 line_writable;	/* 1: the guest may write to the memory slot of line_gpa, so the sensor may write there */
	u32 uid;		/* user to whose quota the record is charged, or PC_UID_OTHERS */
	u32 charged;		/* 1: this record is charged to that user */
	u32 ran_boosted;	/* 1: the vCPU was boosted at some time since it was switched in; set only under the scheduler */
	u32 entered;		/* PC_ENTERED_*, for a thread that was adopted as a non-vCPU thread */
	u32 unreported;		/* 1: the daemon was not told of the current boost, because only paracord's scheduler acts on it */
	u32 reserved32;
	struct pc_boost_state state;
	struct pc_vcpu_counters counters;
	struct pc_vcpu_setup setup;
	struct pc_host_line line;
	struct pc_domain_pass domains;
	u64 requested_ns;	/* when the guest's request was last read from the guest's own memory */
};

/*
 * A user other than root may hold only a limited number of vCPU records. The number that a user holds is user_taken (charged by
 * the sensor) minus user_returned (returned by the daemon). If there are many users, the daemon forgets the users that hold no
 * record (crates/sensor/src/users.rs).
 */
#define PC_USERS_MAX	4096	/* at most this many users are counted separately; all others share PC_UID_OTHERS */
#define PC_UID_OTHERS	0xffffffffu

struct pc_adoption {
	u32 per_user;		/* maximum number of records per user, set by the daemon; 0: no limit */
	u32 own_boosts;		/* 1: paracord's scheduler applies boosts, and no thread is made real-time; set by the daemon */
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
	u32 home;			/* number of the VM's home node + 1; 0: not known yet */
	u32 new_threads;		/* 1: the VMM has made threads since the daemon last looked; set by BPF, cleared by the daemon */
	u32 reserved;
};

/* Bytes of struct paracord_header (abi/paracord_abi.h). */
#define PC_HEADER_BYTES		128

/*
 * The region that the guest of a VM has announced. There is one record per VM. BPF writes the record in the context of a vCPU
 * thread. A reader reads `sequence` before and after it copies the record. The copy is valid if both reads return the same even
 * number.
 */
struct pc_announcement {
	u32 lock;		/* 1: a vCPU is writing the record */
	u32 sequence;		/* odd while a vCPU is writing the record */
	u64 gpa;		/* guest-physical address; 0: none, or withdrawn */
	u64 kvm;		/* struct kvm of the VM that announced the region (one process may run several VMs) */
	u64 announced_ns;	/* time of the last announcement that was stored in this record */
	u64 looked_ns;		/* time of the last announcement that was processed */
	u64 count;		/* number of announcements */
	u64 ignored;		/* announcements dropped because they came too soon, or while another one was being stored */
	u64 unreadable;		/* announcements of an address that is not in the guest's memory, or whose page is not present */
	u8 header[PC_HEADER_BYTES]; /* copy of the region's header */
};

/* One per host CPU, on a cache line of its own. */
struct pc_cpu {
	struct pc_bucket boosted;	/* budget for boosts on this CPU: the period minus pc_boost_config.cpu_kept_ns */
	u32 running;			/* index of the running vCPU + 1; 0: none */
	u32 reserved32;
	u64 boosts;			/* boosts of threads on this CPU of which the daemon was not told (pc_vcpu.unreported) */
	u64 unboosts;			/* such boosts that have ended, or of which the daemon was told later */
	u64 reserved[3];
};

/*
 * Task storage. Under paracord's scheduler (ext.bpf.c), each task has a struct pc_task. Without the scheduler, only vCPU threads,
 * and other threads for which the daemon requests a vCPU record, have a struct pc_task. Only the member `vcpu` is then used.
 */
#define PC_NO_INDEX	0xffffffffu
#define PC_NO_QUEUE	0xffffffffu

/*
 * pc_task.at has four parts. WHERE is the CPU + 1; for a PARKED task, it is the index of the group for whose quota the task
 * waits. STATE is one of the states below. READS is a flag. WEIGHT is the weight with which the task counts in the sum of its
 * CPU's queue.
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
	u32 vcpu;		/* index of the task's vCPU record + 1; 0: not a vCPU; PC_NO_INDEX: a vCPU that got no record */
	u32 queue;		/* CPU to whose pc_rq.base `vtime` refers; PC_NO_QUEUE: none yet */
	u64 vtime;		/* virtual time of the task while the task does not run */
	u64 waits_ns;		/* when the task began to wait in a queue; not changed by a migration; 0: the task does not wait */
	u32 inverse;		/* PC_INVERSE of the task's effective weight, which depends on the task's groups */
	u32 group;		/* index of the record of the task's group; PC_GROUP_ROOT: the root group */
	u32 counted;		/* weight with which the task counts in its group's sum; 0: not counted, for example when asleep */
	u8 known;		/* 1: load tracking of the task has begun */
	u8 shares;		/* 1: the task's group has no record of its own, and `group` is the nearest ancestor that has one */
	u16 children;		/* number of children that the task has forked; wraps */
	u64 seen_ns;		/* when the load of the task was last updated, on a clock that all CPUs share */
	struct pc_clamp own;	/* clamps that are set for the task itself */
	struct pc_clamp clamp;	/* effective clamps: `own` limited by the group; for a vCPU, including the guest's request */
	struct pc_perf_task perf;
	u64 placed_ns;		/* when the scheduler last searched for a better CPU, at a wakeup or while the task ran */
	u32 weight;		/* effective weight in 64ths: 2^32 / inverse */
	u8 sync;		/* 1: the current wakeup is a sync wakeup, so the waker is about to sleep */
	u8 reads;		/* 1: the task was preempted in an RCU read-side critical section that it has not left */
	u8 birth;		/* PC_BIRTH_* */
	u8 lazy;		/* 1: the task's group or an ancestor group has cpu.idle set */
	u32 limited;		/* index of the group whose quota the task uses; 0: none */
	u64 at;			/* PC_AT_*: where the task is */
	u32 generation;		/* pc_group.generation of the group when the task entered the group */
	u32 debit_ns;		/* running time that is charged to the task in advance when the task is new */
	u32 unused_ns;		/* most_owed() minus the running time of the new task so far; 0: the task is no longer new */
	u32 credit_ns;		/* unused_ns of the task's last child when that child exited */
	u16 number;		/* ordinal number of the task among its parent's children */
	u8 called;		/* 1: a directed yield has named the task (sched_yield.h), so the task should run next */
	u8 reserved8;
	u32 last_child;		/* tid of the task's last child; 0: none */
	s32 after_ns;		/* the task's running time since it forked its last child; not counted beyond PC_FAIR_TICK_NS */
	u32 owed_ns;		/* the parent's running time after it forked this task and until it exited; charged to this task */
	u64 called_ns;		/* when a directed yield last named the task */
	/*
	 * When the task began to wait for a sibling CPU of the core, although it was the next task of its own CPU; 0: the task
	 * does not wait for a sibling CPU.
	 */
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
	u32 used;		/* 0: the record is free */
	u8 idle;		/* cpu.idle; if set, it replaces the weight */
	u8 lazy;		/* 1: the group or an ancestor has cpu.idle set, as of factor_ns */
	u16 limited;		/* index of the first group with a quota, from this group upwards, as of factor_ns; 0: none */
	struct pc_clamp own;	/* clamps that are set for the group itself */
	struct pc_clamp clamp;	/* effective clamps: `own` limited by all ancestors, as of factor_ns */
	u32 counted;		/* weight with which this group counts in the sum of its parent; 0: the group is not active */
	u32 generation;		/* number of groups that have used this index */
};

/*
 * Numbers of cgroups that have no record of their own. The tasks of such cgroups count as tasks of the nearest ancestor that has
 * a record.
 */
struct pc_unrecorded {
	u32 full;		/* no record was free for the cgroup or an ancestor */
	u32 deep;		/* the cgroup is deeper than PC_GROUP_DEPTH_MAX */
};

/* pc_rq.features: enabled mechanisms of the performance policy. The daemon sets them. */
#define PC_PERF_TRACK	(1u << 0)	/* track the utilisation of tasks and CPUs */
#define PC_PERF_REQUEST	(1u << 1)	/* request frequencies from the governor */
#define PC_PERF_CARRY	(1u << 2)	/* after a long sleep of a task, restore its request from the end of its last burst */
#define PC_PERF_CHARGE	(1u << 3)	/* charge a capped task for the time that its work would take at the speed of the cap */
#define PC_PERF_SHARED	(1u << 4)	/* the CPU shares its frequency with other CPUs */
#define PC_PERF_PLACE	(1u << 5)	/* place tasks by energy */
#define PC_PERF_HOLD	(1u << 6)	/* lower a request only after a hold window */

/* pc_rq.runs: which of the scheduler's tasks runs on the CPU. */
#define PC_RUNS_NOTHING	0	/* none: the CPU is idle, or runs a task of a higher class */
#define PC_RUNS_TASK	1
#define PC_RUNS_VCPU	2	/* a vCPU: this value plus the index of the vCPU */

/* pc_rq.turn: how long the current turn lasts. */
#define PC_TURN_WHOLE	0	/* one slice */
#define PC_TURN_LEAST	1	/* pc_fair_turn_min_ns(): shortened for a task that woke later but should have had this turn */
#define PC_TURN_OWED	2	/* a short turn, because the quota is used up, or because a boosted vCPU has yielded to the task */
#define PC_TURN_BOOST	3	/* what is left of the grants of a boosted vCPU */

/*
 * pc_rq.tickless. 0: the CPU always has a tick. PC_TICKLESS: the kernel stops the tick when it can (nohz_full).
 * PC_TICKLESS_TURNS: the kernel could stop the tick, but tasks take turns on the CPU.
 */
#define PC_TICKLESS		1
#define PC_TICKLESS_TURNS	2

/*
 * pc_rq.calls: who has made a directed yield to a task that waits on this CPU (sched_yield.h). ELSEWHERE: a task on another CPU.
 * HERE: the task that runs on this CPU. This task gives way to the target of the yield even if this task is boosted.
 */
#define PC_CALLS_ELSEWHERE	1
#define PC_CALLS_HERE		2

/* Rings of CPUs: the CPUs that share a last-level cache, the CPUs of a node, all CPUs. */
#define PC_NEAR_CACHE	0
#define PC_NEAR_NODE	1
#define PC_NEAR_ALL	2
#define PC_NEAR_LEVELS	3
/*
 * Nodes beyond PC_NODES_MAX count as part of the last node. If there are more than PC_CACHES_MAX caches, the scheduler ignores
 * which CPUs share a cache.
 */
#define PC_NODES_MAX	64
#define PC_CACHES_MAX	512
#define PC_NO_CACHE	0xffffu
#define PC_NO_NODE	0xffffu

/* The place of a CPU in the topology. */
struct pc_near {
	u16 next[PC_NEAR_LEVELS];	/* next CPU in each ring; the CPU itself if the ring adds no CPU to the next smaller ring */
	u16 within;		/* PC_NEAR_*: widest ring that stays within the node */
	u16 node;		/* PC_NO_NODE: the machine has one node */
	u16 cache;		/* PC_NO_CACHE: all CPUs of the node share one cache, or there are too many caches */
};

/* One per host CPU: the state of the CPU's queue and of the running task. The structure fills four cache lines. */
struct pc_rq {
	u64 base;		/* virtual time that the queue has reached */
	u64 cur_vtime;		/* virtual time of the running task at cur_since_ns */
	u64 cur_since_ns;	/* when the running task was last charged */
	u32 cur_inverse;	/* PC_INVERSE of the running task's effective weight */
	u32 runs;		/* PC_RUNS_* */
	s32 queued;		/* number of waiting tasks */
	u32 promotes;		/* 1: a task on this queue may have been boosted since promote() last searched the queue */
	u32 expired;		/* 1: the running task is preempted at the next tick */
	u32 slice_ns;		/* pc_fair_slice_ns(); set by the loader */
	u32 cur_cap;		/* clamp.max of the running task */
	u32 cur_speed;		/* 0..1024: capacity of the CPU at its current frequency; set only if the running task is capped */
	u32 features;		/* PC_PERF_*; set by the daemon */
	u32 requested;		/* 0..1024: last performance request for the CPU */
	struct pc_perf_cpu perf;
	u64 left;		/* contributions of runnable tasks that have left this CPU; this CPU has yet to subtract them */
	u64 removed;		/* the same for sleeping tasks that woke on other CPUs, in the unit of perf.sleeping */
	u64 search_ns;		/* when the queue is next searched for tasks that have waited for too long */
	u64 sum_ns;		/* when the sums in `perf` were last updated, on a clock that all CPUs share */
	struct pc_near near;	/* set by the loader */
	u16 victim[PC_NEAR_LEVELS];	/* for each ring, the CPU that this CPU searches next */
	u16 looks;		/* number of searches by balance() */
	u16 domain;		/* index of this CPU's domain in the energy model; set by the daemon */
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
	u32 taken;		/* when a real-time task last took this CPU, or displaced a boosted vCPU to it (PC_TAKEN_SHIFT) */
	u32 calls;		/* PC_CALLS_*; 0: no task that waits here is the target of a directed yield */
	u64 pace;		/* pace of this CPU at pace_ns (policy/balance.h) */
	u64 pace_ns;
	s64 waiting;		/* sum of the weights of waiting tasks */
	u64 balanced_ns;	/* when this CPU last searched the queues of other CPUs */
	s64 portion_ns;		/* what is left of the portion that this CPU has taken from the quota of the group `paying` */
	u32 paying;		/* index of the group whose quota the running task uses; 0: none */
	u32 paying_generation;	/* generation of that quota (pc_quota.generation) */
	u64 until_ns;		/* when the turn of the running task ends if another task waits */
	u64 timer_ns;		/* when this CPU's timer, which checks until_ns, expires; 0: the timer is not set */
	u64 turn_vtime;		/* virtual time of the running task at the start of its turn */
};

/* Context of the program ext_clamp, which reads or sets the clamps of a task or cgroup. */
#define PC_CLAMP_TASK	1
#define PC_CLAMP_GROUP	2

struct pc_clamp_call {
	u32 kind;		/* PC_CLAMP_TASK, PC_CLAMP_GROUP */
	u32 set;		/* 1: set the clamps; 0: only read them */
	u64 id;			/* thread ID, or cgroup ID (inode number) */
	struct pc_clamp own;	/* output; also input if `set` is 1 */
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
	u32 cpu;		/* host CPU on which the thread runs, or ran last */
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
#define PC_MSG_EXEC	7	/* the thread has called execve(2) and is no longer a vCPU; pc_msg.tid: its new thread ID */
#define PC_MSG_EXT_GONE	5	/* the scheduler was unloaded: pc_ext_exit has the reason */
#define PC_MSG_ASKS	6	/* a guest's request has changed; not sent while paracord's scheduler is enabled */
#define PC_MSG_THREADS	8	/* the VMM of this thread has made a thread; not sent again until the daemon has looked */

struct pc_msg {
	u32 kind;		/* PC_MSG_* */
	u32 vcpu;		/* index into vcpus */
	u32 tid;
	u8  reasons;
	u8  forced;
	u8  cause;		/* PC_THROTTLE_* */
	u8  level;		/* PC_LEVEL_* of a boost; a second PC_MSG_BOOST for the same vCPU raises the level */
	u64 now_ns;		/* time of the decision, CLOCK_MONOTONIC */
	u32 asks;		/* for PC_MSG_ASKS: pc_vcpu.asks */
	u32 reserved;
};

#endif
