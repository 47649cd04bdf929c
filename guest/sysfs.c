// SPDX-License-Identifier: GPL-2.0-only
/*
 * State in the PCI device's directory, group "paracord": one value per file.
 * The files are described in docs/guest-module.md.
 */
#include <linux/cpumask.h>
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

/* Sum or maximum over the CPUs of a u64 in struct pc_kick_state. */
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
	NULL
};

static const struct attribute_group pc_group = {
	.name = "paracord",
	.attrs = pc_attributes,
};

const struct attribute_group *pc_sysfs_groups[] = { &pc_group, NULL };
