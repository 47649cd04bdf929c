/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the sensor's BPF programs and the daemon share. Both arrays live in
 * mmap-able global data, so the daemon reads and writes them without a system
 * call; libbpf-cargo generates the Rust types from the object's BTF.
 */
#ifndef PARACORD_SENSOR_SHARED_H
#define PARACORD_SENSOR_SHARED_H

#include "boost_types.h"

#define PC_VCPUS_MAX	4096
#define PC_VMS_MAX	1024
#define PC_HIST_BUCKETS	32	/* bucket n: [2^n, 2^(n+1)) ns; 0 also takes 0 */

/* vcpu.life */
#define PC_VCPU_FREE	0
#define PC_VCPU_NEW	1	/* seen by BPF, the daemon has not set it up yet */
#define PC_VCPU_READY	2	/* set by the daemon: policy runs */
#define PC_VCPU_GONE	3	/* thread exited; the daemon frees the index */

/* Written by BPF. Counters only grow. */
struct pc_vcpu_counters {
	u64 exits;
	u64 wakeups;
	u64 irqs;		/* interrupts or kicks wanted */
	u64 boosts[PC_REASONS];	/* a boost with two reasons counts in both */
	u64 unboosts;
	u64 forced;		/* unboosts by a grant's or budget's end */
	u64 throttles;		/* budget exhaustions */
	u64 boosted_ns;		/* running time under boost */
	u64 running_ns;
	u64 guest_read_errors;	/* region page absent or slot out of range */
	u64 actuations_dropped;	/* ring buffer full */
	u64 wakeup_latency[2][PC_HIST_BUCKETS]; /* wakeup to running: [0] unboosted, [1] boosted */
};

/* Written by the daemon. */
struct pc_vcpu_setup {
	u32 vm;			/* index into vms */
	u32 reserved;
	u64 slot_hva;		/* address of the slot in the VMM; 0: no region */
	u32 guest_line_bytes;	/* as the guest declared, checked */
	u32 guest_features;	/* accepted and offered */
};

struct pc_vcpu {
	u32 life;		/* PC_VCPU_*: BPF sets NEW and GONE, daemon READY and FREE */
	u32 tid;
	u32 tgid;
	u32 vcpu_id;		/* KVM vcpu_id */
	u64 start_ns;		/* thread start: tells a reused tid */
	u32 cpu;		/* last host CPU */
	u32 lock;		/* evaluator of this vCPU; 0: free */
	u32 pending;		/* PC_EV_* posted and not yet evaluated */
	u32 on_cpu;
	u64 wakeup_ns;		/* time of the wakeup not yet followed by running */
	u64 run_since_ns;
	u64 preempt_count_hva;	/* translated preempt_count_gpa; 0: none */
	u64 preempt_count_gpa;	/* the gpa that was translated */
	struct pc_boost_state state;
	struct pc_vcpu_counters counters;
	struct pc_vcpu_setup setup;
};

struct pc_vm {
	struct pc_boost_config config;	/* daemon */
	struct pc_bucket budget;	/* BPF */
	u32 tgid;			/* daemon; 0: free */
	u32 reserved;
};

/* Ring buffer messages to the daemon. */
#define PC_MSG_NEW	1	/* vCPU seen for the first time */
#define PC_MSG_BOOST	2
#define PC_MSG_UNBOOST	3
#define PC_MSG_GONE	4

struct pc_msg {
	u32 kind;		/* PC_MSG_* */
	u32 vcpu;		/* index into vcpus */
	u32 tid;
	u8  reasons;
	u8  forced;
	u8  cause;		/* PC_THROTTLE_* */
	u8  reserved;
	u64 now_ns;		/* time of the decision, CLOCK_MONOTONIC */
};

#endif
