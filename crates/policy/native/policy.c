// SPDX-License-Identifier: GPL-2.0-only
/* Functions that Rust calls. The policy itself consists of inline functions, which Rust cannot call. */
#include "policy/boost.h"
#include "policy/guest_view.h"

void paracord_boost_defaults(struct pc_boost_config *cfg)
{
	*cfg = pc_boost_defaults();
}

void paracord_boost_io_defaults(struct pc_boost_config *cfg)
{
	*cfg = pc_boost_io_defaults();
}

void paracord_boost_step(const struct pc_boost_config *cfg, struct pc_boost_state *st,
			 struct pc_bucket *vm, struct pc_bucket *cpu,
			 const struct pc_boost_obs *obs, u64 now_ns,
			 struct pc_boost_decision *decision)
{
	*decision = pc_boost_step(cfg, st, vm, cpu, obs, now_ns);
}

void paracord_guest_view(u64 context_word, u32 preempt_count, u32 preempt_count_mask,
			 struct pc_guest_view *view)
{
	union {
		u64 word;
		struct paracord_context context;
	} copy = { .word = context_word };

	*view = pc_guest_view_of(copy.context, preempt_count, preempt_count_mask);
}

int paracord_boost_is_quiet(const struct pc_boost_state *st, u64 now_ns);
int paracord_boost_resume(struct pc_boost_state *st, const struct pc_bucket *cpu, u64 now_ns);
int paracord_boost_note_irq(struct pc_boost_state *st, u64 now_ns);
int paracord_boost_wants_view(const struct pc_boost_state *st, u64 now_ns);
u64 paracord_boost_left_ns(const struct pc_boost_config *cfg, const struct pc_boost_state *st, u64 now_ns);

u64 paracord_boost_left_ns(const struct pc_boost_config *cfg, const struct pc_boost_state *st, u64 now_ns)
{
	return pc_boost_left_ns(cfg, st, now_ns);
}

int paracord_boost_is_quiet(const struct pc_boost_state *st, u64 now_ns)
{
	return pc_boost_is_quiet(st, now_ns);
}

int paracord_boost_resume(struct pc_boost_state *st, const struct pc_bucket *cpu, u64 now_ns)
{
	return pc_boost_resume(st, cpu, now_ns);
}

int paracord_boost_note_irq(struct pc_boost_state *st, u64 now_ns)
{
	return pc_boost_note_irq(st, now_ns);
}

int paracord_boost_wants_view(const struct pc_boost_state *st, u64 now_ns)
{
	return pc_boost_wants_view(st, now_ns);
}

u32 paracord_boost_level(u32 reasons);

u32 paracord_boost_level(u32 reasons)
{
	return pc_boost_level(reasons);
}
