// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: the pool of perf events. */
#include "policy/pmu_pool.h"

void paracord_pmu_defaults(struct pc_pmu_pool *pool, struct pc_pmu_quota *quota);
void paracord_pmu_take(struct pc_pmu_pool *pool, u32 counter, const struct pc_pmu_key *key, u32 allowed,
		       struct pc_pmu_decision *decision);
void paracord_pmu_give(struct pc_pmu_pool *pool, u32 counter, struct pc_pmu_decision *decision);
void paracord_pmu_drop(struct pc_pmu_pool *pool, u32 event);
u32 paracord_pmu_end_slice(struct pc_pmu_pool *pool);
u32 paracord_pmu_allowed(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u64 now_ns);
void paracord_pmu_charge(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u32 opens, u64 used_ns);

/* Stores the default pool and the default quota. Either pointer may be NULL. */
void paracord_pmu_defaults(struct pc_pmu_pool *pool, struct pc_pmu_quota *quota)
{
	if (pool)
		*pool = (struct pc_pmu_pool){ .mode = PC_PMU_KEYED, .release_slices = PC_PMU_RELEASE_SLICES };
	if (quota)
		*quota = (struct pc_pmu_quota){ .calls_ns_per_sec = PC_PMU_CALLS_NS_PER_SEC,
						.opens_per_sec = PC_PMU_OPENS_PER_SEC };
}

void paracord_pmu_take(struct pc_pmu_pool *pool, u32 counter, const struct pc_pmu_key *key, u32 allowed,
		       struct pc_pmu_decision *decision)
{
	*decision = pc_pmu_take(pool, counter, key, allowed);
}

void paracord_pmu_give(struct pc_pmu_pool *pool, u32 counter, struct pc_pmu_decision *decision)
{
	*decision = pc_pmu_give(pool, counter);
}

void paracord_pmu_drop(struct pc_pmu_pool *pool, u32 event)
{
	pc_pmu_drop(pool, event);
}

u32 paracord_pmu_end_slice(struct pc_pmu_pool *pool)
{
	return pc_pmu_end_slice(pool);
}

u32 paracord_pmu_allowed(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u64 now_ns)
{
	return pc_pmu_allowed(budget, quota, now_ns);
}

void paracord_pmu_charge(struct pc_pmu_budget *budget, const struct pc_pmu_quota *quota, u32 opens, u64 used_ns)
{
	pc_pmu_charge(budget, quota, opens, used_ns);
}
