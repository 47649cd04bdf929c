// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel has and BPF programs ask for by name, other than functions; and where the context lies. */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#include "sim_context.h"

struct sim_context sim_context;
struct sim_kernel sim_kernel;

const unsigned long arch_freq_scale = 1024;
/* A static key that is off. */
const u32 arch_scale_freq_key;
void *cpufreq_cpu_data;
