// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: what quotas leave for boosts. */
#include "policy/reserve.h"

s64 paracord_reserve_next(s64 left_ns, u64 granted_ns, u64 used_ns, u64 most_ns);

s64 paracord_reserve_next(s64 left_ns, u64 granted_ns, u64 used_ns, u64 most_ns)
{
	return pc_reserve_next(left_ns, granted_ns, used_ns, most_ns);
}
