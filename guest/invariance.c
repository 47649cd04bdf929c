// SPDX-License-Identifier: GPL-2.0-only
/*
 * Load tracking that takes the speed of the CPU into account. The host line contains
 * the capacity and the frequency of the CPU that the vCPU runs on. The guest kernel
 * scales the utilisation of tasks by these two values. The cost is one load from the
 * host line per tick, without a VM exit.
 *
 * The host may write any values into the line, so the scale is clamped to 1..1024.
 */
#include <linux/build_bug.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/sched/topology.h>
#include <linux/smp.h>

#include "paracord_guest.h"

static bool invariance = true;
module_param(invariance, bool, 0444);
MODULE_PARM_DESC(invariance, "scale utilisation by the speed of the host's CPU (default: on)");

static bool pc_running;
static bool pc_by_looks;		/* the timer of vcpu.c, and not the tick, calls pc_invariance_look() */
static struct cpumask pc_capacity_set;	/* CPUs whose capacity comes from the domain */

bool pc_invariance_possible(void)
{
	return invariance && pc_arch_freq_scale(0);
}

bool pc_invariance_running(void)
{
	return READ_ONCE(pc_running);
}

bool pc_invariance_needs_looks(void)
{
	return READ_ONCE(pc_running) && pc_by_looks;
}

unsigned long pc_freq_scale(const struct pc_cpu *cpu)
{
	const struct paracord_domain *domain = READ_ONCE(cpu->domain);
	const struct paracord_host_line *host = READ_ONCE(cpu->host);
	union {
		struct {
			u16 capacity;
			u16 frequency;
		};
		u32 word;
	} now;

	BUILD_BUG_ON(offsetof(struct paracord_host_line, capacity) % sizeof(now.word));
	BUILD_BUG_ON(offsetof(struct paracord_host_line, frequency) !=
		     offsetof(struct paracord_host_line, capacity) + sizeof(now.capacity));
	if (!domain || !host)
		return SCHED_CAPACITY_SCALE;
	now.word = READ_ONCE(*(const u32 *)&host->capacity);
	if (!now.capacity || !now.frequency)
		return SCHED_CAPACITY_SCALE;
	return clamp((u32)now.capacity * now.frequency / domain->capacity, 1U,
		     (u32)SCHED_CAPACITY_SCALE);
}

void pc_invariance_look(void)
{
	unsigned long scale = pc_freq_scale(this_cpu_ptr(&pc_cpus));
	unsigned long *kept = pc_arch_freq_scale(smp_processor_id());

	if (READ_ONCE(*kept) != scale)
		WRITE_ONCE(*kept, scale);
}

/* Sets the capacity of a CPU to the capacity of its domain, unless the kernel has a capacity from another source. */
static void pc_set_capacity(int nr)
{
	const struct paracord_domain *domain = per_cpu(pc_cpus, nr).domain;
	unsigned long *capacity = pc_arch_cpu_capacity(nr);

	if (!domain || !capacity || *capacity != SCHED_CAPACITY_SCALE ||
	    domain->capacity == SCHED_CAPACITY_SCALE)
		return;
	WRITE_ONCE(*capacity, domain->capacity);
	cpumask_set_cpu(nr, &pc_capacity_set);
}

void pc_invariance_online(int nr)
{
	if (pc_running)
		pc_set_capacity(nr);
}

void pc_invariance_start(struct pc_region *region)
{
	int nr;

	if (!(region->features & PARACORD_F_CAPACITY))
		return;
	/* If another cpufreq driver is active, that driver has a frequency scale of its own. */
	if (pc_cpufreq_is_foreign()) {
		pc_region_drop_feature(region, PARACORD_F_CAPACITY);
		return;
	}
	WRITE_ONCE(pc_running, true);
	for_each_possible_cpu(nr)
		pc_set_capacity(nr);
	pc_by_looks = pc_arch_ticks_start() < 0;
}

void pc_invariance_stop(void)
{
	int nr;

	if (!pc_running)
		return;
	pc_arch_ticks_stop();
	WRITE_ONCE(pc_running, false);
	/*
	 * A CPU may have read pc_running before it was cleared. Such a CPU calls pc_invariance_look() with interrupts off, so
	 * synchronize_rcu() waits until the call has ended.
	 */
	synchronize_rcu();
	for_each_possible_cpu(nr)
		WRITE_ONCE(*pc_arch_freq_scale(nr), SCHED_CAPACITY_SCALE);
	for_each_cpu(nr, &pc_capacity_set)
		WRITE_ONCE(*pc_arch_cpu_capacity(nr), SCHED_CAPACITY_SCALE);
	cpumask_clear(&pc_capacity_set);
}
