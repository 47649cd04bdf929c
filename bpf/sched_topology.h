/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The topology of the machine. The loader writes it into the records of the CPUs (crates/policy/src/topology.rs) as three rings:
 * the CPUs that share a last-level cache, the CPUs of a node, and all CPUs. The CPUs of each cache and of each node are also kept
 * as a cpumask, for the kernel's search for an idle CPU.
 *
 * A task that wakes stays in its node, because its memory is in this node, and the kernel's automatic NUMA balancing does not run
 * for tasks of sched_ext. An idle CPU of another node pulls a task only after the task has waited for a short time. Busy CPUs
 * balance the remaining differences: they pull tasks from another node a few times per second (policy/balance.h).
 */
#ifndef PARACORD_BPF_SCHED_TOPOLOGY_H
#define PARACORD_BPF_SCHED_TOPOLOGY_H

#include "../policy/balance.h"

/* Flag for the kernel's search for an idle CPU: find only a CPU whose core has no busy hardware thread. */
#define SCX_PICK_IDLE_CORE	1ull

/*
 * A cpumask that the scheduler has created. The typedef is needed because Clang 14 loses the type tag of a pointer to a structure,
 * but not that of a pointer to a typedef of the structure.
 */
typedef struct bpf_cpumask pc_cpumask;

struct pc_mask {
	pc_cpumask __kptr *cpus;
};

/* Indices of masks: a scratch mask for each CPU, then a mask for each node, then a mask for each cache. */
#define PC_MASK_NODE	PC_CPUS_MAX
#define PC_MASK_CACHE	(PC_MASK_NODE + PC_NODES_MAX)
#define PC_MASKS	(PC_MASK_CACHE + PC_CACHES_MAX)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_MASKS);
	__type(key, u32);
	__type(value, struct pc_mask);
} masks SEC(".maps");

/* The record of a node, on a cache line of its own. */
struct pc_node {
	u64 crossed_ns;		/* when a busy CPU of this node last pulled a task from another node */
	u64 pace;		/* average pace of the node's busy CPUs (tell_pace()), written by each of these CPUs */
	u64 reserved[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_NODES_MAX);
	__type(key, u32);
	__type(value, struct pc_node);
} nodes SEC(".maps");

/* Whether the machine has several nodes. If it has only one, there are no masks, and no code looks up a mask. */
static __always_inline bool has_nodes(const struct pc_rq *rq)
{
	return rq->near.node != PC_NO_NODE;
}

/* The widest ring that stays within the node of a CPU. */
static __always_inline u32 widest_in_node(const struct pc_rq *rq)
{
	u32 ring = rq->near.within;

	return ring < PC_NEAR_LEVELS ? ring : PC_NEAR_ALL;
}

/* Return: the mask with this index; NULL: none. All masks are created before the scheduler is enabled. */
static __always_inline struct bpf_cpumask *mask_at(u32 index)
{
	struct pc_mask *mask = bpf_map_lookup_elem(&masks, &index);

	return mask ? mask->cpus : NULL;
}

/* Replaces a mask, and releases the old one. `made`: the new mask; NULL: none. */
static __always_inline void set_mask(struct pc_mask *mask, struct bpf_cpumask *made)
{
	struct bpf_cpumask *before = bpf_kptr_xchg(&mask->cpus, made);

	if (before)
		bpf_cpumask_release(before);
}

PC_VERIFIED_ALONE s32 make_mask(u32 index)
{
	struct pc_mask *mask = bpf_map_lookup_elem(&masks, &index);
	struct bpf_cpumask *made;

	if (!mask)
		return -22;	/* EINVAL */
	made = bpf_cpumask_create();
	if (!made)
		return -12;	/* ENOMEM */
	set_mask(mask, made);
	return 0;
}

/* Adds a CPU to a mask. Return: 0 if the mask does not exist yet. */
PC_VERIFIED_ALONE int enter_mask(u32 index, u32 cpu)
{
	struct bpf_cpumask *mask;

	bpf_rcu_read_lock();
	mask = mask_at(index);
	if (mask)
		bpf_cpumask_set_cpu(cpu, mask);
	bpf_rcu_read_unlock();
	return mask != NULL;
}

PC_VERIFIED_ALONE s32 enter_or_make(u32 index, u32 cpu)
{
	s32 error;

	if (enter_mask(index, cpu))
		return 0;
	error = make_mask(index);
	if (!error)
		enter_mask(index, cpu);
	return error;
}

