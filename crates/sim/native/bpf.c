// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compiles the unchanged scheduler and sensor for this machine. All of their globals are in two separate sections,
 * so that each simulated machine can have a copy of them (crates/sim/src/bpf/globals.rs).
 */
#pragma clang section bss = "sim_bpf_bss" data = "sim_bpf_data"
#define PC_HAVE_KICK
/* The first change of a task's state that is not allowed: 1, the state before, the state after, in 16 bits each. */
unsigned long long sim_bad_step;
#define PC_CHECK_STEP(was, is)                                                                                   \
	do {                                                                                                     \
		if (!sim_bad_step && !state_follows(state_of(was), state_of(is)))                               \
			sim_bad_step = 1ull << 32 | state_of(was) << 16 | state_of(is);                         \
	} while (0)
#include "../../../bpf/ext.bpf.c"

/* A counter that loses updates. The test of races must find this planted fault (tests/races.rs). */
u64 sim_planted;

void sim_plant(void)
{
	u64 before = sim_planted;

	bpf_ktime_get_ns();
	sim_planted = before + 1;
}

/* Functions with which tests call helpers (tests/helpers.rs). */

/* The content of the destination after a read has failed. */
long sim_failed_read(void)
{
	u32 word = 77;

	return bpf_probe_read_kernel(&word, sizeof(word), NULL) ? word : -1;
}

/* The result of reading a string that fits into the buffer, or a string that does not. */
long sim_read_string(bool fits)
{
	char text[8];

	return bpf_probe_read_kernel_str(text, sizeof(text), fits ? "abc" : "abcdefghij");
}

/* Calls ten helpers. At each of them, another CPU may continue. `p`: a task without storage. */
void sim_ten_points(struct task_struct *p)
{
	struct pc_msg *msg;
	u32 word;

	scx_bpf_task_cpu(p);
	bpf_cpumask_test_cpu(0, p->cpus_ptr);
	scx_bpf_cpuperf_cap(0);
	scx_bpf_cpuperf_cur(0);
	scx_bpf_cpuperf_set(0, PC_CAPACITY);
	bpf_probe_read_kernel(&word, sizeof(word), p);
	bpf_probe_read_user(&word, sizeof(word), NULL);
	bpf_task_storage_delete(&tasks, p);
	msg = bpf_ringbuf_reserve(&messages, sizeof(*msg), 0);
	if (msg)
		bpf_ringbuf_submit(msg, 0);
}

long sim_restart_timer(u64 after_ns)
{
	u32 zero = 0;
	struct pc_idle_timer *timer = bpf_map_lookup_elem(&idle_timer, &zero);

	return timer ? bpf_timer_start(&timer->timer, after_ns, 0) : -1;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, u32);
	__type(value, u64);
} sim_array SEC(".maps");

long sim_update_array(u32 key, u64 value)
{
	long error = bpf_map_update_elem(&sim_array, &key, &value, 0);
	u64 *found = bpf_map_lookup_elem(&sim_array, &key);

	return error ? error : found ? (long)*found : 0;
}

#pragma clang section bss = "" data = ""

/* Gives Rust access to the natively compiled operations. */
const struct sched_ext_ops *sim_ops(void)
{
	return &paracord;
}

/* Makes the arrays that the loader shrinks to the number of possible CPUs (crates/sensor/src/load.rs). */
void sim_set_cpus(u32 count)
{
	sim_map_create(&rqs, BPF_MAP_TYPE_ARRAY, count, sizeof(struct pc_rq), (void **)&rqs.value,
		       (void **)&rqs.max_entries);
	sim_map_create(&cpus, BPF_MAP_TYPE_ARRAY, count, sizeof(struct pc_cpu), (void **)&cpus.value,
		       (void **)&cpus.max_entries);
}

struct pc_rq *sim_rq(u32 cpu)
{
	return rq_of(cpu);
}

struct pc_group *sim_group(u32 index)
{
	return group_at(index);
}

u32 sim_group_index(struct cgroup *cgrp)
{
	return group_index(cgrp);
}

struct pc_vcpu *sim_vcpu(u32 index)
{
	return bpf_map_lookup_elem(&vcpus, &index);
}

struct pc_vm *sim_vm(u32 index)
{
	return bpf_map_lookup_elem(&vms, &index);
}

/* Lets the scheduler carry out boosts by itself, as the daemon does when this scheduler runs. */
void sim_own_boosts(void)
{
	u32 zero = 0;
	struct pc_adoption *host = bpf_map_lookup_elem(&adoption, &zero);

	if (host)
		host->own_boosts = 1;
}

void *sim_free_indices(void)
{
	return &free_indices;
}

void *sim_messages(void)
{
	return &messages;
}

/* Start and length of the globals. */
extern char __start_sim_bpf_bss[], __stop_sim_bpf_bss[], __start_sim_bpf_data[], __stop_sim_bpf_data[];

char *sim_globals(u32 section, u64 *bytes)
{
	char *start = section ? __start_sim_bpf_data : __start_sim_bpf_bss;

	*bytes = (section ? __stop_sim_bpf_data : __stop_sim_bpf_bss) - start;
	return start;
}

/* Offsets as the C compiler computes them. A test compares them with the mirrors in objects.rs. */
#define OFFSET(type, field) __builtin_offsetof(struct type, field)
const u32 sim_layout[] = {
	sizeof(struct task_struct), OFFSET(task_struct, __state), OFFSET(task_struct, flags),
	OFFSET(task_struct, prio),
	OFFSET(task_struct, static_prio), OFFSET(task_struct, policy), OFFSET(task_struct, nr_cpus_allowed),
	OFFSET(task_struct, cpus_ptr), OFFSET(task_struct, migration_disabled), OFFSET(task_struct, scx.flags),
	OFFSET(task_struct, scx.slice), OFFSET(task_struct, scx.dsq_vtime), OFFSET(task_struct, pid),
	OFFSET(task_struct, tgid), OFFSET(task_struct, start_boottime), OFFSET(task_struct, preempt_notifiers),
	OFFSET(task_struct, bpf_storage), OFFSET(task_struct, rcu_read_unlock_special),
	OFFSET(task_struct, sched_info), OFFSET(task_struct, se), OFFSET(task_struct, sched_task_group),
	OFFSET(task_struct, real_parent),
	OFFSET(task_struct, uclamp_req),
	sizeof(struct rq), OFFSET(rq, clock), OFFSET(rq, clock_pelt), OFFSET(rq, cfs), OFFSET(cfs_rq, rq),
	OFFSET(cfs_rq, h_nr_queued), sizeof(struct kvm_vcpu), OFFSET(kvm_vcpu, kvm),
	OFFSET(kvm_vcpu, preempt_notifier), OFFSET(kvm_vcpu, vcpu_id), sizeof(struct scx_init_task_args),
	OFFSET(scx_init_task_args, cgroup),
};
const u32 sim_layout_count = sizeof(sim_layout) / sizeof(*sim_layout);
