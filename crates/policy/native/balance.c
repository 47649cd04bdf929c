// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: fairness between CPUs. */
#include "policy/balance.h"

u32 paracord_fair_weight(u32 inverse);
u64 paracord_pace(u64 pace, u64 ns, u64 weight);
int paracord_balance_takes(s64 ahead, u64 with, u64 there, u32 slice_ns);
u64 paracord_cross_wait_ns(u32 home, u32 from, u32 to);
u64 paracord_cross_every_ns(u64 ours, u64 theirs);
u64 paracord_node_pace(u64 node, u64 cpu);

u32 paracord_fair_weight(u32 inverse)
{
	return pc_fair_weight(inverse);
}

u64 paracord_pace(u64 pace, u64 ns, u64 weight)
{
	return pc_pace(pace, ns, weight);
}

int paracord_balance_takes(s64 ahead, u64 with, u64 there, u32 slice_ns)
{
	return pc_balance_takes(ahead, with, there, slice_ns);
}

u64 paracord_cross_wait_ns(u32 home, u32 from, u32 to)
{
	return pc_cross_wait_ns(home, from, to);
}

u64 paracord_cross_every_ns(u64 ours, u64 theirs)
{
	return pc_cross_every_ns(ours, theirs);
}

u64 paracord_node_pace(u64 node, u64 cpu)
{
	return pc_node_pace(node, cpu);
}
