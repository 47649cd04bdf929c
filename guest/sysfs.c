// SPDX-License-Identifier: GPL-2.0-only
/*
 * State in the sysfs directory of the PCI or platform device, group "paracord". A file
 * contains one value, or one line per domain, CPU or range of latencies.
 * docs/guest-module.md describes the files.
 */
#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "paracord_guest.h"

static struct pc_region *pc_region_of(struct device *dev)
{
	return dev_get_drvdata(dev);
}

static ssize_t abi_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct paracord_header *h = &pc_region_of(dev)->host;

	return sysfs_emit(buf, "%u.%u\n", h->abi_major, h->abi_minor);
}
static DEVICE_ATTR_RO(abi);

static ssize_t features_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%#x\n", pc_region_of(dev)->features);
}
static DEVICE_ATTR_RO(features);

static ssize_t host_features_show(struct device *dev, struct device_attribute *attr,
				  char *buf)
{
	return sysfs_emit(buf, "%#x\n", pc_region_of(dev)->host.host_features);
}
static DEVICE_ATTR_RO(host_features);

static ssize_t hooks_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return pc_hooks_list(buf, PAGE_SIZE);
}
static DEVICE_ATTR_RO(hooks);

static ssize_t vcpus_published_show(struct device *dev, struct device_attribute *attr,
				    char *buf)
{
	return sysfs_emit(buf, "%u\n", pc_vcpus_published());
}
static DEVICE_ATTR_RO(vcpus_published);

static ssize_t vcpus_without_slot_show(struct device *dev, struct device_attribute *attr,
				       char *buf)
{
	return sysfs_emit(buf, "%u\n", pc_vcpus_without_slot());
}
static DEVICE_ATTR_RO(vcpus_without_slot);

static ssize_t kick_threshold_us_show(struct device *dev, struct device_attribute *attr,
				      char *buf)
{
	return sysfs_emit(buf, "%u\n", pc_kick_threshold_us());
}
static DEVICE_ATTR_RO(kick_threshold_us);

static ssize_t kicks_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	u64 sum = 0;
	int nr;

	for_each_online_cpu(nr) {
		struct paracord_guest_line *line = READ_ONCE(per_cpu(pc_cpus, nr).line);

		if (line)
			sum += READ_ONCE(line->kicks);
	}
	return sysfs_emit(buf, "%llu\n", sum);
}
static DEVICE_ATTR_RO(kicks);

/* Shows a u64 field of struct pc_kick_state: the sum or the maximum over the online CPUs. */
#define PC_STALE_ATTR(name, expression)						\
static ssize_t name##_show(struct device *dev, struct device_attribute *attr,	\
			   char *buf)						\
{										\
	u64 total = 0;								\
	int nr;									\
										\
	for_each_online_cpu(nr) {						\
		u64 value = READ_ONCE(per_cpu(pc_cpus, nr).kick.name);		\
										\
		total = expression;						\
	}									\
	return sysfs_emit(buf, "%llu\n", total);				\
}										\
static DEVICE_ATTR_RO(name)

PC_STALE_ATTR(stale_boosts, total + value);
PC_STALE_ATTR(stale_ns, total + value);
PC_STALE_ATTR(stale_max_ns, max(total, value));

static ssize_t domains_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct pc_region *region = pc_region_of(dev);
	unsigned int i, level;
	int n = 0;

	for (i = 0; i < region->domain_count; i++) {
		const struct paracord_domain *d = &region->domains[i];

		/* If the region lies in the guest's own memory, a domain is unknown until it is assigned to the first CPU. */
		if (!d->max_khz)
			continue;
		n += sysfs_emit_at(buf, n, "domain%u max_khz %u capacity %u shared %u levels",
				   i, d->max_khz, d->capacity,
				   !!(d->flags & PARACORD_DOMAIN_SHARED));
		for (level = 0; level < d->level_count; level++)
			n += sysfs_emit_at(buf, n, " %u", d->levels[level]);
		n += sysfs_emit_at(buf, n, "\n");
	}
	return n;
}
static DEVICE_ATTR_RO(domains);

/* -1 stands for a value that is unknown or does not exist. */
static ssize_t places_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct pc_region *region = pc_region_of(dev);
	struct paracord_host_line host = { };
	int nr, n = 0;

	/* Pairs with synchronize_rcu() in pc_domains_forget(). */
	rcu_read_lock();
	for_each_online_cpu(nr) {
		const struct pc_cpu *cpu = per_cpu_ptr(&pc_cpus, nr);
		const struct paracord_domain *domain = READ_ONCE(cpu->domain);

		if (!READ_ONCE(cpu->line))
			continue;
		memcpy(&host, cpu->host, min_t(u32, region->host.host_line_bytes, sizeof(host)));
		n += sysfs_emit_at(buf, n, "cpu%d physical_cpu %d cluster %d capacity %u frequency %u domain %d scale %lu\n",
				   nr, (int)host.physical_cpu, (int)host.cluster, host.capacity,
				   host.frequency, domain ? (int)(domain - region->domains) : -1,
				   pc_freq_scale(cpu));
	}
	rcu_read_unlock();
	return n;
}
static DEVICE_ATTR_RO(places);

static ssize_t perf_requests_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	int nr, n = 0;

	for_each_online_cpu(nr) {
		const struct paracord_guest_line *line = READ_ONCE(per_cpu(pc_cpus, nr).line);

		if (line)
			n += sysfs_emit_at(buf, n, "cpu%d request %u limit %u\n", nr,
					   READ_ONCE(line->perf_request),
					   READ_ONCE(line->perf_limit));
	}
	return n;
}
static DEVICE_ATTR_RO(perf_requests);

static ssize_t counters_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return pc_counters_list(buf);
}
static DEVICE_ATTR_RO(counters);

static ssize_t counters_latency_ns_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return pc_counters_latency(buf);
}
static DEVICE_ATTR_RO(counters_latency_ns);

static struct attribute *pc_attributes[] = {
	&dev_attr_abi.attr,
	&dev_attr_features.attr,
	&dev_attr_host_features.attr,
	&dev_attr_hooks.attr,
	&dev_attr_vcpus_published.attr,
	&dev_attr_vcpus_without_slot.attr,
	&dev_attr_kick_threshold_us.attr,
	&dev_attr_kicks.attr,
	&dev_attr_stale_boosts.attr,
	&dev_attr_stale_ns.attr,
	&dev_attr_stale_max_ns.attr,
	&dev_attr_domains.attr,
	&dev_attr_places.attr,
	&dev_attr_perf_requests.attr,
	&dev_attr_counters.attr,
	&dev_attr_counters_latency_ns.attr,
	NULL
};

static const struct attribute_group pc_group = {
	.name = "paracord",
	.attrs = pc_attributes,
};

const struct attribute_group *pc_sysfs_groups[] = { &pc_group, NULL };
