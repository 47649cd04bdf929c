// SPDX-License-Identifier: GPL-2.0-only
/*
 * A region in the guest's own memory, for VMs without an ivshmem device.
 *
 * The driver allocates the region, writes its header, and announces its address to the
 * host (abi/paracord_abi.h, PARACORD_ANNOUNCE_*). The host then reads the guest lines
 * in the region, and writes the host lines.
 *
 * The announcement is repeated, because a host to which the VM has migrated does not
 * know the region. Any CPU that is awake may repeat it, but all CPUs together do so
 * only once per interval. An idle guest makes no announcement.
 *
 * The host answers an announcement in the host line of the CPU that made it. If several
 * answers in a row are missing, as after a migration to a host without paracord, the
 * driver clears the host lines, because their content is out of date.
 */
#include <linux/cc_platform.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/platform_device.h>

#include "paracord_guest.h"

static bool announce = true;
module_param(announce, bool, 0444);
MODULE_PARM_DESC(announce, "without an ivshmem device, use a region in the guest's own memory (default: on)");

/*
 * APIC IDs have gaps if the number of threads per core, cores per die, or dies is not a
 * power of two. In practice, these gaps together at most quadruple the highest ID. A
 * CPU whose ID is beyond the last slot is only counted, and publishes nothing.
 */
#define PC_MEMORY_SLOTS_PER_CPU	4
/* Time from the first announcement to the second. */
#define PC_MEMORY_SECOND_MS	200
/* Minimum time between two announcements. The host ignores an announcement that follows another one within 100 ms. */
#define PC_MEMORY_GAP_MS	110
/* Number of unanswered announcements in a row after which the host counts as gone. */
#define PC_MEMORY_UNANSWERED	3

/* Serializes the creation and removal of the device. */
static DEFINE_MUTEX(pc_memory_lock);
static struct platform_device *pc_memory_device;
static struct pc_region *pc_memory_region;
static u64 pc_memory_gpa;		/* 0: nothing is announced */
static unsigned long pc_memory_next;	/* jiffies of the next regular announcement */

/* Bit 0 is set while a CPU makes an announcement. Only that CPU stores into the variables below, and into pc_memory_next. */
static unsigned long pc_memory_announcing;
static unsigned long pc_memory_last;	/* jiffies of the last announcement */
static const struct paracord_host_line *pc_memory_asked;	/* host line of the CPU that made the last regular announcement */
static u32 pc_memory_asked_number;	/* number of that announcement */
static unsigned int pc_memory_unanswered;

