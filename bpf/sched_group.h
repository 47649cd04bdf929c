/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Cgroups: the effective weight of a task depends on the weights of its groups (policy/fair.h).
 *
 * Each group has one machine-wide sum of the weights of its runnable tasks and active child groups. When a task becomes runnable,
 * an atomic operation adds the weight of the task to the sum of its group. When the task goes to sleep, an atomic operation
 * subtracts the weight again. The sum of the parent changes only when the sum of the group becomes zero or nonzero, or when the
 * weight of the group changes. Each group stores the weight with which it counts in its parent's sum (`counted`). A CPU that
 * changes the group stores the new weight in `counted` by an atomic exchange, and adds the difference between the new and the old
 * weight to the parent's sum. So no CPU waits for another one, and no difference is lost. A sum may be outdated or negative for a
 * short time. If other CPUs change the group in all PC_SETTLE_MAX rounds of settle(), `counted` may stay outdated until the next
 * change of the group.
 *
 * The factor of a group (pc_group_factor()) is computed at most once per millisecond. For tasks of the root group, no factor is
 * computed.
 */
#ifndef PARACORD_BPF_SCHED_GROUP_H
#define PARACORD_BPF_SCHED_GROUP_H

#define PC_FACTOR_MAX_AGE_NS	(1 * PC_NSEC_PER_MSEC)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_GROUPS_MAX);
	__type(key, u32);
	__type(value, struct pc_group);
} groups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pc_unrecorded);
} unrecorded SEC(".maps");

/* pc_group_ref.record */
#define PC_RECORD_OWN	0
#define PC_RECORD_FULL	1	/* no record was free for the group or an ancestor */
#define PC_RECORD_DEEP	2	/* the group is deeper than PC_GROUP_DEPTH_MAX */

struct pc_group_ref {
	u32 index;	/* index of the group's record, or of the record of the nearest ancestor that has one */
	u32 record;	/* PC_RECORD_* */
};

struct {
	__uint(type, BPF_MAP_TYPE_CGRP_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pc_group_ref);
} group_of SEC(".maps");

struct cgroup *bpf_cgroup_ancestor(struct cgroup *cgrp, int level) __ksym;
void bpf_cgroup_release(struct cgroup *cgrp) __ksym;

static __always_inline struct pc_group *group_at(u32 index)
{
	return bpf_map_lookup_elem(&groups, &index);
}

static __always_inline u32 group_index(struct cgroup *cgrp)
{
	struct pc_group_ref *ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, 0);

	return ref ? ref->index : PC_GROUP_ROOT;
}

/* Makes a task a member of a group. */
static __always_inline void enter_group(struct pc_task *t, struct cgroup *cgrp)
{
	struct pc_group_ref *ref = bpf_cgrp_storage_get(&group_of, cgrp, 0, 0);

	struct pc_group *g;

	t->group = ref ? ref->index : PC_GROUP_ROOT;
	t->shares = ref && ref->record != PC_RECORD_OWN;
	g = group_at(t->group);
	t->generation = g ? g->generation : 0;
}

/* Maximum number of rounds in which settle() follows concurrent changes of the group by other CPUs. */
#define PC_SETTLE_MAX		4

/* The weight with which this group should count in its parent's sum. */
static __always_inline u32 weight_in_parent(const struct pc_group *g)
{
	if (!READ_ONCE(g->used) || !READ_ONCE(g->active))
		return 0;
	return pc_group_weight(READ_ONCE(g->idle) ? 0 : READ_ONCE(g->weight));
}

/* Updates `counted` after a change of the group. Return: the difference to add to the parent's sum. */
static __always_inline s64 settle(struct pc_group *g)
{
	u32 counts = weight_in_parent(g);
	s64 by = (s64)counts - __sync_lock_test_and_set(&g->counted, counts);
	int i;

	/* If another CPU changes the group after the last check here, that CPU itself calls settle() after this check. */
	bpf_for(i, 0, PC_SETTLE_MAX) {
		u32 again = weight_in_parent(g);

		if (again == counts)
			break;
		by += (s64)again - __sync_lock_test_and_set(&g->counted, again);
		counts = again;
	}
	return by;
}

/*
 * Adds `by` to the sum of a group. If the group thereby becomes active or inactive, the sum of its parent also changes, and so on
 * towards the root. Return: 0.
 */
PC_VERIFIED_ALONE int change_active(u32 index, s64 by)
{
	int i;

	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		struct pc_group *g;
		s64 before;

		if (index == PC_GROUP_ROOT)
			break;
		g = group_at(index);
		if (!g)
			break;
		before = __sync_fetch_and_add(&g->active, by);
		if ((before == 0) == (before + by == 0))
			break;
		by = settle(g);
		if (!by)
			break;
		index = g->parent;
	}
	return 0;
}

/* Updates the parent's sum after the weight of a group has changed, or after the group was removed. Return: 0. */
PC_VERIFIED_ALONE int follow_weight(u32 index)
{
	struct pc_group *g = group_at(index);
	s64 by = g ? settle(g) : 0;

	if (by)
		change_active(g->parent, by);
	return 0;
}

#include "sched_quota.h"

/*
 * Reads cpu.idle and cpu.max of a group from the kernel, because kernels before 6.19 do not report changes of these files to the
 * scheduler. `of`: the kernel's task_group for the group.
 */
