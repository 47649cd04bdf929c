/* SPDX-License-Identifier: GPL-2.0-only */
/* Replaces libbpf's header of this name. A program is a function of its arguments. */
#ifndef PARACORD_SIM_BPF_TRACING_H
#define PARACORD_SIM_BPF_TRACING_H

#define BPF_PROG(name, ...)	name(__VA_ARGS__)

#endif
