/* SPDX-License-Identifier: GPL-2.0-only */
/* What natively compiled BPF programs learn from the simulator: where and when they run, and on which kernel. */
#ifndef PARACORD_SIM_CONTEXT_H
#define PARACORD_SIM_CONTEXT_H

struct task_struct;
struct cgroup;
struct seq_file;

/* Written by crates/sim/src/bpf/lend.rs (SimContext) before each operation. */
struct sim_context {
	u64 now_ns;
	struct task_struct *current;
	u32 cpu;
	u32 watched;	/* 1: sim_at_point() is called */
};

extern struct sim_context sim_context;

void sim_at_point(void);

/*
 * For each name that scx.h asks for: 1 if the kernel has it, else 0. The order is that of Symbols in crates/sim/src/bpf/native.rs.
 */
struct sim_kernel {
	u8 scx_bpf_now;
	u8 scx_bpf_dsq_insert___v1;
	u8 packed_vtime;
	u8 scx_bpf_dsq_insert_vtime___v1;
	u8 scx_bpf_dsq_move_to_local___v2;
	u8 scx_bpf_dsq_move_to_local___v1;
	u8 scx_bpf_dsq_move___new;
	u8 scx_bpf_dsq_move_vtime___new;
	u8 scx_bpf_reenqueue_local___v2___compat;
	u8 scx_bpf_reenqueue_local___v1;
	u8 bpf_preempt_disable;
	u8 bpf_local_irq_save;
	u8 has_SCX_ENQ_CPU_SELECTED;
	u8 has_SCX_ENQ_IMMED;
	u8 has_SCX_TASK_REENQ_IMMED;
	u8 has_SCX_TASK_ENABLED;
};

extern struct sim_kernel sim_kernel;

#endif
