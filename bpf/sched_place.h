/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Placement of tasks on a host with asymmetric CPUs (policy/energy.h). A task is placed at a wakeup, and from time to time while
 * it runs. The daemon enables this placement (PC_PERF_PLACE) if the kernel has an energy model and the host has CPUs with
 * different capacities.
 *
 * As long as a CPU has the capacity that its tasks request, no other CPU pulls tasks from it. Without this rule, the next idle CPU
 * would undo a placement by energy.
 */
#ifndef PARACORD_BPF_SCHED_PLACE_H
#define PARACORD_BPF_SCHED_PLACE_H

/* Interval at which a task that runs without sleeping is placed again. */
#define PC_PLACE_EVERY_NS	(32 * PC_NSEC_PER_MSEC)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_energy);
} energy SEC(".maps");

/* The data of one placement. The data is too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_place);
} places SEC(".maps");

/* The contribution of a task to the sum of the CPU where the task is, or where it went to sleep. */
static __always_inline u32 own_part(const struct pc_task *t, u64 now)
{
	if (!t->perf.slept_ns)
		return t->perf.contribution;
	return pc_perf_part(&t->perf, pc_elapsed_ns(now, t->seen_ns)) >> PC_CAPACITY_SHIFT;
}

/*
 * Adds a CPU to a placement. `own`: the contribution of the task to the sum of this CPU. Return: 0 if there is no such CPU. This
 * function and place_choose() are global, because the verifier checks a global function only once, and not for each state of its
 * callers.
 */
__noinline int place_look(struct pc_place *notes, u32 cpu, u32 own, u32 allowed)
{
	struct pc_rq *rq = rq_of(cpu);
	u32 sum;

	if (!rq || !notes)
		return 0;
	if (rq->offline)
		return 1;
	sum = sum_of(rq, rq_now());
	pc_place_look(notes, rq->domain, cpu, sum - pc_min_u32(sum, own), rq->capacity, allowed);
	return 1;
}

__noinline int place_choose(const struct pc_energy *model, const struct pc_place *notes)
{
	if (!model || !notes)
		return -1;
	return pc_place_choose(model, notes);
}

/* Return: the CPU where a task costs the least energy; `prev` if no CPU is better; negative if the kernel should choose. */
static __noinline s32 place(struct task_struct *p, struct pc_task *t, s32 prev)
{
	u32 zero = 0, own = 0, cpus, request;
	struct pc_place *notes = bpf_map_lookup_elem(&places, &zero);
	struct pc_energy *model = bpf_map_lookup_elem(&energy, &zero);
	s32 cpu;

	if (!notes || !model || !t || !p || !describes_cpumask())
		return -1;
	cpus = model->cpus;
	/*
	 * Assume that a new task requests half of the capacity of a small CPU. The kernel assumes the same
	 * (post_init_entity_util_avg()).
	 */
	request = t->known ? pc_perf_request(&t->perf, t->clamp) : pc_clamped(model->small / 2, t->clamp);
	if (t->known)
		own = own_part(t, rq_now());
	pc_place_begin(notes, request, prev);
	bpf_for(cpu, 0, PC_PLACE_CPUS_MAX) {
		u32 part = t->queue == (u32)cpu ? own : 0;

		if (cpu >= (s32)cpus || !place_look(notes, cpu, part, bpf_cpumask_test_cpu(cpu, p->cpus_ptr)))
			break;
	}
	return place_choose(model, notes);
}

/* If a vCPU's guest has begun to request more than the capacity of the CPU, marks the vCPU as due for a new placement. */
static __always_inline void place_soon(struct pc_task *t, const struct pc_rq *rq, u32 floor_before)
{
	if (t->clamp.min > floor_before && t->clamp.min > rq->capacity)
		t->placed_ns = 0;
}

/*
 * Whether a boosted vCPU that wakes is to be placed by energy. If its guest requests more than the capacity of the CPU, the vCPU
 * is placed at each wakeup. Otherwise, the vCPU is placed once per PC_PLACE_EVERY_NS, even if its guest makes no request. Without
 * this periodic placement, a vCPU that has moved to a large CPU because of an interrupt would stay there, because the vCPU finds
 * that CPU idle at each wakeup.
 */
static __always_inline bool place_is_due(struct pc_task *t, const struct pc_rq *rq, u64 now)
{
	return is_due(&t->placed_ns, now, t->clamp.min <= rq->capacity ? PC_PLACE_EVERY_NS : 0);
}

/*
 * Checks whether a running task should migrate. If so, ends the task's slice. ext_enqueue then moves the task when it is
 * requeued.
 */
static __always_inline void place_running(struct task_struct *p, struct pc_task *t, u32 cpu, u64 now)
{
	s32 better;

	if (!PC_CAN_KICK || is_pinned(p) || !is_due(&t->placed_ns, now, PC_PLACE_EVERY_NS))
		return;
	better = place(p, t, cpu);
	if (better < 0 || better == (s32)cpu || better >= PC_PLACE_CPUS_MAX)
		return;
	go_to(t, PC_AT(PC_AT_LEAVE, better + 1));
	p->scx.slice = 0;
}

/*
 * Moves a task to its destination. `to`: CPU + 1; 0: no destination. Return: false if there is no destination, or if the task may
 * no longer run there.
 */
static __always_inline bool moves(struct task_struct *p, struct pc_task *t, u32 to, u64 slice_ns, u64 enq_flags)
{
	u32 cpu = to - 1;
	struct pc_rq *rq;

	if (!to)
		return false;
	rq = rq_of(cpu);
	if (!rq || rq->offline || is_pinned(p) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return false;
	insert_local(p, t, cpu, slice_ns, enq_flags);
	return true;
}

#endif
