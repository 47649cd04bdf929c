/* SPDX-License-Identifier: GPL-2.0-only */
/* What CPU quotas above a vCPU leave for its boosts (policy/reserve.h). The daemon fills it. */
#ifndef PARACORD_BPF_RESERVE_H
#define PARACORD_BPF_RESERVE_H

/* Whether a group or one above has nothing left; not of index 0, which is nobody's. */
PC_VERIFIED_ALONE int reserve_is_empty(u32 index)
{
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX && index; i++) {
		const struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r || *(const volatile s64 *)&r->left_ns <= 0)
			return 1;
		index = *(const volatile u32 *)&r->above;
	}
	return 0;
}

/* Boosted time, of a group and those above. Return: 0. */
PC_VERIFIED_ALONE int charge_reserve(u32 index, u64 ns)
{
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX && index; i++) {
		struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r)
			break;
		__sync_fetch_and_add(&r->left_ns, -(s64)ns);
		index = *(volatile u32 *)&r->above;
	}
	return 0;
}

#endif
