/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the CPU quotas above a vCPU leave for its boosts (policy/reserve.h). The daemon fills the records. There are no
 * global functions here: Linux 6.12 does not allow calling one while preemption is disabled, and it is disabled during a
 * step of the policy.
 */
#ifndef PARACORD_BPF_RESERVE_H
#define PARACORD_BPF_RESERVE_H

/*
 * Whether a group or a group above it has nothing left: 0, 1. Record 0 belongs to no group and is never empty. It is
 * looked up nevertheless: the verifier then does not know any result of this function, and follows the code after the
 * call once.
 */
static __noinline u64 reserve_is_empty(u32 index)
{
	u64 empty = 0;
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX; i++) {
		const struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r)
			break;
		empty |= (u64)(*(const volatile s64 *)&r->left_ns - 1) >> 63;
		index = *(const volatile u32 *)&r->above;
		if (!index)
			break;
	}
	return empty;
}

/* Charges boosted time to a group and to the groups above it. */
static __noinline void charge_reserve(u32 index, u64 ns)
{
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX && index; i++) {
		struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r)
			break;
		__sync_fetch_and_add(&r->left_ns, -(s64)ns);
		index = *(volatile u32 *)&r->above;
	}
}

#endif
