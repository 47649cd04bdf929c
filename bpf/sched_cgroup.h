/* SPDX-License-Identifier: GPL-2.0-only */
/* Creation, removal and weight changes of cgroups, and tasks that move between cgroups. */
#ifndef PARACORD_BPF_SCHED_CGROUP_H
#define PARACORD_BPF_SCHED_CGROUP_H

/* Counts groups that have no record of their own. Called when such a group is created (`by`: 1) or removed (`by`: -1). */
static __always_inline void count_unrecorded(u32 record, s32 by)
{
	u32 zero = 0;
	struct pc_unrecorded *all = bpf_map_lookup_elem(&unrecorded, &zero);

	if (all)
		__sync_fetch_and_add(record == PC_RECORD_DEEP ? &all->deep : &all->full, by);
}

/* Takes a free record for a group. Return: the record's index; PC_GROUP_ROOT if no record is free. */
static __always_inline u32 take_record(u32 parent, u32 weight)
{
	u32 index;

	bpf_for(index, 1, PC_GROUPS_MAX) {
		struct pc_group *g = group_at(index);

		if (!g || __sync_val_compare_and_swap(&g->used, 0, 1))
			continue;
		g->generation++;
		g->active = 0;
		g->counted = 0;
		g->factor_ns = 0;
		g->parent = parent;
		g->weight = weight;
		g->idle = 0;
		g->lazy = 0;
		g->own = no_clamp;
		g->clamp = no_clamp;
		g->limited = 0;
		return index;
	}
	return PC_GROUP_ROOT;
}

/*
 * Takes a record for a new group. The group gets no record if none is free, if the group is too deep, or if its parent has no
 * record of its own. The tasks of a group without a record count as tasks of the nearest ancestor that has a record.
 */
SEC("struct_ops.s/ext_cgroup_init")
s32 BPF_PROG(ext_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	u32 parent = PC_GROUP_ROOT, above_record = PC_RECORD_OWN, index;
	struct pc_group_ref *ref, *parents = NULL;
	struct cgroup *above;
	struct pc_group *g;
	s32 error;

	if (!cgrp->level)
		return 0;
	above = bpf_cgroup_ancestor(cgrp, cgrp->level - 1);
	if (above) {
		parents = bpf_cgrp_storage_get(&group_of, above, 0, 0);
		if (parents) {
			parent = parents->index;
			above_record = parents->record;
		}
		bpf_cgroup_release(above);
	}
	ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!ref)
		return -12;	/* ENOMEM */
	ref->index = parent;
	ref->record = cgrp->level > PC_GROUP_DEPTH_MAX ? PC_RECORD_DEEP : above_record;
	if (ref->record == PC_RECORD_OWN) {
		index = take_record(parent, args->weight);
		if (index == PC_GROUP_ROOT)
			ref->record = PC_RECORD_FULL;
		else
			ref->index = index;
	}
	if (ref->record != PC_RECORD_OWN) {
		count_unrecorded(ref->record, 1);
		return 0;
	}
	error = begin_quota(ref->index);
	g = group_at(ref->index);
	if (error && g)
		WRITE_ONCE(g->used, 0);
	return error;
}

SEC("struct_ops.s/ext_cgroup_exit")
int BPF_PROG(ext_cgroup_exit, struct cgroup *cgrp)
{
	struct pc_group_ref *ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, 0);
	struct pc_group *g;

	if (!ref)
		return 0;
	if (ref->record != PC_RECORD_OWN) {
		count_unrecorded(ref->record, -1);
		return 0;
	}
	g = group_at(ref->index);
	if (g) {
		WRITE_ONCE(g->used, 0);
		follow_weight(ref->index);
	}
	return 0;
}

SEC("struct_ops/ext_cgroup_move")
int BPF_PROG(ext_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct pc_task *t = task_of(p);
	u32 counted;

	if (!t)
		return 0;
	counted = t->counted;
	group_leave(t);
	enter_group(t, to);
	if (counted)
		group_join(t, counted);
	return 0;
}

SEC("struct_ops/ext_cgroup_set_weight")
int BPF_PROG(ext_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct pc_group_ref *ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, 0);
	struct pc_group *g;

	if (!ref || ref->record != PC_RECORD_OWN)
		return 0;
	g = group_at(ref->index);
	if (!g)
		return 0;
	WRITE_ONCE(g->weight, weight);
	g->factor_ns = 0;
	follow_weight(ref->index);
	return 0;
}

#endif
