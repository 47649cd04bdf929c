/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the kernel's sched_ext interface that the scheduler uses. The declarations are written by hand and relocated at
 * load time, like those in kernel_types.h. So one object serves all kernels from 6.12 on.
 *
 * Newer kernels have renamed some functions, and expect the arguments of other functions in a structure. Each wrapper calls the
 * newest variant that the kernel has. libbpf ignores "___" and everything after it in a name. Some builds of 7.2 describe a few
 * functions wrongly in their BTF, so that no program can call these functions (docs/ext.md). The only one of these functions that
 * the scheduler uses is scx_bpf_kick_cpu(). For kernels that describe it wrongly, there is a second BPF object, which never calls
 * it.
 */
#ifndef PARACORD_BPF_SCX_H
#define PARACORD_BPF_SCX_H

#define SCX_DSQ_GLOBAL		0x8000000000000001ull
#define SCX_DSQ_LOCAL		0x8000000000000002ull
#define SCX_DSQ_LOCAL_ON	0xc000000000000000ull

/* These constants have had the same values in all kernels so far. The values of the enums below are read from BTF. */
#define SCX_WAKE_EXEC		0x02ull
#define SCX_WAKE_FORK		0x04ull
#define SCX_WAKE_SYNC		0x10ull
#define SCX_ENQ_WAKEUP		1ull
#define SCX_ENQ_PREEMPT		(1ull << 32)
#define SCX_ENQ_REENQ		(1ull << 40)
#define SCX_ENQ_LAST		(1ull << 41)
#define SCX_OPS_ENQ_LAST	(1ull << 1)
#define SCX_KICK_IDLE		1ull
#define SCX_KICK_PREEMPT	2ull
#define SCX_TASK_QUEUED		1u
#define SCX_SLICE_INF		(~0ull)
#define SCX_DSQ_ITER_REV	(1ull << 16)
#define SCX_DEQ_SLEEP		1ull

#define SCHED_OTHER_POLICY	0
#define SCHED_BATCH_POLICY	3
#define SCHED_IDLE_POLICY	5
#define SCHED_EXT_POLICY	7

enum scx_enq_flags {
	SCX_ENQ_CPU_SELECTED = 1 << 20,
	SCX_ENQ_IMMED = 1 << 21,
};

/*
 * The state of a task within task_struct.scx.flags. Since 7.1, the values of the states are already shifted to their place in the
 * flags. Before 7.1, the states are a separate enum, and its values still have to be shifted.
 */
enum scx_ent_flags {
	SCX_TASK_STATE_SHIFT = 8,
	SCX_TASK_STATE_MASK = 7 << 8,
	SCX_TASK_REENQ_IMMED = 2 << 12,
	SCX_TASK_REENQ_REASON_MASK = 7 << 12,
};

enum scx_ent_flags___in_place {
	SCX_TASK_ENABLED___in_place = 4 << 8,
};

enum scx_task_state {
	SCX_TASK_ENABLED = 3,
};

PC_KERNEL_TYPES_BEGIN

struct bpf_iter_meta {
	struct seq_file *seq;
};

/* The context of an iterator over tasks. */
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

enum scx_exit_kind {
	SCX_EXIT_NONE,
};

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
};

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
};

struct scx_cgroup_init_args {
	u32 weight;
};

enum scx_cpu_preempt_reason {
	SCX_CPU_PREEMPT_STOP = 2,
};

struct scx_cpu_release_args {
	enum scx_cpu_preempt_reason reason;
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

PC_KERNEL_TYPES_END

/* The operations of the scheduler. libbpf matches them with the kernel's operations by name. */
struct sched_ext_ops {
	/*
	 * This must be the first member. The loader clears it on kernels that interpret the operation's result the wrong way
	 * round.
	 */
	bool (*core_sched_before)(struct task_struct *a, struct task_struct *b);
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 deq_flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*cpu_release)(s32 cpu, struct scx_cpu_release_args *args);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*disable)(struct task_struct *p);
	s32 (*cgroup_init)(struct cgroup *cgrp, struct scx_cgroup_init_args *args);
	void (*cgroup_exit)(struct cgroup *cgrp);
	void (*cgroup_move)(struct task_struct *p, struct cgroup *from, struct cgroup *to);
	void (*cgroup_set_weight)(struct cgroup *cgrp, u32 weight);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus_allowed, u64 flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
