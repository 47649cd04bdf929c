/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types that the sensor uses. They are written by hand instead of being taken from one kernel's vmlinux.h. Field
 * offsets are relocated at load time (CO-RE). So the object can be built without the vmlinux.h of any kernel, and can be loaded
 * into kernels with different offsets. Only the names and types of the fields matter here, not their order.
 */
#ifndef PARACORD_BPF_KERNEL_TYPES_H
#define PARACORD_BPF_KERNEL_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define true 1
#define false 0

/* Tell the headers in policy/ and abi/ that the integer types are defined here. */
#define PARACORD_HAVE_KERNEL_TYPES
#define PARACORD_ABI_NO_TYPES

/* Constants from include/uapi/linux/bpf.h. bpf_helpers.h declares the BPF helper functions, but not these constants. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
};

/* task_struct.flags (include/linux/sched.h) */
#define PC_PF_EXITING			0x00000004u
#define PC_PF_KTHREAD			0x00200000u
/* task_struct.__state of a task that is switched out for the last time */
#define PC_TASK_DEAD			0x80

#define BPF_ANY				0
#define BPF_NOEXIST			1
#define BPF_F_NO_PREALLOC		(1U << 0)
#define BPF_F_MMAPABLE			(1U << 10)
#define BPF_RB_FORCE_WAKEUP		(1ULL << 1)
#define BPF_LOCAL_STORAGE_GET_F_CREATE	(1ULL << 0)
#define CLOCK_MONOTONIC			1

/* These two macros enclose the kernel's own types. A native build (crates/sim) uses the types as they are written here. */
#ifdef __bpf__
#define PC_KERNEL_TYPES_BEGIN \
	_Pragma("clang attribute push(__attribute__((preserve_access_index)), apply_to = record)")
#define PC_KERNEL_TYPES_END	_Pragma("clang attribute pop")
#else
#define PC_KERNEL_TYPES_BEGIN
#define PC_KERNEL_TYPES_END
#endif

PC_KERNEL_TYPES_BEGIN

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct bpf_local_storage;

struct cgroup {
	int level;
};

/* include/uapi/linux/bpf.h */
struct bpf_timer {
	__u64 opaque[2];
};

/* The iterator of libbpf's bpf_for(). */
struct bpf_iter_num {
	__u64 opaque[1];
};

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_queued;
};

struct rq;

/* For tasks of all classes, se.cfs_rq->rq is the run queue of the task's CPU. */
struct cfs_rq {
	struct rq *rq;
	unsigned int h_nr_queued;
};

/* Before 6.14, h_nr_queued was called h_nr_running. */
struct cfs_rq___old {
	unsigned int h_nr_running;
};

struct rq {
	u64 clock;
	u64 clock_pelt;
	struct cfs_rq cfs;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

/* This type appears in the signatures of kfuncs (describes_cpumask()). */
struct cpumask {
	unsigned long bits[1];
};

/* A cpumask that a BPF program creates (kernel/bpf/cpumask.c). */
struct bpf_cpumask {
	struct cpumask cpumask;
};

/* The sched_ext part of a task, which the scheduler reads and writes (kernel/sched/ext). */
struct sched_ext_entity {
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

struct uclamp_se {
	unsigned int value : 11;
	unsigned int user_defined : 1;
};

union rcu_special {
	struct {
		u8 blocked;
	} b;
};

/* The values of cpu.max and cpu.idle of a cgroup (kernel/sched). The kernel maintains these values under any scheduler. */
struct cfs_bandwidth {
	s64 period;
	u64 quota;
	u64 burst;
};

struct task_group {
	int idle;
	struct cfs_bandwidth cfs_bandwidth;
	struct task_group *parent;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int prio;
	int static_prio;
	unsigned int policy;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	unsigned short migration_disabled;
	struct sched_ext_entity scx;
	int pid;
	int tgid;
	u64 start_boottime;
	struct hlist_head preempt_notifiers;
	struct bpf_local_storage *bpf_storage;
	union rcu_special rcu_read_unlock_special;
	struct sched_info sched_info;
	struct sched_entity se;
	struct task_group *sched_task_group;
	struct task_struct *real_parent;
	struct uclamp_se uclamp_req[2];	/* UCLAMP_MIN, UCLAMP_MAX */
};

struct preempt_notifier {
	struct hlist_node link;
};

struct vm_area_struct {
	unsigned long vm_flags;
};

struct cpufreq_cpuinfo {
	unsigned int max_freq;
};

struct cpufreq_policy {
	struct cpufreq_cpuinfo cpuinfo;
	unsigned int cur;
};

/* Since 5.17, KVM keeps memory slots in an interval tree, and in a tree that is ordered by gfn (virt/kvm). */
struct kvm_memory_slot {
	struct rb_node gfn_node[2];
	u64 base_gfn;
	unsigned long npages;
	unsigned long userspace_addr;
	u32 flags;
};

struct kvm_memslots {
	u64 generation;
	struct rb_root gfn_tree;
	int node_idx;
};

/* arm64 */
struct kvm_arch {
	unsigned long vcpu_features[1];
};

struct kvm {
	struct kvm_memslots *memslots[1];
	struct kvm_arch arch;
};

struct kvm_vcpu {
	struct kvm *kvm;
	struct preempt_notifier preempt_notifier;
	int vcpu_id;
};

PC_KERNEL_TYPES_END

#endif
