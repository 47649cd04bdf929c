// SPDX-License-Identifier: GPL-2.0-only
/*
 * perf PMU "paracord": events that the host offers and counts.
 *
 * perf disables a PMU, removes and adds events, and enables the PMU again. The driver sends
 * these changes to the host as one batch (counters.c). overflow.c writes the samples.
 */
#include <linux/ctype.h>
#include <linux/device.h>
#include <linux/perf_event.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/version.h>

#include "counters.h"

/* Before 6.2, a task has only one perf context for hardware PMUs, and this context takes events of only one PMU. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define PC_TASK_CONTEXT	perf_hw_context
#else
#define PC_TASK_CONTEXT	perf_sw_context
#endif

/* Number of open events, and whether the driver refuses new ones. A PMU with open events cannot be unregistered. */
static atomic_t pc_pmu_events = ATOMIC_INIT(0);
static bool pc_pmu_ends;
static bool pc_pmu_registered;

/*
 * An entry of the region's table of events. There is only one table, because a guest has one region. The table is valid while the
 * PMU is registered.
 */
struct pc_event_file {
	struct device_attribute attr;
	char name[PARACORD_EVENT_NAME_BYTES];
	u64 min_period;
};

static struct pc_event_file pc_event_files[PARACORD_EVENTS_MAX];
static struct attribute *pc_event_attrs[PARACORD_EVENTS_MAX + 1];
static unsigned int pc_event_count;
/* Mask of the events that the host has offered: bit n stands for event n. */
static u64 pc_events_offered;


static ssize_t pc_event_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct pc_event_file *file = container_of(attr, struct pc_event_file, attr);

	return sysfs_emit(buf, "event=%#x\n", (unsigned int)(file - pc_event_files));
}

static const struct attribute_group pc_events_group = {
	.name = "events",
	.attrs = pc_event_attrs,
};

PMU_FORMAT_ATTR(event, "config:0-15");
static struct attribute *pc_format_attrs[] = { &format_attr_event.attr, NULL };

static const struct attribute_group pc_format_group = {
	.name = "format",
	.attrs = pc_format_attrs,
};

static const struct attribute_group *pc_pmu_groups[] = { &pc_events_group, &pc_format_group, NULL };

static void pc_event_destroy(struct perf_event *event)
{
	atomic_dec(&pc_pmu_events);
}

u64 pc_event_min_period(const struct perf_event *event)
{
	return pc_event_files[event->attr.config].min_period;
}

/* Whether all events of a group can count at the same time. */
static bool pc_group_fits(const struct perf_event *event)
{
	const struct perf_event *leader = event->group_leader, *sibling;
	int counters = 1;

	if (leader != event) {
		counters += leader->pmu == event->pmu;
		for_each_sibling_event(sibling, leader)
			counters += sibling->pmu == event->pmu;
	}
	return counters <= pc_counters_in_use();
}

static int pc_event_init(struct perf_event *event)
{
	if (event->attr.type != event->pmu->type)
		return -ENOENT;
	if (event->attr.config >= pc_event_count || event->attr.exclude_idle)
		return -EINVAL;
	if (!(pc_events_offered & BIT_ULL(event->attr.config)))
		return -EOPNOTSUPP;
	if (has_branch_stack(event) || event->attr.precise_ip || event->attr.sigtrap)
		return -EOPNOTSUPP;
	if (is_sampling_event(event) && !pc_event_min_period(event))
		return -EOPNOTSUPP;
	if (!pc_group_fits(event))
		return -EINVAL;
	atomic_inc(&pc_pmu_events);
	/* Pairs with smp_mb() in pc_pmu_stop(). */
	smp_mb__after_atomic();
	if (READ_ONCE(pc_pmu_ends)) {
		atomic_dec(&pc_pmu_events);
		return -ENODEV;
	}
	event->destroy = pc_event_destroy;
	event->hw.idx = -1;
	event->hw.config_base = 0;
	return 0;
}

/* Sends the changes to the host, unless perf has disabled the PMU. While the PMU is disabled, more changes may follow. */
static void pc_pmu_changed(struct pc_counters *c)
{
	if (!c->collecting && (c->changed || c->read))
		pc_counters_ring(c);
}

static void pc_event_start(struct perf_event *event, int flags)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	if (event->hw.idx < 0 || !(event->hw.state & PERF_HES_STOPPED))
		return;
	event->hw.state = 0;
	pc_counter_start(c, event->hw.idx);
	pc_pmu_changed(c);
}

static void pc_event_stop(struct perf_event *event, int flags)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	if (event->hw.idx < 0 || event->hw.state & PERF_HES_STOPPED)
		return;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	pc_counter_stop(c, event->hw.idx);
	pc_pmu_changed(c);
}

