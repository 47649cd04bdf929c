// SPDX-License-Identifier: GPL-2.0-only
/*
 * cpufreq driver "paracord": the request of the guest's governor is one word in the
 * guest line of each CPU of the policy. A new request costs one store per line and no
 * VM exit. The host reads the word whenever it needs the request.
 *
 * A frequency stands for a level of the vCPU's performance domain on the host,
 * expressed in kHz for users and governors.
 */
#include <linux/build_bug.h>
#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/rcupdate.h>
#include <linux/sched/topology.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <trace/events/power.h>

#include "paracord_guest.h"

/* Preferred interval between two requests. Requests are cheap, but the host would not act on more frequent ones. */
#define PC_RATE_LIMIT_US	1000
#define PC_TRANSITION_NS	1000

static bool use_cpufreq = true;
module_param_named(cpufreq, use_cpufreq, bool, 0444);
MODULE_PARM_DESC(cpufreq, "a cpufreq driver whose requests reach the host (default: on)");

/* policy->driver_data */
struct pc_policy {
	const struct paracord_domain *domain;
	unsigned int reference_khz;	/* see pc_cur_of(); 0: none */
};

static bool pc_running;
static struct cpumask pc_in_policy;	/* CPUs of all existing policies */

bool pc_cpufreq_possible(void)
{
	return use_cpufreq;
}

/*
 * Return: @khz on the host's capacity scale, on which the largest CPU has 1024. The
 * level is rounded up, because the frequencies in the table are rounded down. So a
 * frequency of the table yields the level from which it was computed.
 */
static u16 pc_request_of(const struct paracord_domain *domain, unsigned int khz)
{
	u64 level = DIV_ROUND_UP_ULL((u64)khz * PARACORD_SCALE, domain->max_khz);

	level = min_t(u64, level, PARACORD_SCALE);
	return max_t(u32, domain->capacity * (u32)level / PARACORD_SCALE, 1);
}

static void pc_store(const struct cpumask *cpus, u16 request, u16 limit)
{
	union {
		struct {
			u16 request;
			u16 limit;
		};
		u32 word;
	} perf = { { request, limit } };
	int nr;

	BUILD_BUG_ON(offsetof(struct paracord_guest_line, perf_request) % sizeof(perf.word));
	BUILD_BUG_ON(offsetof(struct paracord_guest_line, perf_limit) !=
		     offsetof(struct paracord_guest_line, perf_request) + sizeof(perf.request));
	/* Pairs with synchronize_rcu() in pc_cpufreq_offline(). */
	rcu_read_lock();
	for_each_cpu(nr, cpus) {
		struct pc_cpu *cpu = per_cpu_ptr(&pc_cpus, nr);
		u32 *word = READ_ONCE(cpu->perf);

		WRITE_ONCE(cpu->perf_word, perf.word);
		if (word)
			WRITE_ONCE(*word, perf.word);
	}
	rcu_read_unlock();
}

/*
 * Stores a request for @khz, and the policy's limit. Called under the lock of the policy or of its governor. CPUs that are
 * offline store the word when they come online.
 */
static void pc_ask(const struct cpufreq_policy *policy, unsigned int khz)
{
	const struct pc_policy *own = policy->driver_data;
	unsigned int max_khz = READ_ONCE(policy->max);

	pc_store(policy->related_cpus, pc_request_of(own->domain, khz),
		 max_khz < own->domain->max_khz ? pc_request_of(own->domain, max_khz) : 0);
}

/*
 * The value of policy->cur after a change to @khz. It is @khz for all governors except
 * schedutil, which may need reference_khz. reference_khz is never a frequency of the
 * table, because the core would skip a change to a frequency that equals policy->cur.
 */
static unsigned int pc_cur_of(const struct cpufreq_policy *policy, unsigned int khz)
{
	const struct pc_policy *own = policy->driver_data;

	if (!own->reference_khz || !pc_invariance_running() || !policy->governor ||
	    strcmp(policy->governor->name, "schedutil"))
		return khz;
	return own->reference_khz;
}

static unsigned int pc_fast_switch(struct cpufreq_policy *policy, unsigned int khz)
{
	pc_ask(policy, khz);
	return pc_cur_of(policy, khz);
}

/*
 * Stores schedutil's request for a CPU with a policy of its own. schedutil uses this path only if utilisation is invariant. @target
 * is the request, on a scale from 0 to @capacity. The request is not rounded up to a level, so that the host can add up the
 * requests of vCPUs like those of its own tasks. On this path, the core leaves the limits and the trace event to the driver.
 */
static void pc_adjust(struct cpufreq_policy *policy, unsigned long target,
		      unsigned long capacity)
{
	const struct pc_policy *own = policy->driver_data;
	u64 wanted = (u64)own->domain->max_khz * min(target, capacity);
	unsigned int khz = div_u64(wanted, max_t(u32, capacity, 1));
	unsigned int floor_khz;

	/*
	 * Treat policy->min as a floor only if it is above the lowest frequency. The lowest frequency is no floor: a CPU never
	 * runs slower anyway, and a smaller need should lead to a smaller request.
	 */
	floor_khz = READ_ONCE(policy->min);
	if (floor_khz > policy->cpuinfo.min_freq)
		khz = max(khz, floor_khz);
	khz = min(khz, READ_ONCE(policy->max));
	pc_ask(policy, khz);
	if (khz == policy->cur)
		return;
	policy->cur = khz;
	trace_cpu_frequency(khz, policy->cpu);
}