PC_VERIFIED_ALONE int drop_mask(u32 index)
{
	struct pc_mask *mask = bpf_map_lookup_elem(&masks, &index);

	if (mask)
		set_mask(mask, NULL);
	return 0;
}

/* Clears what is left over from an earlier attachment of the scheduler: masks, the records of nodes, and the homes of VMs. */
static __always_inline void forget_topology(void)
{
	u32 index;

	bpf_for(index, 0, PC_MASKS)
		drop_mask(index);
	bpf_for(index, 0, PC_NODES_MAX) {
		struct pc_node *n = bpf_map_lookup_elem(&nodes, &index);

		if (n)
			n->pace = n->crossed_ns = 0;
	}
	/* While the scheduler was not loaded, the kernel may have moved a VM and its memory to another node. */
	bpf_for(index, 0, PC_VMS_MAX) {
		struct pc_vm *vm = bpf_map_lookup_elem(&vms, &index);

		if (vm)
			vm->home = 0;
	}
}

/* Makes the scratch mask of a CPU, and adds the CPU to the masks of its node and cache. Return: 0, or a negative error number. */
PC_VERIFIED_ALONE s32 enter_masks(u32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);
	s32 error;

	if (!rq || !has_nodes(rq) || !bpf_core_type_exists(struct bpf_cpumask))
		return 0;
	error = make_mask(cpu);
	if (!error)
		error = enter_or_make(PC_MASK_NODE + rq->near.node, cpu);
	if (!error && rq->near.cache != PC_NO_CACHE)
		error = enter_or_make(PC_MASK_CACHE + rq->near.cache, cpu);
	return error;
}

/*
 * Finds an idle CPU of a mask for a task. Return: the CPU; negative if there is none. The function builds the intersection of the
 * mask and the task's affinity in the scratch mask of this CPU. Timer callbacks must not call this function, because they may
 * interrupt another call on the same CPU.
 */
static __always_inline s32 idle_in(u32 index, const struct task_struct *p, u64 flags)
{
	struct bpf_cpumask *set = mask_at(index), *both = mask_at(bpf_get_smp_processor_id());

	if (!set || !both || !bpf_cpumask_and(both, (const struct cpumask *)set, p->cpus_ptr))
		return -1;
	return scx_bpf_pick_idle_cpu((const struct cpumask *)both, flags);
}

