// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's performance domains: capacity and frequencies of the CPUs on which a
 * vCPU may run, and the domain of each vCPU.
 *
 * The table in a device's region is copied once and the copy is checked. An invalid
 * table disables only the guest's frequencies and capacities. If the region lies in
 * the guest's own memory, the host writes the table after the region has been
 * announced, and another host writes another table after a migration. So each domain
 * of such a region is copied and checked when it is assigned to the first CPU. If
 * the table is replaced, frequencies and capacities are restarted with the new
 * domains.
 *
 * The host line of a vCPU names the vCPU's domain. The host's daemon writes the host
 * line once it has found the vCPU. This may happen after this module was loaded.
 */
#include <linux/cpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "paracord_guest.h"

/*
 * The driver first checks for the domains at a short interval, because a running daemon finds a new VM within a second or two.
 * After PC_FIND_DOMAINS_LOOKS checks, the interval is long, because the daemon may start hours after the VM.
 */
#define PC_FIND_DOMAINS_MS	100
#define PC_FIND_DOMAINS_LOOKS	100
/*
 * The short interval for a region in the guest's own memory. One CPU announces such a region at each check, and the host
 * considers at most ten announcements per second.
 */
#define PC_ASK_DOMAINS_MS	150
#define PC_WAIT_FOR_DAEMON_MS	5000

/* A higher frequency is an error. The cpufreq core also gives the highest numbers a special meaning. */
#define PC_MAX_KHZ		100000000

#define pc_refuse(region, format, ...)						\
	dev_err((region)->dev, "performance domains: " format ": no frequencies%s\n", __VA_ARGS__, \
		(region)->domains_change ? "" : "; recreate the region")

/* Return: whether the table lies between the header and the slots. */
static bool pc_table_fits(const struct pc_region *region)
{
	const struct paracord_header *h = &region->host;
	u64 end = h->domain_offset_bytes + (u64)h->domain_count * h->domain_stride_bytes;

	if (h->domain_count > PARACORD_DOMAINS_MAX) {
		pc_refuse(region, "count of %u is not in 0..%u", h->domain_count,
			  PARACORD_DOMAINS_MAX);
		return false;
	}
	if (h->domain_stride_bytes < sizeof(struct paracord_domain) ||
	    h->domain_stride_bytes % PARACORD_LINE_BYTES) {
		pc_refuse(region, "stride of %u bytes is not a multiple of %u of at least %zu",
			  h->domain_stride_bytes, PARACORD_LINE_BYTES,
			  sizeof(struct paracord_domain));
		return false;
	}
	if (h->domain_offset_bytes < h->header_bytes ||
	    h->domain_offset_bytes % PARACORD_LINE_BYTES || end > h->slot_offset_bytes) {
		pc_refuse(region, "bytes %u..%llu do not lie between the header's %u and the slots at %u",
			  h->domain_offset_bytes, end, h->header_bytes, h->slot_offset_bytes);
		return false;
	}
	return true;
}

static bool pc_domain_usable(const struct pc_region *region, unsigned int index,
			     const struct paracord_domain *d)
{
	unsigned int i;

	if (!d->max_khz || d->max_khz > PC_MAX_KHZ) {
		pc_refuse(region, "highest frequency of domain %u, %u kHz, is not in 1..%u",
			  index, d->max_khz, PC_MAX_KHZ);
		return false;
	}
	if (!d->capacity || d->capacity > PARACORD_SCALE) {
		pc_refuse(region, "capacity %u of domain %u is not in 1..%u", d->capacity,
			  index, PARACORD_SCALE);
		return false;
	}
	if (!d->level_count || d->level_count > PARACORD_LEVELS_MAX) {
		pc_refuse(region, "%u levels of domain %u are not 1..%u", d->level_count,
			  index, PARACORD_LEVELS_MAX);
		return false;
	}
	for (i = 0; i < d->level_count; i++)
		if (d->levels[i] <= (i ? d->levels[i - 1] : 0)) {
			pc_refuse(region, "level %u of domain %u, %u, does not rise", i,
				  index, d->levels[i]);
			return false;
		}
	if (d->levels[d->level_count - 1] != PARACORD_SCALE) {
		pc_refuse(region, "the last level of domain %u is %u, not %u", index,
			  d->levels[d->level_count - 1], PARACORD_SCALE);
		return false;
	}
	return true;
}

/* Copies the table. If there is no table or the table is not usable, region->domain_count stays 0. */
void pc_domains_read(struct pc_region *region)
{
	const struct paracord_header *h = &region->host;
	unsigned int i;

	/* Before ABI 1.1, these bytes had no meaning. */
	if (!h->abi_minor || !h->domain_count || !pc_table_fits(region))
		return;
	region->domains = devm_kcalloc(region->dev, h->domain_count,
				       sizeof(*region->domains), GFP_KERNEL);
	if (!region->domains)
		return;
	for (i = 0; i < h->domain_count; i++) {
		memcpy(&region->domains[i],
		       region->base + h->domain_offset_bytes + i * h->domain_stride_bytes,
		       sizeof(region->domains[i]));
		if (!pc_domain_usable(region, i, &region->domains[i]))
			return;
	}
	region->domain_count = h->domain_count;
	/* The ID is 0 before ABI 1.5. */
	region->domain_table = region->domains[0].table;
}