#ifdef PC_CPUFREQ_ADJUSTS_POLICY
static void pc_adjust_perf(struct cpufreq_policy *policy, unsigned long floor,
			   unsigned long target, unsigned long ceiling,
			   unsigned long capacity)
{
	pc_adjust(policy, target, capacity);
}
#else
static void pc_adjust_perf(unsigned int cpu, unsigned long floor, unsigned long target,
			   unsigned long capacity)
{
	struct cpufreq_policy *policy = cpufreq_cpu_get_raw(cpu);

	if (policy)
		pc_adjust(policy, target, capacity);
}
#endif

/*
 * Stores a request. The driver implements target() and not target_index(), because
 * the core skips target_index() if the frequency stays the same. A new limit would
 * then not reach the host.
 */
static int pc_target(struct cpufreq_policy *policy, unsigned int khz,
		     unsigned int relation)
{
	struct cpufreq_freqs freqs = { .old = policy->cur, .new = khz };
	bool tell = khz != policy->cur && pc_arch_clock_is_constant();

	if (tell)
		cpufreq_freq_transition_begin(policy, &freqs);
	pc_ask(policy, khz);
	if (tell)
		cpufreq_freq_transition_end(policy, &freqs, 0);
	policy->cur = pc_cur_of(policy, khz);
	return 0;
}

/*
 * Shows the host's current frequency, which also depends on other guests and on the
 * host's own tasks. The driver has no get() callback that reports this frequency,
 * because the core would take it for the requested frequency.
 */
static ssize_t show_cpuinfo_cur_freq(struct cpufreq_policy *policy, char *buf)
{
	const struct pc_policy *own = policy->driver_data;
	u64 khz = (u64)own->domain->max_khz * pc_freq_scale(per_cpu_ptr(&pc_cpus, policy->cpu));

	return sysfs_emit(buf, "%llu\n", khz / PARACORD_SCALE);
}
cpufreq_freq_attr_ro_perm(cpuinfo_cur_freq, 0400);

/*
 * Makes the frequency table of a domain. Levels that are equal in kHz become one entry, because equal frequencies make the core
 * divide by zero.
 */
static struct cpufreq_frequency_table *pc_table_of(const struct paracord_domain *domain)
{
	struct cpufreq_frequency_table *table;
	unsigned int i, n = 0;

	table = kcalloc(domain->level_count + 1, sizeof(*table), GFP_KERNEL);
	if (!table)
		return NULL;
	for (i = 0; i < domain->level_count; i++) {
		u32 khz = (u64)domain->max_khz * domain->levels[i] / PARACORD_SCALE;

		if (khz > (n ? table[n - 1].frequency : 0))
			table[n++].frequency = khz;
	}
	table[n].frequency = CPUFREQ_TABLE_END;
	return table;
}

static int pc_policy_init(struct cpufreq_policy *policy)
{
	const struct paracord_domain *domain = per_cpu(pc_cpus, policy->cpu).domain;
	struct cpufreq_frequency_table *entry;
	struct pc_policy *own;
	int nr;

	if (!domain)
		return -ENODEV;
	own = kzalloc(sizeof(*own), GFP_KERNEL);
	policy->freq_table = own ? pc_table_of(domain) : NULL;
	if (!policy->freq_table) {
		kfree(own);
		return -ENOMEM;
	}
	own->domain = domain;
	own->reference_khz = pc_arch_reference_khz(domain->max_khz);
	cpufreq_for_each_entry(entry, policy->freq_table)
		own->reference_khz += entry->frequency == own->reference_khz;
	policy->driver_data = own;
	/* A CPU that first comes online after its domain's policy was created gets a policy of its own. */
	if (domain->flags & PARACORD_DOMAIN_SHARED)
		for_each_possible_cpu(nr)
			if (per_cpu(pc_cpus, nr).domain == domain &&
			    !cpumask_test_cpu(nr, &pc_in_policy))
				cpumask_set_cpu(nr, policy->cpus);
	cpumask_or(&pc_in_policy, &pc_in_policy, policy->cpus);

	policy->cpuinfo.transition_latency = PC_TRANSITION_NS;
	policy->transition_delay_us = PC_RATE_LIMIT_US;
	policy->fast_switch_possible = true;
	/* Another CPU could store into the line, but the host would not read the line any sooner. */
	policy->dvfs_possible_from_any_cpu = false;
	/* Start as if the highest frequency had been requested. */
	policy->cur = domain->max_khz;
	pc_store(policy->cpus, domain->capacity, 0);
	return 0;
}

