/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Assigns vCPU records to threads. A vCPU thread gets its record at its first VM exit. Any other thread of a VMM gets a record
 * only if the daemon requests one for it. The daemon does so if the VMM runs only one VM, the thread works for this VM, and the
 * VM waits for the thread. Like a vCPU thread, such a thread is boosted when it wakes. It has the same kinds of budgets as a vCPU
 * thread.
 */
#ifndef PARACORD_BPF_ADOPT_H
#define PARACORD_BPF_ADOPT_H

/*
 * These declarations are weak, because kernels before 6.2 do not have these functions. Only sensor_adopt() calls the functions.
 * The loader does not load sensor_adopt() on kernels before 6.10, because these kernels do not let a syscall program look up
 * tasks (crates/sensor/src/load.rs).
 */
#ifndef PC_EXT
struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
void bpf_task_release(struct task_struct *p) __ksym __weak;
#endif

/*
 * Charges a user for one more record. *uid becomes PC_UID_OTHERS if there are too many users to count them separately. Return:
 * the counter that was charged; NULL if the user is root, if there is no limit, or if the user's quota is used up. *refused:
 * whether the quota is used up.
 */
static __always_inline u32 *charge_user(const struct pc_adoption *a, u32 *uid, bool *refused)
{
	u32 zero = 0, *taken, *returned;
	s32 held;

	*refused = false;
	if (!*uid || !a->per_user)
		return NULL;
	taken = bpf_map_lookup_elem(&user_taken, uid);
	if (!taken) {
		bpf_map_update_elem(&user_taken, uid, &zero, BPF_NOEXIST);
		taken = bpf_map_lookup_elem(&user_taken, uid);
	}
	if (!taken) {
		*uid = PC_UID_OTHERS;
		taken = bpf_map_lookup_elem(&user_taken, uid);
		if (!taken) {
			*refused = true;
			return NULL;
		}
	}
	returned = bpf_map_lookup_elem(&user_returned, uid);
	/* `held` is negative if the daemon forgot the user while the user took a record. */
	held = (s32)(__sync_fetch_and_add(taken, 1) - (returned ? READ_ONCE(*returned) : 0));
	if (held < (s32)a->per_user)
		return taken;
	__sync_fetch_and_add(taken, -1);
	*refused = true;
	return NULL;
}

/*
 * Links a vCPU record to KVM's vCPU: stores the address and the ID of the struct kvm_vcpu in the record, and adds the address to
 * the map kvm_vcpus.
 */
static __always_inline void know_vcpu(struct pc_vcpu *v, struct kvm_vcpu *kvm_vcpu, u32 index)
{
	u64 key = (u64)kvm_vcpu;

	v->kvm_vcpu = key;
	v->vcpu_id = ~0u;
	if (kvm_vcpu && bpf_core_type_exists(struct kvm_vcpu)) {
		v->vcpu_id = BPF_CORE_READ(kvm_vcpu, vcpu_id);
		bpf_map_update_elem(&kvm_vcpus, &key, &index, BPF_ANY);
	}
}

/*
 * Gives the current thread a record. Called at a VM exit of a thread that was not switched in as a vCPU: at the first exit of a
 * thread, and at each exit of a thread that was refused a record. Return: 0.
 */
