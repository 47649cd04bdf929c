/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's energy model as the kernel describes it (Documentation/power/energy-model.rst), and the state of a placement
 * (energy.h).
 */
#ifndef PARACORD_POLICY_ENERGY_TYPES_H
#define PARACORD_POLICY_ENERGY_TYPES_H

#include "boost_types.h"

#define PC_DOMAINS_MAX	8	/* largest number of performance domains, which are sets of CPUs that share a frequency */
#define PC_POINTS_MAX	32	/* largest number of frequencies of one domain */
/* Energy-aware placement is used only if all CPU numbers are below this value, because each placement visits every CPU. */
#define PC_PLACE_CPUS_MAX	64

/* One frequency of a domain. The points of a domain are in ascending order. */
struct pc_point {
	u64 cost;		/* energy per unit of work: em_perf_state.cost */
	u32 capacity;		/* 0..1024: capacity of a CPU at this frequency */
	u32 reserved;
};

struct pc_domain {
	struct pc_point point[PC_POINTS_MAX];
	u32 points;		/* number of points; 0: the domain does not exist */
	u32 reserved;
};

struct pc_energy {
	struct pc_domain domain[PC_DOMAINS_MAX];
	u32 cpus;		/* number of CPUs; 0: no model */
	u32 small;		/* capacity of the smallest CPU */
};

/* Load of a performance domain, excluding the task being placed. */
struct pc_domain_load {
	u32 peak;		/* largest sum of requests on one CPU */
	u32 total;		/* sum of requests on all CPUs */
	u32 best_sum;		/* sum on best_cpu */
	s32 best_cpu;		/* the CPU with the least sum among those where the task fits; -1: none */
	u32 cpus;
	u32 capacity;		/* capacity of the smallest CPU */
};

struct pc_place {
	struct pc_domain_load domain[PC_DOMAINS_MAX];
	u32 request;		/* request of the task, 0..1024 */
	s32 prev;		/* the task's current CPU */
	u32 prev_domain;	/* domain of prev; PC_DOMAINS_MAX: the task may not stay on prev */
	u32 prev_sum;
	u32 prev_fits;		/* 0/1 */
	s32 prev_room;
	u32 prev_capacity;
	s32 widest_cpu;		/* the CPU with the most room, whether or not the task fits there; -1: no CPU is allowed */
	s32 widest_room;
	u32 widest_capacity;
};

#endif
