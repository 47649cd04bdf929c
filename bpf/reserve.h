/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What CPU quotas above a vCPU leave for its boosts (policy/reserve.h). The daemon fills it. No global functions: Linux
 * 6.12 lets none be called while preemption is off, as it is where the policy takes a step.
 */
#ifndef PARACORD_BPF_RESERVE_H
#define PARACORD_BPF_RESERVE_H

/*
 * Whether a group or one above has nothing left: 0, 1. Record 0 is nobody's and never empty, so that the verifier knows no
 * result of this, and follows what comes after it once.
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

/* Boosted time, of a group and those above. */
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
