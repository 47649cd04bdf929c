// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls: placement by energy. */
#include "policy/energy.h"

void paracord_place_begin(struct pc_place *place, u32 request, s32 prev);
int paracord_place_look(struct pc_place *place, u32 domain, s32 cpu, u32 sum, u32 capacity, int allowed);
s32 paracord_place_choose(const struct pc_energy *model, const struct pc_place *place);

void paracord_place_begin(struct pc_place *place, u32 request, s32 prev)
{
	pc_place_begin(place, request, prev);
}

int paracord_place_look(struct pc_place *place, u32 domain, s32 cpu, u32 sum, u32 capacity, int allowed)
{
	return pc_place_look(place, domain, cpu, sum, capacity, allowed);
}

s32 paracord_place_choose(const struct pc_energy *model, const struct pc_place *place)
{
	return pc_place_choose(model, place);
}
