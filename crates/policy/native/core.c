// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: turns on a core whose CPUs have tasks with different cookies. */
#include "policy/core.h"

int paracord_core_comes_after(struct pc_core *core, u64 vtime, u32 inverse, struct pc_core *other, u64 other_vtime,
			      u32 other_inverse, u64 now);

int paracord_core_comes_after(struct pc_core *core, u64 vtime, u32 inverse, struct pc_core *other, u64 other_vtime,
			      u32 other_inverse, u64 now)
{
	return pc_core_comes_after(core, vtime, inverse, other, other_vtime, other_inverse, now);
}
