/* SPDX-License-Identifier: GPL-2.0-only */
/* Stands in for libbpf's header of this name: a program is a function of its arguments. */
#ifndef PARACORD_SIM_BPF_TRACING_H
#define PARACORD_SIM_BPF_TRACING_H

#define BPF_PROG(name, ...)	name(__VA_ARGS__)

#endif