static int pc_event_add(struct perf_event *event, int flags)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	int nr;

	/* The event's region is gone. In the next region, the event's number may mean another event. */
	if (READ_ONCE(pc_pmu_ends))
		return -ENODEV;
	nr = pc_counter_take(c, event);
	if (nr < 0)
		return -EAGAIN;
	event->hw.idx = nr;
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		pc_event_start(event, 0);
	return 0;
}

static void pc_event_del(struct perf_event *event, int flags)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	pc_event_stop(event, PERF_EF_UPDATE);
	if (event->hw.idx >= 0)
		pc_counter_free(c, event->hw.idx);
	event->hw.idx = -1;
}

/* A read costs a VM exit, because only the host knows the count. */
static void pc_event_read(struct perf_event *event)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	if (event->hw.idx < 0 || event->hw.state & PERF_HES_STOPPED)
		return;
	c->read |= BIT(event->hw.idx);
	pc_counters_ring(c);
}

static void pc_pmu_disable(struct pmu *pmu)
{
	this_cpu_ptr(&pc_counters)->collecting = true;
}

static void pc_pmu_enable(struct pmu *pmu)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	c->collecting = false;
	pc_pmu_changed(c);
}

static struct pmu pc_pmu = {
	.module = THIS_MODULE,
	.task_ctx_nr = PC_TASK_CONTEXT,
	.attr_groups = pc_pmu_groups,
	.event_init = pc_event_init,
	.add = pc_event_add,
	.del = pc_event_del,
	.start = pc_event_start,
	.stop = pc_event_stop,
	.read = pc_event_read,
	.pmu_enable = pc_pmu_enable,
	.pmu_disable = pc_pmu_disable,
};

#define pc_refuse(region, format, ...)						\
	dev_err((region)->dev, "events: " format ": nothing can be counted; recreate the region\n", \
		__VA_ARGS__)

/* Return: whether the name consists of letters, digits and '-', and is NUL-terminated within its bytes. */
static bool pc_is_name(const u8 *name)
{
	size_t length = strnlen(name, PARACORD_EVENT_NAME_BYTES), i;

	for (i = 0; i < length; i++)
		if (!isalnum(name[i]) && name[i] != '-')
			return false;
	return length && length < PARACORD_EVENT_NAME_BYTES;
}

static struct attribute *pc_event_file_of(struct pc_event_file *file)
{
	file->attr = (struct device_attribute){
		.attr = { .name = file->name, .mode = 0444 },
		.show = pc_event_show,
	};
	return &file->attr.attr;
}

/* Copies the table of events to pc_event_files. Return: whether the table is valid. */
static bool pc_events_read(const struct pc_region *region)
{
	const struct paracord_header *h = &region->host;
	u64 end = h->event_offset_bytes + (u64)h->event_count * h->event_stride_bytes;
	struct paracord_event event;
	unsigned int i;

	if (!h->event_count || h->event_count > PARACORD_EVENTS_MAX) {
		pc_refuse(region, "count of %u is not in 1..%u", h->event_count, PARACORD_EVENTS_MAX);
		return false;
	}
	if (h->event_stride_bytes < sizeof(event) || h->event_stride_bytes % 8 ||
	    h->event_offset_bytes < h->header_bytes || h->event_offset_bytes % 8 ||
	    end > h->slot_offset_bytes) {
		pc_refuse(region, "bytes %u..%llu, %u each, do not lie between the header's %u and the slots at %u",
			  h->event_offset_bytes, end, h->event_stride_bytes, h->header_bytes,
			  h->slot_offset_bytes);
		return false;
	}
	for (i = 0; i < h->event_count; i++) {
		struct pc_event_file *file = &pc_event_files[i];

		memcpy(&event, region->base + h->event_offset_bytes + i * h->event_stride_bytes,
		       sizeof(event));
		if (!pc_is_name(event.name)) {
			pc_refuse(region, "the name of event %u is none", i);
			return false;
		}
		memcpy(file->name, event.name, sizeof(file->name));
		file->min_period = event.min_period;
		pc_event_attrs[i] = pc_event_file_of(file);
	}
	pc_event_attrs[i] = NULL;
	pc_event_count = h->event_count;
	pc_events_offered = ~0ull;
	return true;
}