static void *pc_memory_alloc(struct pc_region *region, u32 slots, u32 stride)
{
	region->bytes = PAGE_ALIGN(PARACORD_SLOT_OFFSET_BYTES + (u64)slots * stride);
	return alloc_pages_exact(region->bytes, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
}

static void pc_memory_free(void *arg)
{
	struct pc_region *region = arg;

	free_pages_exact(region->base, region->bytes);
}

/* Writes the header as a host would write it. */
static void pc_memory_describe(struct pc_region *region, u32 slots, u32 stride)
{
	struct paracord_header *h = region->base;

	h->magic = PARACORD_MAGIC;
	h->abi_major = PARACORD_ABI_MAJOR;
	h->abi_minor = PARACORD_ABI_MINOR;
	h->header_bytes = PARACORD_HEADER_BYTES;
	h->region_bytes = region->bytes;
	h->slot_offset_bytes = PARACORD_SLOT_OFFSET_BYTES;
	h->slot_stride_bytes = stride;
	h->slot_count = slots;
	h->host_features = PARACORD_ANNOUNCED_FEATURES;
	h->host_line_bytes = sizeof(struct paracord_host_line);
	h->domain_offset_bytes = PARACORD_DOMAIN_OFFSET_BYTES;
	h->domain_count = PARACORD_DOMAINS_MAX;
	h->domain_stride_bytes = PARACORD_DOMAIN_STRIDE_BYTES;
	region->host = *h;
}

/*
 * Allocates a region and writes its header. Each slot normally consists of a guest line, a host line and a PMU area. If there is not
 * enough memory for such slots, the slots have no PMU area. Return: 0 or a negative error.
 */
int pc_memory_open(struct pc_region *region, struct device *dev)
{
	u32 slots = min_t(u32, PC_MEMORY_SLOTS_PER_CPU * roundup_pow_of_two(nr_cpu_ids),
			  PARACORD_SLOTS_MAX);
	u32 stride = PARACORD_SLOT_STRIDE_BYTES;
	int err;

	region->dev = dev;
	region->in_memory = true;
	region->base = pc_memory_alloc(region, slots, stride);
	if (!region->base) {
		stride = 2 * PARACORD_LINE_BYTES;
		region->base = pc_memory_alloc(region, slots, stride);
	}
	if (!region->base) {
		dev_err(dev, "no %llu contiguous bytes for a region\n", (u64)region->bytes);
		return -ENOMEM;
	}
	err = devm_add_action_or_reset(dev, pc_memory_free, region);
	if (err)
		return err;
	if (!pc_arch_can_announce(virt_to_phys(region->base))) {
		dev_err(dev, "the region lies too high in memory to be announced\n");
		return -ERANGE;
	}
	pc_memory_describe(region, slots, stride);
	err = pc_domains_expect(region);
	if (err)
		return err;
	region->features = pc_region_features(region);
	return 0;
}

/*
 * Looks for the answer to the last regular announcement. The host writes the answer at the next VM exit of the CPU that made the
 * announcement. By now, that CPU has had time for such an exit. If PC_MEMORY_UNANSWERED answers in a row are missing, clears the
 * host lines.
 */
static void pc_memory_look_for_answer(void)
{
	struct pc_region *region = pc_memory_region;
	u32 slot;

	if (!pc_memory_asked)
		return;
	if ((s32)(READ_ONCE(pc_memory_asked->announcement) - pc_memory_asked_number) >= 0) {
		pc_memory_unanswered = 0;
		pc_domains_answered(region, READ_ONCE(pc_memory_asked->domain_table));
		pc_pmu_answered(region, READ_ONCE(pc_memory_asked->host_flags));
		return;
	}
	if (pc_memory_unanswered >= PC_MEMORY_UNANSWERED ||
	    ++pc_memory_unanswered < PC_MEMORY_UNANSWERED)
		return;
	for (slot = 0; slot < region->host.slot_count; slot++)
		memset(&pc_region_slot(region, slot)->host, 0, sizeof(struct paracord_host_line));
}

/* Called with interrupts off. @regular: whether an answer is expected. */
static void pc_memory_make_announcement(u64 gpa, bool regular)
{
	struct paracord_header *h = pc_memory_region->base;

	/*
	 * The host reads the header with page faults disabled. The store makes the page present, in case the host has swapped it
	 * out or has not fetched it yet.
	 */
	WRITE_ONCE(h->guest_announcements, h->guest_announcements + 1);
	pc_memory_last = jiffies;
	if (regular) {
		pc_memory_asked = this_cpu_ptr(&pc_cpus)->host;
		pc_memory_asked_number = h->guest_announcements;
	}
	pc_arch_announce(gpa);
}

/* Makes the first announcement of a region that has been declared. From then on, any CPU may repeat the announcement. */
void pc_memory_announce(struct pc_region *region)
{
	unsigned long flags;

	pc_memory_region = region;
	pc_memory_unanswered = 0;
	local_irq_save(flags);
	pc_memory_make_announcement(virt_to_phys(region->base), true);
	local_irq_restore(flags);
	/* The host may ignore this announcement if an earlier instance of the driver made its last announcement shortly before. */
	WRITE_ONCE(pc_memory_next, jiffies + msecs_to_jiffies(PC_MEMORY_SECOND_MS));
	smp_store_release(&pc_memory_gpa, virt_to_phys(region->base));
}

/* Withdraws the region. Called when no CPU makes announcements any more. */
void pc_memory_withdraw(void)
{
	WRITE_ONCE(pc_memory_gpa, 0);
	pc_memory_asked = NULL;
	pc_arch_announce(0);
}

static void pc_memory_announce_now(bool regular)
{
	unsigned long flags, now = jiffies;
	u64 gpa;

	local_irq_save(flags);
	gpa = smp_load_acquire(&pc_memory_gpa);
	if (!gpa || test_and_set_bit_lock(0, &pc_memory_announcing))
		goto out;
	if (time_before(now, pc_memory_last + msecs_to_jiffies(PC_MEMORY_GAP_MS)) ||
	    (regular && time_before(now, pc_memory_next)))
		goto unlock;
	if (regular) {
		pc_memory_look_for_answer();
		WRITE_ONCE(pc_memory_next, now + msecs_to_jiffies(PARACORD_ANNOUNCE_MS));
	}
	pc_memory_make_announcement(gpa, regular);
unlock:
	clear_bit_unlock(0, &pc_memory_announcing);
out:
	local_irq_restore(flags);
}

/* Repeats the announcement if it is due. Called by the timer of each CPU that is not idle. */
void pc_memory_announce_again(void)
{
	if (!time_before(jiffies, READ_ONCE(pc_memory_next)))
		pc_memory_announce_now(true);
}

/*
 * Makes an announcement on this CPU, unless some CPU made one less than PC_MEMORY_GAP_MS ago. The host then writes this CPU's
 * line and the table of domains. The driver does not look for an answer, because the host may not know this CPU.
 */
void pc_memory_announce_here(void)
{
	pc_memory_announce_now(false);
}

/* Whether a region can be announced to the host, and whether the host could read the region. */
static bool pc_memory_possible(void)
{
	return announce && pc_arch_announce_possible() &&
	       !cc_platform_has(CC_ATTR_MEM_ENCRYPT);
}

/* Creates the device for a region in the guest's own memory, unless it exists already. Return: whether the device exists. */
bool pc_memory_start(void)
{
	struct platform_device *device;

	if (!pc_memory_possible())
		return false;
	mutex_lock(&pc_memory_lock);
	if (!pc_memory_device) {
		device = platform_device_register_simple("paracord_guest", PLATFORM_DEVID_NONE, NULL, 0);
		if (!IS_ERR(device))
			pc_memory_device = device;
	}
	device = pc_memory_device;
	mutex_unlock(&pc_memory_lock);
	return device;
}

/* Gives up the region in the guest's own memory, if there is one. */
void pc_memory_stop(void)
{
	mutex_lock(&pc_memory_lock);
	platform_device_unregister(pc_memory_device);
	pc_memory_device = NULL;
	mutex_unlock(&pc_memory_lock);
}
