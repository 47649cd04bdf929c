/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Control groups: a task's weight is scaled by its group's share (policy/fair.h).
 *
 * A group's sum of runnable weights is one counter for the whole machine, changed by an atomic
 * add when a task becomes runnable or sleeps; the parent's only when a sum comes from or to zero. An
 * atomic add tells exactly who did that, so nobody waits and the sums are exact, though
 * for a moment they may lag or be negative. Factors are computed at most once in a
 * millisecond per group. Tasks of the root group pay nothing.
 */
#ifndef PARACORD_BPF_SCHED_GROUP_H
#define PARACORD_BPF_SCHED_GROUP_H

#define PC_GROUP_DEPTH_MAX	8
#define PC_FACTOR_MAX_AGE_NS	(1 * PC_NSEC_PER_MSEC)

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PC_GROUPS_MAX);
	__type(key, u32);
	__type(value, struct pc_group);
} groups SEC(".maps");

struct pc_group_ref {
	u32 index;
	u32 own;	/* 0: there was none left, it is the parent's */
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

/* Adds to a group's sum, and to its ancestors' as far as that makes them active or idle. */
static __always_inline void change_active(u32 index, s64 by)
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
		by = by > 0 ? (s64)pc_group_weight(g->weight) : -(s64)pc_group_weight(g->weight);
		index = g->parent;
	}
}

/* Factor and clamps of a group's tasks under its parents, up to eight levels. */
static __noinline int refresh_group(u32 index, u64 now)
{
	struct pc_clamp clamp = { .min = PC_CAPACITY, .max = PC_CAPACITY };
	u64 factor = PC_FACTOR_ONE;
	struct pc_group *g;
	int i;

	g = group_at(index);
	if (!g)
		return 0;
	/* A product, and minima: the order does not matter, so they are taken upwards. */
	bpf_for(i, 0, PC_GROUP_DEPTH_MAX) {
		struct pc_group *level;

		if (index == PC_GROUP_ROOT)
			break;
		level = group_at(index);
		if (!level)
			break;
		factor = pc_group_factor(factor, level->active, level->weight);
		clamp = pc_clamp_under(level->own, clamp);
		index = level->parent;
	}
	g->factor = factor;
	g->clamp = clamp;
	g->factor_ns = now;
	return 0;
}

/* A group whose factor and clamps are at most a millisecond old. */
static __always_inline struct pc_group *fresh_group(u32 index, u64 now)
{
	struct pc_group *g = group_at(index);

	if (g && pc_elapsed_ns(now, g->factor_ns) >= PC_FACTOR_MAX_AGE_NS)
		refresh_group(index, now);
	return g;
}

static __always_inline void group_join(struct pc_task *t, u32 weight)
{
	if (t->group == PC_GROUP_ROOT)
		return;
	t->counted = weight;
	change_active(t->group, weight);
}

static __always_inline void group_leave(struct pc_task *t)
{
	if (!t->counted)
		return;
	change_active(t->group, -(s64)t->counted);
	t->counted = 0;
}

#endif
