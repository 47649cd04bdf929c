/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds ordinary tasks that have requested clamps from the kernel. The daemon imports the clamps
 * (crates/host/src/scheduler/imports.rs).
 */
#ifndef PARACORD_BPF_SCHED_IMPORT_H
#define PARACORD_BPF_SCHED_IMPORT_H

static __always_inline u32 asked_for(struct uclamp_se *clamp)
{
	if (!BPF_CORE_READ_BITFIELD_PROBED(clamp, user_defined))
		return PC_CLAMP_UNSET;
	return BPF_CORE_READ_BITFIELD_PROBED(clamp, value);
}

/* Called for each task. Writes a record if the task has clamps. */
SEC("iter/task")
int ext_kernel_clamps(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct pc_kernel_clamp found = {};

	if (!p || !bpf_core_field_exists(p->uclamp_req))
		return 0;
	/* paracord's scheduler does not schedule real-time and deadline tasks. */
	if (p->policy != SCHED_OTHER_POLICY && p->policy != SCHED_BATCH_POLICY && p->policy != SCHED_IDLE_POLICY &&
	    p->policy != SCHED_EXT_POLICY)
		return 0;
	found.tid = p->pid;
	found.min = asked_for(&p->uclamp_req[0]);
	found.max = asked_for(&p->uclamp_req[1]);
	if (found.min != PC_CLAMP_UNSET || found.max != PC_CLAMP_UNSET)
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

#endif