/* Creates a file for each event of PARACORD_EVENT_LIST that the host offers. Return: whether the host offers any. */
static bool pc_events_list(u64 offered)
{
	const char *at = PARACORD_EVENT_LIST;
	unsigned int number, files = 0;

	for (number = 0; *at && number < PARACORD_EVENTS_MAX; number++) {
		struct pc_event_file *file = &pc_event_files[number];
		size_t length = strcspn(at, " ");

		strscpy(file->name, at, min(length + 1, sizeof(file->name)));
		file->min_period = 0;
		if (offered & BIT_ULL(number))
			pc_event_attrs[files++] = pc_event_file_of(file);
		at += length;
		at += *at == ' ';
	}
	pc_event_attrs[files] = NULL;
	pc_event_count = number;
	pc_events_offered = offered;
	return files;
}

/* Return: whether the guest can use the counters of @region: it can cause a VM exit, and the slots have a PMU area. */
bool pc_pmu_possible(const struct pc_region *region)
{
	bool leaves = region->host.host_features & PARACORD_F_PMU_DOORBELL ? !!region->doorbell :
									      pc_arch_kick_possible();

	return leaves && region->host.slot_stride_bytes >= sizeof(struct paracord_slot);
}

/* Registers the PMU with perf. Return: whether perf has accepted it. */
static bool pc_pmu_register(const struct pc_region *region)
{
	int err;

	WRITE_ONCE(pc_pmu_ends, false);
	pc_pmu.capabilities = region->vectors ? 0 : PERF_PMU_CAP_NO_INTERRUPT;
	err = perf_pmu_register(&pc_pmu, "paracord", -1);
	if (err)
		dev_err(region->dev, "perf refuses a PMU: %d\n", err);
	pc_pmu_registered = !err;
	return !err;
}

static void pc_try_here(void *unused)
{
	pc_counters_try(NULL);
}

/* Registers the PMU if the host serves the counters of a region in the guest's own memory. */
static void pc_find_counters(struct work_struct *work)
{
	struct pc_region *region = container_of(work, struct pc_region, find_counters);
	u64 offered = 0;

	if (pc_pmu_registered || region->perf_refuses || !pc_counters_try(&offered) || !pc_events_list(offered))
		return;
	/* From now on, all CPUs wait for answers. */
	if (pc_pmu_register(region))
		on_each_cpu(pc_try_here, NULL, 1);
	else
		WRITE_ONCE(region->perf_refuses, true);
}

/*
 * Called when the host has answered an announcement. @host_flags: from the host line of the CPU that made the announcement. The
 * call comes from a CPU that is not idle, with interrupts off.
 */
void pc_pmu_answered(struct pc_region *region, u8 host_flags)
{
	bool wanted = READ_ONCE(region->awaits_counters) && !READ_ONCE(region->perf_refuses) && !pc_pmu_registered;

	if (wanted && host_flags & PARACORD_HOST_COUNTS)
		schedule_work(&region->find_counters);
}

/*
 * Registers the PMU if the host serves counters. Called after pc_vcpus_start(). Any error disables the guest's counters and
 * nothing else. If the region lies in the guest's own memory, no host knows it yet, so the PMU is registered later.
 */
void pc_pmu_start(struct pc_region *region)
{
	if (!(region->features & PARACORD_F_PMU))
		return;
	if (pc_pmu_registered) {
		dev_warn(region->dev, "events of an earlier region are still open: nothing can be counted; close them and load the module anew\n");
	} else if (region->in_memory) {
		INIT_WORK(&region->find_counters, pc_find_counters);
		WRITE_ONCE(region->awaits_counters, true);
		return;
	} else if (!pc_counters_try(NULL)) {
		dev_info(region->dev, "the host does not serve counters now: nothing can be counted\n");
	} else if (pc_events_read(region) && pc_pmu_register(region)) {
		return;
	}
	pc_region_drop_feature(region, PARACORD_F_PMU);
}

/* Unregisters the PMU if no event is open. Open events are not added to a counter any more, but they keep the module loaded. */
void pc_pmu_stop(struct pc_region *region)
{
	if (READ_ONCE(region->awaits_counters)) {
		WRITE_ONCE(region->awaits_counters, false);
		/* pc_pmu_answered() runs with interrupts off, so it schedules nothing after synchronize_rcu(). */
		synchronize_rcu();
		cancel_work_sync(&region->find_counters);
	}
	WRITE_ONCE(pc_pmu_ends, true);
	/* Pairs with smp_mb__after_atomic() in pc_event_init(). */
	smp_mb();
	pc_pmu_exit();
}

/* Unregisters the PMU if no event is open. At module exit, no event is open any more. */
void pc_pmu_exit(void)
{
	if (!pc_pmu_registered || atomic_read(&pc_pmu_events))
		return;
	perf_pmu_unregister(&pc_pmu);
	pc_pmu_registered = false;
}
