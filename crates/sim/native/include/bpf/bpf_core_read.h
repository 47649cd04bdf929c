/* SPDX-License-Identifier: GPL-2.0-only */
/* Replaces libbpf's header of this name. Kernel objects belong to the simulator, with the layout that bpf/ declares. */
#ifndef PARACORD_SIM_BPF_CORE_READ_H
#define PARACORD_SIM_BPF_CORE_READ_H

#define sim_read1(p, a)		((p)->a)
#define sim_read2(p, a, b)	((p)->a->b)
#define sim_read3(p, a, b, c)	((p)->a->b->c)
#define sim_read_n(a1, a2, a3, name, ...) name
#define BPF_CORE_READ(p, ...)	sim_read_n(__VA_ARGS__, sim_read3, sim_read2, sim_read1)(p, __VA_ARGS__)
#define BPF_CORE_READ_BITFIELD_PROBED(p, field)	((p)->field)

/* All fields that bpf/ names exist. Of the types, those of newer interfaces exist only in newer kernels. */
#define bpf_core_field_exists(...)	1
#define bpf_core_type_exists(type)								\
	_Generic((type *)0, struct scx_bpf_dsq_insert_vtime_args *: sim_kernel.packed_vtime,	\
		 default: 1)
#define bpf_core_type_size(type)		sizeof(type)
#define bpf_core_field_offset(type, field)	__builtin_offsetof(type, field)
#define bpf_core_enum_value_exists(type, value)	(sim_kernel.has_##value)
#define bpf_core_enum_value(type, value)	(value)

#endif