/* Whether a CPU and the other hardware threads of its core are idle. */
static __always_inline bool is_idle_core(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_smtmask();
	bool is = bpf_cpumask_test_cpu(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return is;
}

/*
 * Finds an idle CPU in the node where a task ran last. `prev`: the CPU where the task ran last; the task's affinity must allow
 * this CPU. Return: the CPU; negative if none is idle. The search is like that of scx_select_cpu_dfl(), but does not continue in
 * other nodes. The search prefers an idle core, because the hardware threads of a core share its capacity.
 */
static __noinline s32 idle_in_node(struct task_struct *p, s32 prev)
{
	struct pc_rq *rq = rq_of(prev);
	u32 cache, node;
	s32 cpu;

	if (!p || !rq)
		return -1;
	node = PC_MASK_NODE + rq->near.node;
	cache = rq->near.cache == PC_NO_CACHE ? node : PC_MASK_CACHE + rq->near.cache;
	cpu = idle_in(cache, p, SCX_PICK_IDLE_CORE);
	if (cpu < 0 && cache != node)
		cpu = idle_in(node, p, SCX_PICK_IDLE_CORE);
	if (cpu >= 0)
		return cpu;
	if (scx_bpf_test_and_clear_cpu_idle(prev))
		return prev;
	cpu = idle_in(cache, p, 0);
	return cpu < 0 && cache != node ? idle_in(node, p, 0) : cpu;
}

/*
 * Whether a task of a higher class has occupied a CPU for at least PC_CROSS_WAIT_NS. The result may also be true for an idle CPU,
 * so this function is called only for CPUs that are not idle.
 */
static __always_inline bool is_taken(const struct pc_rq *rq, u64 now)
{
	return runs_nothing(rq) && pc_elapsed_ns(now, READ_ONCE(rq->pace_ns)) >= PC_CROSS_WAIT_NS;
}

static __always_inline struct pc_vm *vm_of(const struct pc_vcpu *v)
{
	u32 number = v->setup.vm;

	return bpf_map_lookup_elem(&vms, &number);
}

/*
 * Return: the home node of a task's VM, plus 1; 0: none. A vCPU record that is not set up yet, or whose VM is gone, may refer to
 * another VM, so the function compares the processes.
 */
static __always_inline u32 home_of(const struct pc_task *t)
{
	u32 index;
	struct pc_vcpu *v = vcpu_of(t, &index);
	struct pc_vm *vm = v ? vm_of(v) : NULL;

	return vm && vm->tgid == v->tgid ? vm->home : 0;
}

/*
 * Finds an idle CPU in the home node of a VM for a thread of this VM that wakes outside the home node. Return: the CPU; negative
 * if none is idle, or if the thread last ran in the home node. If the core where the thread last ran is idle, the thread goes
 * only to an idle core, and not to an idle hardware thread of a busy core.
 */
static __always_inline s32 idle_at_home(struct task_struct *p, const struct pc_task *t, const struct pc_rq *rq, s32 prev)
{
	u32 home = has_nodes(rq) && t->vcpu ? home_of(t) : 0;

	if (!home || home > PC_NODES_MAX || home == rq->near.node + 1)
		return -1;
	return idle_in(PC_MASK_NODE + home - 1, p, is_idle_core(prev) ? SCX_PICK_IDLE_CORE : 0);
}

/*
 * Finds an idle CPU for a task that wakes, is new or calls execve(2). Return: the CPU; `prev` if there is none. A task that is
 * new or calls execve(2) may go to any node, because it has no memory in any node yet.
 */
static __always_inline s32 idle_for(struct task_struct *p, s32 prev, u64 wake_flags, bool *is_idle)
{
	struct pc_rq *rq = rq_of(prev);
	bool allowed = bpf_cpumask_test_cpu(prev, p->cpus_ptr);
	s32 cpu;

	/* The kernel's search also begins with this check, but takes longer. */
	if (allowed && is_idle_core(prev) && scx_bpf_test_and_clear_cpu_idle(prev)) {
		*is_idle = true;
		return prev;
	}
	if (!rq || !has_nodes(rq) || !allowed || (wake_flags & (SCX_WAKE_FORK | SCX_WAKE_EXEC)))
		return scx_bpf_select_cpu_dfl(p, prev, wake_flags, is_idle);
	cpu = idle_in_node(p, prev);
	if (cpu < 0 && is_taken(rq, rq_now()))
		cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	*is_idle = cpu >= 0;
	return *is_idle ? cpu : prev;
}

/*
 * Called when a thread of a VM begins to run. If the thread is a vCPU that the daemon has set up, and the VM has no home node
 * yet, the current node becomes the VM's home node. The reason is that this vCPU will be among the first to touch the VM's memory,
 * and the kernel allocates memory on the node where it is first touched.
 */
static __always_inline void find_home(const struct pc_vcpu *v, const struct pc_rq *rq)
{
	struct pc_vm *vm = READ_ONCE(v->life) == PC_VCPU_READY && !v->setup.io ? vm_of(v) : NULL;

	if (vm && !vm->home)
		vm->home = rq->near.node + 1;
}

/*
 * How long a task waits in the queue of the CPU of `from` before an idle CPU of another node pulls the task. `to`: the other
 * node, plus 1; 0: any node.
 */
static __always_inline u64 crossing_ns(const struct pc_task *t, const struct pc_rq *from, u32 to)
{
	u32 home = home_of(t);

	return pc_cross_wait_ns(home ? home : PC_NO_HOME, from->near.node + 1, to);
}

/*
 * Finds an idle CPU for a task that waits on the CPU of `rq`. Return: the idle CPU; negative if there is none. A CPU of another
 * node is used only if the task has waited for crossing_ns(), or if a task of a higher class has occupied the CPU of `rq` for
 * some time.
 */
static __noinline s32 idle_cpu_for(struct task_struct *p, struct pc_task *t, const struct pc_rq *rq, u64 now)
{
	s32 cpu;

	if (!p || !t || !rq)
		return -1;
	if (has_nodes(rq)) {
		cpu = idle_in(PC_MASK_NODE + rq->near.node, p, 0);
		if (cpu >= 0)
			return cpu;
		if (!is_taken(rq, now) && (!t->waits_ns || pc_elapsed_ns(now, t->waits_ns) < crossing_ns(t, rq, 0)))
			return -1;
	}
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

#endif
