/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Energy-aware placement: on which CPU a task costs the least energy. It follows the kernel's placement
 * (find_energy_efficient_cpu(), kernel/sched/fair.c), but uses sums of requests instead of maxima of clamps.
 *
 * In each performance domain, the candidate is the CPU with the least sum of requests among the CPUs where the task fits. The
 * task goes to the domain whose energy grows the least. A task fits on a CPU if the CPU's sum, including the task, stays within
 * the CPU's capacity. Placement adds no headroom: requests already include it (perf.h), and a capped task needs none. All CPUs of
 * a domain run at the frequency that the largest sum in the domain requires.
 *
 * A task leaves its CPU if the move saves more than 1/16 of the task's cost on this CPU, or if the sum on another CPU of the same
 * domain is lower by more than half of the task's request. So equal tasks spread evenly and then stay. The kernel once required a
 * saving of 1/16 of the total energy. Under that rule, if four of eight equal tasks are on small CPUs, the other four stay on
 * large CPUs.
 *
 * The room on a CPU is the CPU's capacity minus its sum. A task that fits nowhere is placed on the CPU with the most room. Later,
 * it moves to another CPU only if the room there is larger by more than half of the task's request. In one case, 1/8 of the request
 * is enough: if the capacity of the task's current CPU is less than the request, and the other CPU has a larger capacity.
 */
#ifndef PARACORD_POLICY_ENERGY_H
#define PARACORD_POLICY_ENERGY_H

#include "energy_types.h"
#include "perf.h"

#define PC_SAVING_SHIFT		4
#define PC_EMPTIES_SHIFT	6
/* A task whose request exceeds its CPU's capacity leaves for a larger CPU if the gain in room is more than 1/8 of the request. */
#define PC_CRAMPED_SHIFT	3

PC_INLINE void pc_place_begin(struct pc_place *place, u32 request, s32 prev)
{
	int d;

	for (d = 0; d < PC_DOMAINS_MAX; d++) {
		place->domain[d].peak = 0;
		place->domain[d].total = 0;
		place->domain[d].best_sum = 0;
		place->domain[d].best_cpu = -1;
		place->domain[d].cpus = 0;
		place->domain[d].capacity = PC_CAPACITY;
	}
	place->request = pc_min_u32(request, PC_CAPACITY);
	place->prev = prev;
	place->prev_domain = PC_DOMAINS_MAX;
	place->prev_sum = 0;
	place->prev_fits = 0;
	place->prev_room = 0;
	place->prev_capacity = 0;
	place->widest_cpu = -1;
	place->widest_room = 0;
	place->widest_capacity = 0;
}

/*
 * Adds one CPU to the placement. `sum`: the CPU's sum of requests, without the task's own request. `allowed`: whether the task's
 * affinity includes the CPU. Return: 0 if the domain is out of range.
 */
PC_INLINE int pc_place_look(struct pc_place *place, u32 domain, s32 cpu, u32 sum, u32 capacity, int allowed)
{
	struct pc_domain_load *load;
	s32 room;
	int fits;

	if (domain >= PC_DOMAINS_MAX)
		return 0;
	load = &place->domain[domain];
	sum = pc_min_u32(sum, 1u << 20);
	capacity = pc_min_u32(capacity, PC_CAPACITY);
	load->peak = pc_max_u32(load->peak, sum);
	load->total += sum;
	load->cpus++;
	load->capacity = pc_min_u32(load->capacity, capacity);
	if (!allowed)
		return 1;
	room = (s32)capacity - (s32)sum;
	fits = room >= (s32)place->request;
	if (cpu == place->prev) {
		place->prev_domain = domain;
		place->prev_sum = sum;
		place->prev_fits = (u32)fits;
		place->prev_room = room;
		place->prev_capacity = capacity;
	}
	if (fits && (load->best_cpu < 0 || sum < load->best_sum)) {
		load->best_cpu = cpu;
		load->best_sum = sum;
	}
	if (place->widest_cpu < 0 || room > place->widest_room) {
		place->widest_cpu = cpu;
		place->widest_room = room;
		place->widest_capacity = capacity;
	}
	return 1;
}

/* Energy of a domain. `total`: sum of all requests in the domain. `peak`: sum of requests on its busiest CPU. */
PC_VERIFIED_ALONE u64 pc_domain_energy(const struct pc_domain *domain, u32 peak, u32 total)
{
	u64 cost = 0;
	u32 points, i;

	if (!domain)
		return 0;
	points = pc_min_u32(domain->points, PC_POINTS_MAX);
	for (i = 0; i < PC_POINTS_MAX; i++) {
		if (i >= points)
			break;
		cost = domain->point[i].cost;
		if (domain->point[i].capacity >= peak)
			break;
	}
	return pc_min_u64(cost, 1ull << 32) * total;
}

