/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The records of the scheduler: one per CPU, one per task.
 *
 * Only code that holds the run queue lock of a CPU writes the pc_rq of this CPU. Mostly, this code runs on the same CPU. The
 * exceptions are:
 * - The sums `queued`, `waiting` and `readers`, which any CPU changes with atomic operations and uses only as hints.
 * - The fields that other CPUs also write: `promotes`, `calls`, `expired`, `left` and `removed`.
 * - The hint `victim` (look_here()), and `timer_ns` (watch_turn()).
 * - The fields that timers, CPU hotplug and the daemon write: `asks`, `requested`, `offline` and `features`.
 *
 * A reader on another CPU may see a half-finished switch. At worst, this causes one preemption too many or too few.
 */
#ifndef PARACORD_BPF_SCHED_RQ_H
#define PARACORD_BPF_SCHED_RQ_H

#include "../policy/core.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_rq);
} rqs SEC(".maps");

/*
 * 1: the kernel has compared tasks for core scheduling at least once (sched_core.h). The variable is volatile, because clang
 * would otherwise make it one byte in the object, but four bytes in BTF.
 */
static volatile u32 has_cookies;

/*
 * Maximum number of CPUs that an idle CPU checks in one search of a ring. A search for a CPU for a boosted thread checks twice as
 * many.
 */
#define PC_STEAL_MAX	16

/* The clamps of a task or group for which no clamps are set. */
static const struct pc_clamp no_clamp = { .min = 0, .max = PC_CAPACITY };

static __always_inline struct pc_rq *rq_of(u32 cpu)
{
	return bpf_map_lookup_elem(&rqs, &cpu);
}

static __always_inline struct pc_task *task_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* One cache line per CPU. */
struct pc_core_line {
	struct pc_core core;
	u64 reserved[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_CPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_core_line);
} cores SEC(".maps");

static __always_inline struct pc_core *core_of(u32 cpu)
{
	struct pc_core_line *line = bpf_map_lookup_elem(&cores, &cpu);

	return line ? &line->core : NULL;
}

/*
 * Whether a task of this CPU and a task of a sibling CPU of the same core were compared within the last PC_CORE_APART_NS. If so,
 * the CPUs of the core take turns.
 */
static __always_inline bool shares_core(u32 cpu, u64 now)
{
	struct pc_core *core = has_cookies ? core_of(cpu) : NULL;

	return core && pc_elapsed_ns(now, READ_ONCE(core->compared_ns)) <= PC_CORE_APART_NS;
}

/*
 * Whether work that is done once per interval is due now. *last_ns: when the work was last done; set to `now` if the work is due.
 */
static __always_inline bool is_due(u64 *last_ns, u64 now, u64 every_ns)
{
	if (pc_elapsed_ns(now, *last_ns) < every_ns)
		return false;
	*last_ns = now;
	return true;
}

/* PC_LEVEL_* of a task. `v`: its vCPU; NULL: the task is not a vCPU. */
static __always_inline u32 level_of(struct pc_vcpu *v)
{
	return v ? READ_ONCE(v->level) : PC_LEVEL_NONE;
}

static __always_inline bool runs_nothing(const struct pc_rq *rq)
{
	return READ_ONCE(rq->runs) == PC_RUNS_NOTHING;
}

/*
 * Return: the flag of enq_immed() for a task that is inserted into the local DSQ of an idle CPU; 0 if the task must not get this
 * flag. `enq_flags`: the flags with which the task is enqueued. A real-time task may take the idle CPU before the inserted task
 * runs. The kernel then does not call cpu_release, because it calls cpu_release only if the CPU was running a task of the
 * scheduler. Without the flag, the inserted task would wait until the real-time task sleeps. The kernel also reports a CPU as
 * idle if the CPU runs the waker, and the waker is about to sleep (SCX_WAKE_SYNC). On such a CPU, the woken task has to wait, so
 * it does not get the flag.
 *
 * A task that was requeued goes to an idle CPU without the flag. With the flag, the task could be requeued from one CPU to the
 * next, and the kernel ejects a scheduler that does this too often. With core scheduling, a CPU is idle while its tasks wait for
 * their core. On such a CPU, the flag would put these tasks behind tasks that came later.
 */
static __always_inline u64 at_once(const struct pc_rq *rq, u64 enq_flags)
{
	return !rq || !runs_nothing(rq) || has_cookies || (enq_flags & SCX_ENQ_REENQ) ? 0 : enq_immed();
}

/* PC_LEVEL_* of the task that runs on a CPU. */
static __always_inline u32 level_on(const struct pc_rq *rq)
{
	u32 runs = READ_ONCE(rq->runs), index = runs - PC_RUNS_VCPU;

	return runs < PC_RUNS_VCPU ? PC_LEVEL_NONE : level_of(bpf_map_lookup_elem(&vcpus, &index));
}

/* Records that the running task of a CPU is a vCPU. Called when the sensor discovers that a running task is a vCPU. */
static __always_inline void runs_as_vcpu(u32 cpu, u32 index)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq && READ_ONCE(rq->runs) == PC_RUNS_TASK)
		WRITE_ONCE(rq->runs, PC_RUNS_VCPU + index);
}

/* Records that the running task of a CPU is no longer a vCPU. */
static __always_inline void runs_as_task(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq && READ_ONCE(rq->runs) >= PC_RUNS_VCPU)
		WRITE_ONCE(rq->runs, PC_RUNS_TASK);
}

/* Whether a CPU runs an ordinary task. An unboosted vCPU is an ordinary task. */
static __always_inline bool runs_ordinary(const struct pc_rq *rq)
{
	return !runs_nothing(rq) && level_on(rq) == PC_LEVEL_NONE;
}

/* Preempts the running task of a CPU at the next tick. */
static __always_inline void preempt_at_tick(struct pc_rq *rq)
{
	WRITE_ONCE(rq->expired, 1);
}

/* Preempts the running task of a CPU now, or at the next tick if scx_bpf_kick_cpu() cannot be called. */
static __always_inline void preempt_cpu(struct pc_rq *rq, u32 cpu)
{
#ifdef PC_HAVE_KICK
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
#else
	preempt_at_tick(rq);
#endif
}

/*
 * Kicks a CPU if it is idle, so that it looks for work. If the CPU was claimed as idle and finds no work, the kernel marks it as
 * idle again.
 */
static __always_inline void wake_idle(u32 cpu)
{
#ifdef PC_HAVE_KICK
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
#endif
}

#endif
