/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads get records: vCPUs at their first VM exit, and, as the daemon says, the other threads of a VMM: they work for its one
 * VM, and what that waits for waits for them. Those are boosted when they wake, as vCPUs are, out of budgets of the same kind.
 */
#ifndef PARACORD_BPF_ADOPT_H
#define PARACORD_BPF_ADOPT_H

/* Weak: kernels without them (before 6.2) are not given the program that calls them (crates/sensor/src/load.rs). */
#ifndef PC_EXT
struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
void bpf_task_release(struct task_struct *p) __ksym __weak;
#endif

/*
 * Charges a user for one more record. *uid becomes PC_UID_OTHERS for one too many to be told apart. Return: what was
 * charged, NULL where nothing is (root, no limit); *refused if the quota is used up.
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
	/* Below 0 for a user who was forgotten while it took one. */
	held = (s32)(__sync_fetch_and_add(taken, 1) - (returned ? *(volatile u32 *)returned : 0));
	if (held < (s32)a->per_user)
		return taken;
	__sync_fetch_and_add(taken, -1);
	*refused = true;
	return NULL;
}

/* Which vCPU of KVM's a record is. */
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

/* VM exit of a thread that was not switched in as a vCPU: its first. */
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
	/* More vCPUs than indices: this thread is served by stock scheduling. */
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
	/* The daemon has given it one meanwhile: the next exit makes a vCPU of that. */
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
	*(volatile u32 *)&v->life = PC_VCPU_NEW;
	if (send_message(PC_MSG_NEW, index, v->tid, PC_LEVEL_NONE, NULL, v->run_since_ns))
		v->counters.actuations_dropped++;
	return 0;
}

/*
 * A thread of a VMM's own has its first VM exit: it was found before it entered its guest. It keeps its record, and its boost;
 * the daemon makes that of a vCPU of it. One that its user's quota has no room for stays what it was.
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
	*(volatile u32 *)&v->entered = PC_ENTERED_YES;
	send_message(PC_MSG_NEW, index, v->tid, PC_LEVEL_NONE, NULL, bpf_ktime_get_ns());
	return 0;
}

/*
 * The daemon gives a thread of process `tgid` the record of an index that it has taken. `found`: it lives, and had none.
 *
 * A thread that ends says so once (sensor_gone), after it has set PF_EXITING: who comes later sees the other one's mark.
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
			call->found = !(*(volatile unsigned int *)&task->flags & PC_PF_EXITING) ||
				      __sync_val_compare_and_swap(&t->vcpu, index + 1, 0) != index + 1;
	}
	bpf_task_release(task);
	return 0;
}

#endif