/* Energy that the task adds to a domain if it runs on a CPU whose sum of requests is `sum`. */
PC_INLINE u64 pc_place_cost(const struct pc_domain *domain, const struct pc_domain_load *load, u32 sum, u32 request)
{
	u64 without = pc_domain_energy(domain, load->peak, load->total);
	u64 with = pc_domain_energy(domain, pc_max_u32(load->peak, sum + request), load->total + request);

	return with > without ? with - without : 0;
}

/*
 * Whether energy is saved if the task and all tasks of the domain `there` move to the domain `here` and spread evenly over the CPUs
 * of `here`. Even if moving all tasks saves energy, moving a single task may cost energy, because it raises the frequency of
 * `here`.
 */
PC_VERIFIED_ALONE int pc_place_empties(const struct pc_domain *here, const struct pc_domain_load *on_here,
				       const struct pc_domain *there, const struct pc_domain_load *on_there,
				       u32 request)
{
	u32 busiest, all, cpus, peak;
	u64 both;

	if (!here || !on_here || !there || !on_there)
		return 0;
	busiest = pc_max_u32(on_there->peak, on_there->best_sum + request);
	all = on_here->total + on_there->total + request;
	cpus = pc_max_u32(on_here->cpus, 1);
	peak = pc_max_u32(on_here->peak, (all + cpus - 1) / cpus);
	/* The load of the busiest CPU of `there` must fit on one CPU of `here`, because this load may come from a single task. */
	if (on_here->best_cpu < 0 || peak > on_here->capacity || busiest > on_here->capacity)
		return 0;
	both = pc_domain_energy(here, on_here->peak, on_here->total) +
	       pc_domain_energy(there, busiest, on_there->total + request);
	return pc_domain_energy(here, peak, all) < both - (both >> PC_EMPTIES_SHIFT);
}

/*
 * Return: the domain where the task costs least; PC_DOMAINS_MAX if the task fits nowhere. *cost: the task's cost in this domain;
 * 0 if all tasks of another domain should move to this domain (pc_place_empties()).
 */
PC_INLINE u32 pc_place_domain(const struct pc_energy *model, const struct pc_place *place, u64 *cost)
{
	u32 best = PC_DOMAINS_MAX, d;

	for (d = 0; d < PC_DOMAINS_MAX; d++) {
		const struct pc_domain_load *load = &place->domain[d];
		u64 here;

		if (!model->domain[d].points || load->best_cpu < 0)
			continue;
		here = pc_place_cost(&model->domain[d], load, load->best_sum, place->request);
		if (best >= PC_DOMAINS_MAX || here < *cost) {
			best = d;
			*cost = here;
		}
	}
	if (best >= PC_DOMAINS_MAX)
		return best;
	for (d = 0; d < PC_DOMAINS_MAX; d++) {
		if (d == best || !model->domain[d].points)
			continue;
		if (pc_place_empties(&model->domain[d], &place->domain[d], &model->domain[best],
				     &place->domain[best], place->request)) {
			*cost = 0;
			return d;
		}
	}
	return best;
}

/*
 * Whether a task that fits nowhere stays on its CPU, or moves to the CPU with the most room. It moves only if the gain in room
 * exceeds a threshold. The threshold is lower if the task's request exceeds the capacity of its CPU, and the CPU with the most
 * room has a larger capacity.
 */
PC_INLINE int pc_place_stays(const struct pc_place *place)
{
	s32 gain = place->widest_room - place->prev_room;

	if (place->prev_capacity < place->request && place->widest_capacity > place->prev_capacity)
		return gain <= (s32)(place->request >> PC_CRAMPED_SHIFT);
	return gain <= (s32)(place->request / 2);
}

/* Return: the CPU for the task; `prev` if no other CPU is better; -1 if no CPU is allowed. */
PC_INLINE s32 pc_place_choose(const struct pc_energy *model, const struct pc_place *place)
{
	u64 least = 0, stays;
	u32 half = place->request / 2;
	u32 best = pc_place_domain(model, place, &least);
	u32 home = place->prev_domain;
	const struct pc_domain_load *load;

	if (best >= PC_DOMAINS_MAX) {
		if (home < PC_DOMAINS_MAX && pc_place_stays(place))
			return place->prev;
		return place->widest_cpu;
	}
	if (home >= PC_DOMAINS_MAX || !place->prev_fits)
		return place->domain[best].best_cpu;
	load = &place->domain[home];
	stays = pc_place_cost(&model->domain[home], load, place->prev_sum, place->request);
	if (best != home && stays > least && stays - least > stays >> PC_SAVING_SHIFT)
		return place->domain[best].best_cpu;
	return place->prev_sum - load->best_sum > half ? load->best_cpu : place->prev;
}

#endif
