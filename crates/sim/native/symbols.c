// SPDX-License-Identifier: GPL-2.0-only
/* Kernel symbols, other than functions, that BPF programs ask for by name, and the context of programs. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#include "sim_context.h"

struct sim_context sim_context;
struct sim_kernel sim_kernel;

const unsigned long arch_freq_scale = 1024;
void *cpufreq_cpu_data;