static void pc_policy_end(struct cpufreq_policy *policy)
{
	int nr;

	/*
	 * Both ->related_cpus and ->cpus are needed: a policy that failed early has no ->related_cpus yet, and a policy that ends
	 * later has all its CPUs only in ->related_cpus.
	 */
	pc_store(policy->related_cpus, 0, 0);
	pc_store(policy->cpus, 0, 0);
	/* If invariance.c was not active, arm64 has used the requested frequency as the CPU's speed: reset the speed. */
	for_each_cpu(nr, policy->related_cpus)
		if (pc_arch_freq_scale(nr))
			WRITE_ONCE(*pc_arch_freq_scale(nr), SCHED_CAPACITY_SCALE);
	cpumask_andnot(&pc_in_policy, &pc_in_policy, policy->related_cpus);
	cpumask_andnot(&pc_in_policy, &pc_in_policy, policy->cpus);
	kfree(policy->freq_table);
	policy->freq_table = NULL;
	kfree(policy->driver_data);
}

#ifdef PC_CPUFREQ_EXIT_RETURNS_INT
static int pc_policy_exit(struct cpufreq_policy *policy)
{
	pc_policy_end(policy);
	return 0;
}
#else
static void pc_policy_exit(struct cpufreq_policy *policy)
{
	pc_policy_end(policy);
}
#endif

/* With these two callbacks, the core keeps a policy and its limits when the last CPU of the policy goes offline. */
static int pc_policy_online(struct cpufreq_policy *policy)
{
	return 0;
}

static int pc_policy_offline(struct cpufreq_policy *policy)
{
	return 0;
}

static struct freq_attr *pc_attributes[] = {
#ifdef PC_CPUFREQ_GENERIC_ATTR
	&cpufreq_freq_attr_scaling_available_freqs,
#endif
	&cpuinfo_cur_freq,
	NULL
};

static struct cpufreq_driver pc_driver = {
	.name = "paracord",
	.flags = CPUFREQ_NEED_UPDATE_LIMITS | CPUFREQ_CONST_LOOPS |
		 CPUFREQ_HAVE_GOVERNOR_PER_POLICY,
	.init = pc_policy_init,
	.exit = pc_policy_exit,
	.online = pc_policy_online,
	.offline = pc_policy_offline,
	.verify = cpufreq_generic_frequency_table_verify,
	.target = pc_target,
	.fast_switch = pc_fast_switch,
	.adjust_perf = pc_adjust_perf,
	.attr = pc_attributes,
};

bool pc_cpufreq_is_foreign(void)
{
	return !pc_running && cpufreq_get_current_driver();
}

void pc_cpufreq_online(struct pc_cpu *cpu)
{
	BUILD_BUG_ON(sizeof(cpu->line->perf_request) * 2 != sizeof(*cpu->perf));
	if (!pc_running)
		return;
	WRITE_ONCE(cpu->perf, (u32 *)&cpu->line->perf_request);
	/*
	 * If nothing else changes, the governor makes no request for a CPU that joins its policy. So store the policy's last
	 * request here.
	 */
	WRITE_ONCE(*cpu->perf, READ_ONCE(cpu->perf_word));
}

/*
 * Ends the stores into the line of @cpu, which is about to be withdrawn. Without this
 * call, another CPU of the policy might still store into the line. The cpufreq core may
 * not have removed @cpu from the policy yet, because the order of cpufreq's and this
 * driver's hotplug states depends on the order of registration.
 */
void pc_cpufreq_offline(struct pc_cpu *cpu)
{
	if (!cpu->perf)
		return;
	WRITE_ONCE(cpu->perf, NULL);
	synchronize_rcu();
}

/* Makes all CPUs forget where requests are stored, so that no CPU stores into a line any more. */
static void pc_cpufreq_forget(void)
{
	int nr;

	cpus_read_lock();
	pc_running = false;
	for_each_possible_cpu(nr)
		WRITE_ONCE(per_cpu(pc_cpus, nr).perf, NULL);
	cpus_read_unlock();
}

void pc_cpufreq_start(struct pc_region *region)
{
	int nr, err;

	if (!(region->features & PARACORD_F_PERF_REQUEST))
		return;
	cpus_read_lock();
	pc_running = true;
	for_each_online_cpu(nr)
		if (READ_ONCE(per_cpu(pc_cpus, nr).line))
			pc_cpufreq_online(per_cpu_ptr(&pc_cpus, nr));
	cpus_read_unlock();

	err = cpufreq_register_driver(&pc_driver);
	if (!err)
		return;
	pc_cpufreq_forget();
	pc_region_drop_feature(region, PARACORD_F_PERF_REQUEST);
	if (err == -EEXIST)
		dev_info(region->dev, "the cpufreq driver %s is in use: the host is not asked for frequencies\n",
			 cpufreq_get_current_driver() ?: "of somebody else");
	else
		dev_info(region->dev, "no cpufreq driver, the host is not asked for frequencies: %d\n",
			 err);
}

void pc_cpufreq_stop(void)
{
	if (!pc_running)
		return;
	cpufreq_unregister_driver(&pc_driver);
	pc_cpufreq_forget();
}
