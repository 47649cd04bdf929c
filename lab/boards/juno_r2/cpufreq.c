// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPU frequencies of an emulated Arm Juno r2: tables, an energy model, fast switching. The frequency
 * is a number that the kernel believes; the emulator's CPUs run on as before. What each CPU's speed would be is in
 * /dev/board_speed (speed.c).
 *
 * Figures: operating points, voltages and latency from Arm's SCP firmware (product/juno, config_dvfs.c, r2),
 * capacities and power coefficients from Linux' device tree (arch/arm64/boot/dts/arm/juno-r2.dts).
 */
#include <linux/arch_topology.h>
#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
#include <linux/module.h>
#include <linux/of.h>

#include "speed.h"

#define POINTS		3
#define LATENCY_NS	(1450 * 1000)

struct cluster {
	u32 dmips;		/* capacity-dmips-mhz, by which a CPU's cluster is known */
	u32 coefficient;	/* uW / MHz / V^2 */
	u32 mv[POINTS];
	struct cpufreq_frequency_table points[POINTS + 1];
};

static struct cluster clusters[] = {
	{	/* Cortex-A53 */
		.dmips = 485,
		.coefficient = 140,
		.mv = { 820, 900, 1000 },
		.points = {
			{ .frequency = 450000 }, { .frequency = 800000 }, { .frequency = 950000 },
			{ .frequency = CPUFREQ_TABLE_END },
		},
	}, {	/* Cortex-A72 */
		.dmips = 1024,
		.coefficient = 450,
		.mv = { 820, 900, 1000 },
		.points = {
			{ .frequency = 600000 }, { .frequency = 1000000 }, { .frequency = 1200000 },
			{ .frequency = CPUFREQ_TABLE_END },
		},
	},
};

static struct cluster *cluster_of(int cpu)
{
	struct device_node *node = of_get_cpu_node(cpu, NULL);
	u32 dmips = 0;
	int i;

	of_property_read_u32(node, "capacity-dmips-mhz", &dmips);
	of_node_put(node);
	for (i = 0; i < ARRAY_SIZE(clusters); i++)
		if (clusters[i].dmips == dmips)
			return &clusters[i];
	return NULL;
}

/* The slowest point that is fast enough, or the last. */
static unsigned int point_for(const struct cluster *cluster, unsigned long khz)
{
	unsigned int i = 0;

	while (i < POINTS - 1 && cluster->points[i].frequency < khz)
		i++;
	return i;
}

static void run_at(struct cpufreq_policy *policy, unsigned int khz)
{
	int cpu;

	for_each_cpu(cpu, policy->related_cpus)
		board_speed_set(cpu, topology_get_cpu_scale(cpu) * (u64)khz / policy->cpuinfo.max_freq);
}

static int board_init(struct cpufreq_policy *policy)
{
	struct cluster *cluster = cluster_of(policy->cpu);
	int cpu;

	if (!cluster)
		return -ENODEV;
	for_each_possible_cpu(cpu)
		if (cluster_of(cpu) == cluster)
			cpumask_set_cpu(cpu, policy->cpus);
	policy->driver_data = cluster;
	policy->freq_table = cluster->points;
	policy->cpuinfo.transition_latency = LATENCY_NS;
	policy->fast_switch_possible = true;
	policy->dvfs_possible_from_any_cpu = true;
	policy->cur = cluster->points[POINTS - 1].frequency;
	return 0;
}

static int board_target_index(struct cpufreq_policy *policy, unsigned int index)
{
	run_at(policy, policy->freq_table[index].frequency);
	return 0;
}

static unsigned int board_fast_switch(struct cpufreq_policy *policy, unsigned int khz)
{
	unsigned int index = point_for(policy->driver_data, khz);

	board_target_index(policy, index);
	return policy->freq_table[index].frequency;
}

static int board_active_power(struct device *dev, unsigned long *uw, unsigned long *khz)
{
	struct cluster *cluster = cluster_of(dev->id);
	unsigned int i = point_for(cluster, *khz);

	*khz = cluster->points[i].frequency;
	*uw = (u64)cluster->coefficient * (*khz / 1000) * cluster->mv[i] * cluster->mv[i] / 1000000;
	return 0;
}

static void board_register_em(struct cpufreq_policy *policy)
{
	static const struct em_data_callback power = EM_DATA_CB(board_active_power);

	em_dev_register_perf_domain(get_cpu_device(policy->cpu), POINTS, &power, policy->related_cpus, true);
}

static struct cpufreq_driver board_driver = {
	.name = "juno-r2",
	.flags = CPUFREQ_NEED_INITIAL_FREQ_CHECK,
	.init = board_init,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = board_target_index,
	.fast_switch = board_fast_switch,
	.register_em = board_register_em,
};

static int __init board_start(void)
{
	int error = board_speed_start();

	if (error)
		return error;
	error = cpufreq_register_driver(&board_driver);
	if (error)
		board_speed_stop();
	return error;
}

/* Never unloaded: the energy model stays with the CPUs. */
module_init(board_start);
MODULE_DESCRIPTION("CPU frequencies of an emulated Juno r2");
MODULE_LICENSE("GPL");
