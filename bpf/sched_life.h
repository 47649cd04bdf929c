/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that the kernel calls when CPUs, tasks or the scheduler itself come or go. */
#ifndef PARACORD_BPF_SCHED_LIFE_H
#define PARACORD_BPF_SCHED_LIFE_H

/* One record, which shows why the kernel has unloaded the scheduler. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_ext_exit);
} ext_exit SEC(".maps");

/* Without ext_cpu_online and ext_cpu_offline, the kernel would unload the scheduler when a CPU goes online or offline. */
SEC("struct_ops/ext_cpu_online")
int BPF_PROG(ext_cpu_online, s32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq)
		rq->offline = 0;
	return 0;
}

/*
 * A CPU that goes offline no longer dispatches from its queue. All tasks in this queue, even pinned ones, are moved to the global
 * DSQ. The kernel then finds another CPU for each of them.
 */
SEC("struct_ops/ext_cpu_offline")
int BPF_PROG(ext_cpu_offline, s32 cpu)
{
	struct pc_rq *rq = rq_of(cpu);

	if (rq)
		rq->offline = 1;
	WRITE_ONCE(gone_looks, PC_GONE_LOOKS);
	empty_queue(cpu);
	return 0;
}

/*
 * Return: the most running time that a task can owe when it exits, which is one turn. Without scx_bpf_kick_cpu(), a turn ends at
 * a tick.
 */
static __always_inline u32 most_owed(const struct pc_rq *rq)
{
	return PC_CAN_KICK && rq ? rq->slice_ns : PC_FAIR_TICK_NS;
}

/*
 * Sets the debit of a new task: running time that is charged to the task before it runs for the first time. Usually, the debit is
 * one turn, because a task may owe up to one turn when it exits, and its debt then vanishes. If the previous child of the same
 * parent has exited, the debit of the new task is only the running time of that previous child. So if a parent forks one child
 * after the other, each child pays for the running time of the child before it. Only the previous child counts. If more children
 * counted, a parent could fork many children in advance and use their credit later. A parent that was itself created under the
 * scheduler has already waited for its own debit. Therefore, the first child of such a parent has no debit.
 */
static __always_inline void owe(const struct task_struct *p, struct pc_task *t, struct pc_task *maker)
{
	struct pc_rq *rq = rq_of(bpf_get_smp_processor_id());
	u32 most_ns = most_owed(rq);

	t->birth = PC_BIRTH_NEW | PC_BIRTH_CHILDLESS;
	t->debit_ns = t->unused_ns = most_ns;
	if (!maker)
		return;
	if (maker->birth & PC_BIRTH_CHILDLESS)
		t->debit_ns = 0;
	else
		t->debit_ns -= pc_min_u32(READ_ONCE(maker->credit_ns), most_ns);
	maker->birth &= ~PC_BIRTH_CHILDLESS;
	WRITE_ONCE(maker->credit_ns, 0);
	t->number = ++maker->children;
	maker->last_child = 0;
	/* If the CPU runs no task of the scheduler, the parent belongs to another class. */
	if (!rq || runs_nothing(rq))
		return;
	maker->last_child = p->pid;
	/*
	 * The parent's running time since the last charge_from() will be added to after_ns as a whole. Subtract the part that
	 * lies before the fork.
	 */
	maker->after_ns = -(s32)pc_min_u64(pc_elapsed_ns(rq_now(), rq->cur_since_ns), PC_NSEC_PER_SEC);
}

/*
 * Called when a task exits. Charges the task's running time since its last fork to the child of that fork, because otherwise
 * nobody would pay for this time. In a chain of tasks, each task may still run after it has forked the next one. With this
 * charge, such a chain gets no more CPU time than one task.
 */
static __noinline void leave_debt(const struct pc_task *t, const struct pc_rq *rq)
{
	struct task_struct *child;
	struct pc_task *heir;

	if (!t || t->after_ns <= 0)
		return;
	child = bpf_task_from_pid(t->last_child);
	if (!child)
		return;
	heir = task_of(child);
	/* By now, the thread ID may belong to another task, even to one with another parent. */
	if (heir && heir->number == t->children)
		WRITE_ONCE(heir->owed_ns, pc_min_u32(t->after_ns, most_owed(rq)));
	bpf_task_release(child);
}