/* Prepares for a table that the host writes later. Return: 0 or -ENOMEM. */
int pc_domains_expect(struct pc_region *region)
{
	region->domains = devm_kcalloc(region->dev, PARACORD_DOMAINS_MAX,
				       sizeof(*region->domains), GFP_KERNEL);
	if (!region->domains)
		return -ENOMEM;
	region->domain_count = PARACORD_DOMAINS_MAX;
	region->domains_change = true;
	return 0;
}

/* Copies domain @index from the guest's own memory, unless there is a copy already. Return: whether the copy can be used. */
static bool pc_domain_copy(struct pc_region *region, unsigned int index)
{
	const struct paracord_header *h = &region->host;
	const struct paracord_domain *from = region->base + h->domain_offset_bytes +
					     index * h->domain_stride_bytes;
	struct paracord_domain *to = &region->domains[index], copy;
	u32 khz;

	if (to->max_khz)
		return true;
	if (region->domains_refused)
		return false;
	/*
	 * The host stores 0 into max_khz before it changes the domain, and the new value afterwards. So a copy is consistent if
	 * max_khz was the same before and after the copy, and not 0, and if the domain belonged to the right table.
	 */
	khz = smp_load_acquire(&from->max_khz);
	copy = *from;
	smp_rmb();
	if (!khz || khz != copy.max_khz || khz != READ_ONCE(from->max_khz) ||
	    copy.table != region->domain_table || READ_ONCE(from->table) != region->domain_table)
		return false;
	region->domains_refused = !pc_domain_usable(region, index, &copy);
	if (region->domains_refused)
		return false;
	*to = copy;
	return true;
}

/*
 * Return: the domain of all CPUs if the table has only one domain, as on most hosts; NULL if the table has more, or is not in use.
 */
static const struct paracord_domain *pc_only_domain(const struct pc_region *region)
{
	const struct paracord_header *h = &region->host;
	const struct paracord_domain *second = region->base + h->domain_offset_bytes + h->domain_stride_bytes;

	if (!region->domains_in_use)
		return NULL;
	if (!region->domains_change)
		return region->domain_count == 1 ? &region->domains[0] : NULL;
	/* In the guest's own memory, an entry after the end of the table belongs to another table, or to none. */
	if (!region->domains[0].max_khz || READ_ONCE(second->table) == region->domain_table)
		return NULL;
	return &region->domains[0];
}

/*
 * Reads a CPU's domain from its host line. Called when the CPU comes online, and again until the line names a domain. Once the
 * line has named a domain, the CPU keeps that domain, because a cpufreq policy keeps the frequencies with which it was created.
 *
 * When a hot-plugged vCPU comes online, its host line has not been written yet, but the cpufreq core creates the policy at this
 * moment and not later. So if the table has only one domain, the CPU gets that domain immediately.
 */
void pc_domain_online(struct pc_region *region, struct pc_cpu *cpu)
{
	u32 line_bytes = region->host.host_line_bytes;
	unsigned int number;
	u32 table = 0;

	if (cpu->domain || !(region->features &
			     (PARACORD_F_PERF_REQUEST | PARACORD_F_CAPACITY)))
		return;
	WRITE_ONCE(cpu->domain, pc_only_domain(region));
	if (cpu->domain)
		return;
	if (PARACORD_FIELD_IN(struct paracord_host_line, domain_table, line_bytes))
		table = READ_ONCE(cpu->host->domain_table);
	/*
	 * If the VM was migrated, a device's region may have come from another host, so the line may refer to another table. An
	 * older daemon writes no table ID into the line.
	 */
	if (table != region->domain_table && (table || region->domains_change))
		return;
	/* If another host replaces the line between these reads, the domain's number is useless. */
	smp_rmb();
	number = READ_ONCE(cpu->host->domain);
	smp_rmb();
	if (table && table != READ_ONCE(cpu->host->domain_table))
		return;
	if (!number || number > region->domain_count)
		return;
	if (region->domains_change && !pc_domain_copy(region, number - 1))
		return;
	WRITE_ONCE(cpu->domain, &region->domains[number - 1]);
}

/* Ends the use of the current domains. After this call, only domains of table @table are used. */
static void pc_domains_forget(struct pc_region *region, u32 table)
{
	int nr;

	pc_cpufreq_stop();
	pc_invariance_stop();
	/* This lock ensures that no CPU comes online and gets a domain. */
	cpus_read_lock();
	for_each_possible_cpu(nr)
		WRITE_ONCE(per_cpu(pc_cpus, nr).domain, NULL);
	/* Code that may still use a domain runs with interrupts or preemption off, or under rcu_read_lock(). */
	synchronize_rcu();
	if (region->domains_change)
		memset(region->domains, 0, region->domain_count * sizeof(*region->domains));
	region->domain_table = table;
	region->domains_in_use = false;
	region->domains_refused = false;
	cpus_read_unlock();
}

