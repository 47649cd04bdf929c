// SPDX-License-Identifier: GPL-2.0-only
/*
 * pc_region: gives root's programs a region in the guest's own memory, as a device would. pc_rogue
 * attacks through it. The module announces the region five times a second, and withdraws it when it
 * is unloaded. It does not look at what is in the region.
 *
 * /dev/pc_region   mmap(2) maps the region
 * parameters       slots (vCPUs), gpa and bytes (read only)
 */
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include "announce.h"
#include "describe.h"

#define ANNOUNCE_MS	200

static unsigned int slots = 4;
module_param(slots, uint, 0444);
static unsigned long long gpa;
module_param(gpa, ullong, 0444);
static unsigned long bytes;
module_param(bytes, ulong, 0444);

static struct paracord_header *region;

static void announce_again(struct work_struct *work)
{
	WRITE_ONCE(region->guest_announcements, region->guest_announcements + 1);
	announce(gpa);
	schedule_delayed_work(to_delayed_work(work), msecs_to_jiffies(ANNOUNCE_MS));
}
static DECLARE_DELAYED_WORK(announcing, announce_again);

static int map(struct file *file, struct vm_area_struct *vma)
{
	return vm_iomap_memory(vma, gpa, bytes);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.mmap = map,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "pc_region",
	.fops = &operations,
};

static int __init pc_region_init(void)
{
	struct paracord_header *h;
	int err;

	bytes = PAGE_ALIGN(PARACORD_SLOT_OFFSET_BYTES + slots * PARACORD_SLOT_STRIDE_BYTES);
	h = region = alloc_pages_exact(bytes, GFP_KERNEL | __GFP_ZERO);
	if (!h)
		return -ENOMEM;
	gpa = virt_to_phys(h);
	describe_region(h, slots, PARACORD_SLOT_STRIDE_BYTES);
	err = misc_register(&device);
	if (err) {
		free_pages_exact(region, bytes);
		return err;
	}
	announce_again(&announcing.work);
	return 0;
}
module_init(pc_region_init);

static void __exit pc_region_exit(void)
{
	misc_deregister(&device);
	cancel_delayed_work_sync(&announcing);
	announce(0);
	free_pages_exact(region, bytes);
}
module_exit(pc_region_exit);

MODULE_DESCRIPTION("paracord's tests: a region in the guest's own memory for root's programs");
MODULE_LICENSE("GPL");
