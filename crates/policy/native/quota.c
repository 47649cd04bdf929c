// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: quotas. */
#include "policy/quota.h"

int paracord_quota_is_set(u64 quota_ns, u64 period_ns);
void paracord_quota_refill(struct pc_quota *q, u64 now);
u64 paracord_quota_take(struct pc_quota *q, u64 wanted);
void paracord_quota_give(struct pc_quota *q, s64 ns);
u64 paracord_quota_portion_ns(const struct pc_quota *q);
u64 paracord_quota_again_ns(const struct pc_quota *q);

int paracord_quota_is_set(u64 quota_ns, u64 period_ns)
{
	return pc_quota_is_set(quota_ns, period_ns);
}

void paracord_quota_refill(struct pc_quota *q, u64 now)
{
	pc_quota_refill(q, now);
}

u64 paracord_quota_take(struct pc_quota *q, u64 wanted)
{
	return pc_quota_take(q, wanted);
}

void paracord_quota_give(struct pc_quota *q, s64 ns)
{
	pc_quota_give(q, ns);
}

u64 paracord_quota_portion_ns(const struct pc_quota *q)
{
	return pc_quota_portion_ns(q);
}

u64 paracord_quota_again_ns(const struct pc_quota *q)
{
	return pc_quota_again_ns(q);
}