/*
 * The host writes the line of a vCPU for the first time at a VM exit that comes soon after an announcement. A vCPU that is mostly
 * idle may not have such an exit for a long time. Therefore the driver calls this function on that vCPU, so that the vCPU itself
 * announces the region.
 */
static void pc_domain_ask(void *unused)
{
	pc_memory_announce_here();
}

/* Starts over if the host's table has been replaced. */
static void pc_domains_follow_host(struct pc_region *region)
{
	u32 table = READ_ONCE(region->answered_table);

	if (!table || table == region->domain_table)
		return;
	if (region->domains_in_use)
		dev_info(region->dev, "the host has other performance domains: frequencies and capacities start again\n");
	pc_domains_forget(region, table);
	region->asks_left = 2 * num_online_cpus();
	region->looks_left = PC_FIND_DOMAINS_LOOKS + region->asks_left;
}

/*
 * Called when the host has answered an announcement. @table: ID of the host's table of domains; 0: none. The call comes from a CPU
 * that is not idle, with interrupts off. So the work item that searches for the domains is queued on a CPU that is awake. The
 * search neither waits for an idle CPU nor wakes one.
 */
void pc_domains_answered(struct pc_region *region, u32 table)
{
	if (!READ_ONCE(region->follows_host) || !table)
		return;
	WRITE_ONCE(region->answered_table, table);
	/*
	 * Only the work item changes domain_table and domains_in_use. If this check runs too early, it is repeated at the next
	 * answer, a second later.
	 */
	if (table != READ_ONCE(region->domain_table) || !READ_ONCE(region->domains_in_use))
		schedule_delayed_work(&region->find_domains, 0);
}

static void pc_domains_look_again(struct pc_region *region, unsigned int ms)
{
	schedule_delayed_work(&region->find_domains, msecs_to_jiffies(ms));
}

static void pc_find_domains(struct work_struct *work)
{
	struct pc_region *region = container_of(to_delayed_work(work), struct pc_region,
						find_domains);
	unsigned int known = 0, unknown = 0;
	int nr, asked = nr_cpu_ids;

	/* The features are dropped if another cpufreq driver is in use. */
	if (!(region->features & (PARACORD_F_PERF_REQUEST | PARACORD_F_CAPACITY)))
		return;
	if (region->domains_change)
		pc_domains_follow_host(region);
	/* Without a table, a search is useless: no host has answered yet, or the host has no table. */
	if (region->domains_in_use || (region->domains_change && !region->domain_table))
		return;
	cpus_read_lock();
	for_each_online_cpu(nr) {
		struct pc_cpu *cpu = per_cpu_ptr(&pc_cpus, nr);

		if (!READ_ONCE(cpu->line))
			continue;
		pc_domain_online(region, cpu);
		if (cpu->domain) {
			known++;
			continue;
		}
		unknown++;
		if (asked >= nr_cpu_ids || (asked <= region->last_asked && nr > region->last_asked))
			asked = nr;
	}
	if (region->asks_left && unknown) {
		region->asks_left--;
		region->last_asked = asked;
		smp_call_function_single(asked, pc_domain_ask, NULL, 1);
	}
	cpus_read_unlock();

	if (unknown && region->looks_left) {
		region->looks_left--;
		pc_domains_look_again(region, region->domains_change ? PC_ASK_DOMAINS_MS :
								       PC_FIND_DOMAINS_MS);
		return;
	}
	if (!known) {
		if (!region->told_of_wait)
			dev_info(region->dev, "the host does not say where the vCPUs run: no frequencies until paracord is started there\n");
		region->told_of_wait = true;
		if (!region->domains_change)
			pc_domains_look_again(region, PC_WAIT_FOR_DAEMON_MS);
		return;
	}
	/* pc_invariance_start() comes second, because it checks which cpufreq driver is in use. */
	pc_cpufreq_start(region);
	pc_invariance_start(region);
	WRITE_ONCE(region->domains_in_use, true);
}

/*
 * Starts frequencies and capacities when the host lines name the domains of the vCPUs. In the first 10 s, all vCPUs must have a
 * domain; after that, one vCPU with a domain is enough. For a region in the guest's own memory, this time begins with the host's
 * answer, and lasts 15 s plus 0.3 s per CPU (PC_ASK_DOMAINS_MS).
 */
void pc_domains_start(struct pc_region *region)
{
	INIT_DELAYED_WORK(&region->find_domains, pc_find_domains);
	if (!region->domains_change)
		region->looks_left = PC_FIND_DOMAINS_LOOKS;
	WRITE_ONCE(region->follows_host, region->domains_change);
	pc_find_domains(&region->find_domains.work);
}

void pc_domains_stop(struct pc_region *region)
{
	WRITE_ONCE(region->follows_host, false);
	/* pc_domains_answered() runs with interrupts off, so it schedules nothing after synchronize_rcu(). */
	synchronize_rcu();
	cancel_delayed_work_sync(&region->find_domains);
	pc_domains_forget(region, 0);
}