static __always_inline void follow_files(u32 index, struct pc_group *g, const struct task_group *of)
{
	struct pc_quota *q = quota_at(index);
	u8 idle = !!BPF_CORE_READ(of, idle);

	if (READ_ONCE(g->idle) != idle) {
		/* sched_group_set_idle() (kernel/sched/fair.c) resets the weight to the default. */
		if (!idle)
			WRITE_ONCE(g->weight, PC_GROUP_WEIGHT_USUAL);
		WRITE_ONCE(g->idle, idle);
		follow_weight(index);
	}
	if (q)
		follow_quota(q, of);
}

/*
 * Return: the address of the kernel's task_group for the group of a task; 0: not known. The return type is an integer, so that
 * the verifier checks the code after the call only once.
 */
static __always_inline u64 kernels_group(const struct task_struct *p)
{
	if (!bpf_core_field_exists(p->sched_task_group) || !bpf_core_field_exists(struct task_group, idle))
		return 0;
	return (u64)BPF_CORE_READ(p, sched_task_group);
}

static __always_inline bool is_fresh(const struct pc_group *g, u64 now, u64 age_ns)
{
	return pc_elapsed_ns(now, READ_ONCE(g->factor_ns)) < age_ns;
}

/* Updates what depends on a group's parent: `factor`, `clamp`, `lazy` and `limited`. `above`: the parent. */
static __always_inline void refresh_level(u32 index, struct pc_group *g, const struct pc_group *above, u64 now)
{
	u16 limited = READ_ONCE(above->limited);
	struct pc_quota *q = quota_at(index);

	if (q && READ_ONCE(q->quota_ns)) {
		WRITE_ONCE(q->above, limited);
		limited = index;
	}
	g->factor = pc_group_factor(above->factor, g->active, g->idle ? 0 : g->weight);
	g->clamp = pc_clamp_under(g->own, above->clamp);
	g->lazy = above->lazy | g->idle;
	WRITE_ONCE(g->limited, limited);
	/* The exchange is a barrier, so a CPU that sees the new factor_ns also sees the other new values. */
	__sync_lock_test_and_set(&g->factor_ns, now);
}

/*
 * Climbs from a group towards the root as long as the parent is outdated, and calls refresh_level() for the group where the climb
 * ends. A parent is outdated if it was not updated within the last 1 ms or, if `kernels` is 0, within the last 2 ms. `kernels`:
 * the result of kernels_group(); 0: do not read the cgroup files. Return: 1 if the climb ends at the group where it began.
 */
PC_VERIFIED_ALONE int refresh_highest(u32 index, u64 kernels, u64 now)
{
	struct pc_group *g = group_at(index), *above = NULL;
	u32 own = index;
	int i;

	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		u32 parent = g ? g->parent : PC_GROUP_ROOT;

		above = group_at(parent);
		/* The root group's record is never updated, because it always contains the values that apply without groups. */
		if (!above || parent == PC_GROUP_ROOT ||
		    is_fresh(above, now, (kernels ? 1 : 2) * PC_FACTOR_MAX_AGE_NS))
			break;
		index = parent;
		g = above;
		if (kernels)
			kernels = (u64)BPF_CORE_READ((struct task_group *)kernels, parent);
	}
	if (!g || !above)
		return 1;
	if (kernels)
		follow_files(index, g, (struct task_group *)kernels);
	refresh_level(index, g, above, now);
	return index == own;
}

/*
 * Updates all outdated ancestors of a group, and then the group itself. An update of a group serves all its descendants, so the
 * cost per group does not depend on the depth of the group. Return: 0.
 */
PC_VERIFIED_ALONE int refresh_group(u32 index, u64 kernels, u64 now)
{
	int i;

	bpf_for(i, 0, PC_GROUP_DEPTH_MAX)
		if (refresh_highest(index, kernels, now))
			break;
	return 0;
}

/*
 * Return: the group of a task; NULL: the root group. The factor and clamps of a group at depth n are at most n ms old, or 2n ms
 * if t->shares is set.
 */
static __always_inline struct pc_group *fresh_group(struct task_struct *p, const struct pc_task *t, u64 now)
{
	struct pc_group *g = t->group == PC_GROUP_ROOT ? NULL : group_at(t->group);

	/*
	 * If t->shares is set, t->group is the record of an ancestor, but kernels_group() would return the task's own group. For
	 * such a task, the cgroup files are therefore not read, and the record may become twice as old before it is updated. So a
	 * task of the ancestor itself usually updates the record earlier, and the files are read at that update. A task that
	 * exits may outlive its group, and the index may then belong to another group.
	 */
	if (g && g->generation == t->generation && READ_ONCE(g->used) && !is_fresh(g, now, (t->shares ? 2 : 1) * PC_FACTOR_MAX_AGE_NS))
		refresh_group(t->group, t->shares ? 0 : kernels_group(p), now);
	return g;
}

static __always_inline void group_join(struct pc_task *t, u32 weight)
{
	struct pc_group *g = t->group == PC_GROUP_ROOT ? NULL : group_at(t->group);

	/* A task that exits may outlive its group, and the index may then belong to another group. */
	if (!g || g->generation != t->generation)
		return;
	t->counted = weight;
	change_active(t->group, weight);
}

static __always_inline void group_leave(struct pc_task *t)
{
	struct pc_group *g = t->counted ? group_at(t->group) : NULL;

	if (g && g->generation == t->generation)
		change_active(t->group, -(s64)t->counted);
	t->counted = 0;
}

#endif