__noinline int adopt_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct kvm_vcpu *kvm_vcpu = task_kvm_vcpu(task);
	u32 index, cpu = bpf_get_smp_processor_id(), uid = bpf_get_current_uid_gid(), zero = 0, *charged;
	struct pc_adoption *a = bpf_map_lookup_elem(&adoption, &zero);
	struct pc_task *t;
	struct pc_vcpu *v;
	struct pc_cpu *here;
	bool refused;

	t = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!a || !t || t->vcpu)
		return 0;
	charged = charge_user(a, &uid, &refused);
	if (refused) {
		t->vcpu = PC_NO_INDEX;
		__sync_fetch_and_add(&a->refused, 1);
		return 0;
	}
	/* If no index is free, the thread gets no record, and is never boosted. */
	if (bpf_map_pop_elem(&free_indices, &index)) {
		t->vcpu = PC_NO_INDEX;
		__sync_fetch_and_add(&a->full, 1);
		if (charged)
			__sync_fetch_and_add(charged, -1);
		return 0;
	}
	v = bpf_map_lookup_elem(&vcpus, &index);
	if (!v)
		return 0;
	v->tid = task->pid;
	v->tgid = task->tgid;
	v->start_ns = task->start_boottime;
	v->uid = uid;
	v->charged = charged != NULL;
	v->task = (u64)task;
	v->cpu = cpu;
	v->on_cpu = 1;
	v->run_since_ns = bpf_ktime_get_ns();
	know_vcpu(v, kvm_vcpu, index);
	/*
	 * In the meantime, the daemon may have given the thread a record as a non-vCPU thread (sensor_adopt()). Then keep the
	 * daemon's record, and free the new one. At a later VM exit of the thread, become_vcpu() turns the daemon's record into
	 * a vCPU's record.
	 */
	if (__sync_val_compare_and_swap(&t->vcpu, 0, index + 1)) {
		v->kvm_vcpu = 0;
		v->task = 0;
		bpf_map_push_elem(&free_indices, &index, 0);
		if (charged)
			__sync_fetch_and_add(charged, -1);
		return 0;
	}
	here = bpf_map_lookup_elem(&cpus, &cpu);
	if (here)
		here->running = index + 1;
#ifdef PC_EXT
	runs_as_vcpu(cpu, index);
#endif
	WRITE_ONCE(v->life, PC_VCPU_NEW);
	if (send_message(PC_MSG_NEW, index, v->tid, PC_LEVEL_NONE, NULL, v->run_since_ns))
		v->counters.actuations_dropped++;
	return 0;
}

/*
 * Called at the first VM exit of a thread that the daemon adopted as a non-vCPU thread. The thread keeps its record and its
 * boost, and the daemon turns the record into a vCPU's record. If the user's quota has no room for another vCPU, the thread still
 * counts as a non-vCPU thread, and keeps its record.
 */
static __noinline int become_vcpu(u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	u32 uid = bpf_get_current_uid_gid(), zero = 0, *charged;
	struct pc_adoption *a = bpf_map_lookup_elem(&adoption, &zero);
	bool refused;

	if (!v || !a)
		return 0;
	charged = charge_user(a, &uid, &refused);
	if (refused) {
		v->entered = PC_ENTERED_REFUSED;
		__sync_fetch_and_add(&a->refused, 1);
		return 0;
	}
	v->uid = uid;
	v->charged = charged != NULL;
	know_vcpu(v, task_kvm_vcpu(task), index);
	WRITE_ONCE(v->entered, PC_ENTERED_YES);
	send_message(PC_MSG_NEW, index, v->tid, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns());
	return 0;
}

/*
 * Gives a record to a thread of process `tgid`, on behalf of the daemon. Members of `call`: `index` is the index of a free record
 * that the daemon has taken for the thread; `found` tells whether the thread is alive and had no record.
 *
 * A thread that exits sets PF_EXITING, and then clears pc_task.vcpu once (retire()). So if this program and the exit of the
 * thread run at the same time, at least one of the two sees what the other one has written.
 */
SEC("syscall")
int sensor_adopt(struct pc_adopt_call *call)
{
	struct task_struct *task;
	struct pc_vcpu *v;
	struct pc_task *t;
	u32 index = call->index;

	call->found = 0;
	v = bpf_map_lookup_elem(&vcpus, &index);
	task = bpf_task_from_pid(call->tid);
	if (!task)
		return 0;
	t = bpf_task_storage_get(&tasks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (v && t && task->tgid == (int)call->tgid) {
		v->start_ns = task->start_boottime;
		v->task = (u64)task;
		v->run_since_ns = bpf_ktime_get_ns();
		if (!__sync_val_compare_and_swap(&t->vcpu, 0, index + 1))
			call->found = !(READ_ONCE(task->flags) & PC_PF_EXITING) ||
				      __sync_val_compare_and_swap(&t->vcpu, index + 1, 0) != index + 1;
	}
	bpf_task_release(task);
	return 0;
}

#endif