u64 scx_bpf_now(void) __ksym __weak;
u32 scx_bpf_cpuperf_cap(s32 cpu) __ksym;
u32 scx_bpf_cpuperf_cur(s32 cpu) __ksym;
void scx_bpf_cpuperf_set(s32 cpu, u32 perf) __ksym;
const struct cpumask *scx_bpf_get_idle_smtmask(void) __ksym;
void scx_bpf_put_idle_cpumask(const struct cpumask *mask) __ksym;
struct bpf_cpumask *bpf_cpumask_create(void) __ksym;
void bpf_cpumask_release(struct bpf_cpumask *mask) __ksym;
void bpf_cpumask_set_cpu(u32 cpu, struct bpf_cpumask *mask) __ksym;
bool bpf_cpumask_and(struct bpf_cpumask *to, const struct cpumask *one, const struct cpumask *other) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;

void scx_bpf_dsq_insert___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym __weak;
/*
 * Clang before 17 emits no BTF for a function whose name begins with an underscore. Objects built with such a Clang work only on
 * kernels up to 7.3.
 */
#if __clang_major__ >= 17
#define PC_HAVE_PACKED_VTIME
bool __scx_bpf_dsq_insert_vtime(struct task_struct *p,
				struct scx_bpf_dsq_insert_vtime_args *args) __ksym __weak;
#endif
void scx_bpf_dsq_insert_vtime___v1(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				   u64 enq_flags) __ksym __weak;
void scx_bpf_dispatch_vtime___old(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime,
				  u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v2(u64 dsq_id, u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_to_local___v1(u64 dsq_id) __ksym __weak;
bool scx_bpf_consume___old(u64 dsq_id) __ksym __weak;
bool scx_bpf_dsq_move___new(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
			    u64 enq_flags) __ksym __weak;
bool scx_bpf_dispatch_from_dsq___old(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
				     u64 enq_flags) __ksym __weak;
bool scx_bpf_dsq_move_vtime___new(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
				  u64 enq_flags) __ksym __weak;
bool scx_bpf_dispatch_vtime_from_dsq___old(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id,
					   u64 enq_flags) __ksym __weak;
void scx_bpf_dsq_move_set_vtime___new(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym __weak;
void scx_bpf_dispatch_from_dsq_set_vtime___old(struct bpf_iter_scx_dsq *it, u64 vtime) __ksym __weak;
void scx_bpf_reenqueue_local___v2___compat(void) __ksym __weak;
u32 scx_bpf_reenqueue_local___v1(void) __ksym __weak;

s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;

/* Without scx_bpf_kick_cpu(), a running task cannot be migrated (sched_place.h). */
#ifdef PC_HAVE_KICK
#define PC_CAN_KICK	1
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
#else
#define PC_CAN_KICK	0
#endif

/*
 * Return: the run queue clock, which the kernel has just read for its own use. Compare a value of this clock only with other
 * values of this clock.
 */
static __always_inline u64 rq_now(void)
{
	return bpf_ksym_exists(scx_bpf_now) ? scx_bpf_now() : bpf_ktime_get_ns();
}

static __always_inline void insert(struct task_struct *p, u64 dsq_id, u64 slice_ns, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_insert___v1))
		scx_bpf_dsq_insert___v1(p, dsq_id, slice_ns, enq_flags);
	else
		scx_bpf_dispatch___old(p, dsq_id, slice_ns, enq_flags);
}

static __always_inline void insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice_ns, u64 vtime,
					 u64 enq_flags)
{
#ifdef PC_HAVE_PACKED_VTIME
	if (bpf_core_type_exists(struct scx_bpf_dsq_insert_vtime_args)) {
		struct scx_bpf_dsq_insert_vtime_args args = {
			.dsq_id = dsq_id, .slice = slice_ns, .vtime = vtime, .enq_flags = enq_flags,
		};

		__scx_bpf_dsq_insert_vtime(p, &args);
		return;
	}
#endif
	if (bpf_ksym_exists(scx_bpf_dsq_insert_vtime___v1))
		scx_bpf_dsq_insert_vtime___v1(p, dsq_id, slice_ns, vtime, enq_flags);
	else
		scx_bpf_dispatch_vtime___old(p, dsq_id, slice_ns, vtime, enq_flags);
}

