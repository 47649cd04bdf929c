/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How much boosted time the CPU quotas of a vCPU's cgroups still allow (policy/reserve.h). The daemon fills the records in
 * `reserves`. Preemption is disabled during a step of the policy, and Linux 6.12 does not allow calls to global functions while
 * preemption is disabled. Therefore this file has no global functions.
 */
#ifndef PARACORD_BPF_RESERVE_H
#define PARACORD_BPF_RESERVE_H

/*
 * Return: 1 if the reserve of a group or of one of its ancestors is used up; otherwise 0. Record 0 belongs to no group and is
 * never empty. The function looks up record 0 nevertheless. So the verifier does not know the result of the function, and checks
 * the code after the call only once.
 */
static __noinline u64 reserve_is_empty(u32 index)
{
	u64 empty = 0;
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX; i++) {
		const struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r)
			break;
		empty |= (u64)(READ_ONCE(r->left_ns) - 1) >> 63;
		index = READ_ONCE(r->above);
		if (!index)
			break;
	}
	return empty;
}

/* Subtracts boosted time from the reserves of a group and its ancestors. */
static __noinline void charge_reserve(u32 index, u64 ns)
{
	int i;

	for (i = 0; i < PC_RESERVE_DEPTH_MAX && index; i++) {
		struct pc_reserve *r = bpf_map_lookup_elem(&reserves, &index);

		if (!r)
			break;
		__sync_fetch_and_add(&r->left_ns, -(s64)ns);
		index = READ_ONCE(r->above);
	}
}

#endif
