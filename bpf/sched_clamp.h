/* SPDX-License-Identifier: GPL-2.0-only */
/* Clamps of tasks and cgroups, set through the daemon. These are paracord's own clamps, not the kernel's. */
#ifndef PARACORD_BPF_SCHED_CLAMP_H
#define PARACORD_BPF_SCHED_CLAMP_H

struct cgroup *bpf_cgroup_from_id(u64 id) __ksym;

/*
 * Return: the clamps of a new task. A child inherits paracord's clamps from its parent, just as it inherits the kernel's clamps.
 */
static __always_inline struct pc_clamp inherited_clamp(bool fork)
{
	struct pc_task *parent = fork ? bpf_task_storage_get(&tasks, bpf_get_current_task_btf(), 0, 0) : NULL;

	return parent ? parent->own : no_clamp;
}

static __always_inline void clamp_task(struct pc_clamp_call *call)
{
	struct task_struct *p = bpf_task_from_pid(call->id);
	struct pc_task *t;

	if (!p)
		return;
	t = task_of(p);
	if (t) {
		if (call->set)
			t->own = call->own;
		call->own = t->own;
		call->clamp = t->clamp;
		call->found = 1;
	}
	bpf_task_release(p);
}

static __always_inline void clamp_group(struct pc_clamp_call *call)
{
	struct cgroup *cgrp = bpf_cgroup_from_id(call->id);
	struct pc_group_ref *ref;
	struct pc_group *g;

	if (!cgrp)
		return;
	ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, 0);
	g = ref && ref->record == PC_RECORD_OWN ? group_at(ref->index) : NULL;
	if (g) {
		if (call->set) {
			g->own = call->own;
			g->factor_ns = 0;
		}
		call->own = g->own;
		call->clamp = g->clamp;
		call->found = 1;
	}
	bpf_cgroup_release(cgrp);
}

SEC("syscall")
int ext_clamp(struct pc_clamp_call *call)
{
	call->found = 0;
	if (call->kind == PC_CLAMP_TASK)
		clamp_task(call);
	else if (call->kind == PC_CLAMP_GROUP)
		clamp_group(call);
	return 0;
}

#endif
