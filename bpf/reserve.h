/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boosted time that the CPU quotas of a vCPU's cgroups leave (policy/reserve.h). The daemon fills the records. This file has no
 * global functions: preemption is disabled during a step of the policy, and Linux 6.12 does not allow a call of a global function
 * then.
 */
#ifndef PARACORD_BPF_RESERVE_H
#define PARACORD_BPF_RESERVE_H

/*
 * Return: 1 if a group or one of its ancestors has nothing left; otherwise 0. Record 0 belongs to no group and is never empty. It
 * is looked up nevertheless. So the verifier does not know the result of this function, and checks the code after the call only
 * once.
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

/* Charges boosted time to a group and its ancestors. */
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
