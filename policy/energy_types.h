/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's energy model, as the kernel describes it (Documentation/power/energy-model.rst), and a placement (energy.h). */
#ifndef PARACORD_POLICY_ENERGY_TYPES_H
#define PARACORD_POLICY_ENERGY_TYPES_H

#include "boost_types.h"

#define PC_DOMAINS_MAX	8	/* sets of CPUs that share a frequency */
#define PC_POINTS_MAX	32	/* frequencies of one */
/* A placement looks at every CPU. */
#define PC_PLACE_CPUS_MAX	64

/* One frequency of a domain; ascending. */
struct pc_point {
	u64 cost;		/* energy of a unit of work: em_perf_state.cost */
	u32 capacity;		/* 0..1024: what a CPU can do at it */
	u32 reserved;
};

struct pc_domain {
	struct pc_point point[PC_POINTS_MAX];
	u32 points;		/* 0: no such domain */
	u32 reserved;
};

struct pc_energy {
	struct pc_domain domain[PC_DOMAINS_MAX];
	u32 cpus;		/* 0: no model */
	u32 small;		/* the least capacity of a CPU */
};

/* A domain as a placement sees it: without the task. */
struct pc_domain_load {
	u32 peak;		/* largest sum of requests of one CPU */
	u32 total;		/* of all of its CPUs */
	u32 best_sum;		/* of best_cpu: the least, of those where the task fits */
	s32 best_cpu;		/* -1: it fits nowhere */
	u32 cpus;
	u32 capacity;		/* of the smallest */
};

struct pc_place {
	struct pc_domain_load domain[PC_DOMAINS_MAX];
	u32 request;		/* the task's, 0..1024 */
	s32 prev;		/* where it is */
	u32 prev_domain;	/* PC_DOMAINS_MAX: it may not stay there */
	u32 prev_sum;
	u32 prev_fits;		/* 0/1 */
	s32 prev_room;
	u32 prev_capacity;
	s32 widest_cpu;		/* with the most room, whether it fits or not; -1: none allowed */
	s32 widest_room;
	u32 widest_capacity;
};

#endif