/* Adds `ran_ns` to the running time of a task since its last fork. */
static __always_inline void run_after_fork(const struct task_struct *p, struct pc_task *t, const struct pc_rq *rq, u64 ran_ns)
{
	if (t->after_ns < (s32)PC_FAIR_TICK_NS)
		t->after_ns += pc_min_u64(ran_ns, PC_NSEC_PER_SEC);
	if (p->__state & PC_TASK_DEAD)
		leave_debt(t, rq);
}

SEC("struct_ops/ext_init_task")
s32 BPF_PROG(ext_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct pc_task *t = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t)
		return -12;	/* ENOMEM: the fork fails, as it does without the scheduler */
	/*
	 * The record may be left over from an earlier attachment of the scheduler. Keep `vcpu`, because the sensor may discover
	 * at the same time that the task is a vCPU.
	 */
	__builtin_memset(&t->queue, 0, sizeof(*t) - __builtin_offsetof(struct pc_task, queue));
	t->queue = PC_NO_QUEUE;
	if (args->fork)
		owe(p, t, task_of(bpf_get_current_task_btf()));
	t->own = t->clamp = inherited_clamp(args->fork);
	if (bpf_core_field_exists(args->cgroup) && args->cgroup)
		enter_group(t, args->cgroup);
	return 0;
}

/* Subtracts the running time `ran_ns` of a new task from `unused_ns`. If the task exits, the rest becomes its parent's credit. */
static __always_inline void use_debit(struct task_struct *p, struct pc_task *t, u64 ran_ns)
{
	struct pc_task *parent;

	t->unused_ns -= pc_min_u64(ran_ns, t->unused_ns);
	if (!(p->__state & PC_TASK_DEAD) || !t->unused_ns)
		return;
	parent = task_of(p->real_parent);
	if (parent && READ_ONCE(parent->children) == t->number)
		WRITE_ONCE(parent->credit_ns, t->unused_ns);
}

/* Called when a task leaves the scheduler. The task may be waiting at this time, for example if it becomes a real-time task. */
SEC("struct_ops/ext_disable")
int BPF_PROG(ext_disable, struct task_struct *p)
{
	struct pc_task *t = task_of(p);

	if (t) {
		go_to(t, PC_AT_NOWHERE);
		group_leave(t);
		t->waits_ns = 0;
	}
	return 0;
}

/*
 * Clears the record of a CPU. The record may contain values from an earlier attachment of the scheduler. Keeps the fields that
 * the loader and the daemon have set.
 */
static __always_inline void begin_rq(struct pc_rq *rq)
{
	*rq = (struct pc_rq){
		.victim = { rq->near.next[0], rq->near.next[1], rq->near.next[2] },
		.near = rq->near, .slice_ns = rq->slice_ns, .features = rq->features,
		.domain = rq->domain, .capacity = rq->capacity, .offline = rq->offline,
		.tickless = !!rq->tickless,
	};
}

SEC("struct_ops.s/ext_init")
s32 BPF_PROG(ext_init)
{
	struct pc_group *root = group_at(PC_GROUP_ROOT);
	struct pc_rq *rq;
	s32 error;
	int cpu;

	if (root) {
		root->factor = PC_FACTOR_ONE;
		root->clamp.min = root->clamp.max = PC_CAPACITY;
	}
	forget_topology();
	bpf_for(cpu, 0, PC_CPUS_MAX) {
		rq = rq_of(cpu);
		if (!rq)
			break;
		begin_rq(rq);
		error = enter_masks(cpu);
		if (!error)
			error = scx_bpf_create_dsq(cpu, -1);
		if (!error)
			error = make_turn_timer(cpu);
		if (error)
			return error;
	}
	ext_on = 1;
	start_idle_timer();
	return start_park_timer();
}

SEC("struct_ops/ext_exit")
int BPF_PROG(ext_exit_op, struct scx_exit_info *info)
{
	u32 zero = 0;
	struct pc_ext_exit *why = bpf_map_lookup_elem(&ext_exit, &zero);

	ext_on = 0;
	if (!why)
		return 0;
	why->code = info->exit_code;
	bpf_probe_read_kernel_str(why->reason, sizeof(why->reason), info->reason);
	bpf_probe_read_kernel_str(why->message, sizeof(why->message), info->msg);
	__sync_lock_test_and_set(&why->kind, info->kind);
	send_message(PC_MSG_EXT_GONE, 0, 0, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns());
	return 0;
}

#endif