/* Moves the current task of an iterator to another DSQ. Return: false if the task has already left its DSQ. */
static __always_inline bool move_to(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move___new))
		return scx_bpf_dsq_move___new(it, p, dsq_id, enq_flags);
	return scx_bpf_dispatch_from_dsq___old(it, p, dsq_id, enq_flags);
}

/*
 * Moves the current task of an iterator to a DSQ that is ordered by virtual time. Return: false if the task has already left its
 * DSQ.
 */
static __always_inline bool move_to_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_vtime___new)) {
		scx_bpf_dsq_move_set_vtime___new(it, vtime);
		return scx_bpf_dsq_move_vtime___new(it, p, dsq_id, 0);
	}
	scx_bpf_dispatch_from_dsq_set_vtime___old(it, vtime);
	return scx_bpf_dispatch_vtime_from_dsq___old(it, p, dsq_id, 0);
}

/* Moves the first task whose affinity allows this CPU from a DSQ to the local DSQ. Return: false if there is no such task. */
static __always_inline bool take(u64 dsq_id)
{
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v2))
		return scx_bpf_dsq_move_to_local___v2(dsq_id, 0);
	if (bpf_ksym_exists(scx_bpf_dsq_move_to_local___v1))
		return scx_bpf_dsq_move_to_local___v1(dsq_id);
	return scx_bpf_consume___old(dsq_id);
}

/* Requeues the tasks of this CPU's local DSQ, possibly on other CPUs. May be called only from cpu_release. */
static __always_inline void reenqueue_local(void)
{
	if (bpf_ksym_exists(scx_bpf_reenqueue_local___v2___compat))
		scx_bpf_reenqueue_local___v2___compat();
	else if (bpf_ksym_exists(scx_bpf_reenqueue_local___v1))
		scx_bpf_reenqueue_local___v1();
}

/*
 * Always true. This function uses struct cpumask to make the compiler emit BTF for this structure, because no other code uses the
 * structure's members. Without this BTF, the functions above that take a pointer to a cpumask would not match the kernel's
 * functions.
 */
static __always_inline bool describes_cpumask(void)
{
	return bpf_core_type_exists(struct cpumask);
}

/*
 * Whether sched_ext schedules a task now. When a scheduler is loaded or unloaded, the kernel switches the tasks to or from
 * sched_ext one by one.
 */
static __always_inline bool is_in_scx(const struct task_struct *p)
{
	u32 enabled;

	if (bpf_core_enum_value_exists(enum scx_task_state, SCX_TASK_ENABLED))
		enabled = bpf_core_enum_value(enum scx_task_state, SCX_TASK_ENABLED)
			  << bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_STATE_SHIFT);
	else
		enabled = bpf_core_enum_value(enum scx_ent_flags___in_place, SCX_TASK_ENABLED___in_place);
	return (p->scx.flags & bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_STATE_MASK)) == enabled;
}

/*
 * Return: the enqueue flag for a task that has to run immediately; 0 if the kernel has no such flag (before 7.1). If a task with
 * this flag cannot run immediately, or if it is preempted, the kernel requeues the task.
 */
static __always_inline u64 enq_immed(void)
{
	if (!bpf_core_enum_value_exists(enum scx_enq_flags, SCX_ENQ_IMMED))
		return 0;
	return bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_IMMED);
}

/* Whether a task is being requeued because it could not run immediately (enq_immed()). */
static __always_inline bool was_refused(const struct task_struct *p)
{
	if (!bpf_core_enum_value_exists(enum scx_ent_flags, SCX_TASK_REENQ_IMMED))
		return false;
	return (p->scx.flags & bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_REENQ_REASON_MASK)) ==
	       bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_REENQ_IMMED);
}

/* Whether select_cpu was called before this enqueue. select_cpu is not called for a task that may run on only one CPU. */
static __always_inline bool cpu_was_selected(u64 enq_flags)
{
	if (!bpf_core_enum_value_exists(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED))
		return enq_flags & SCX_ENQ_WAKEUP;
	return enq_flags & bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_CPU_SELECTED);
}

#endif
