// SPDX-License-Identifier: GPL-2.0-only
/*
 * pc_announce: a guest's kernel that announces regions to the host and does not mean well.
 *
 * Loading the module announces `rounds` times, without a pause, on every CPU: in turn
 *
 *   an address beyond the guest's memory
 *   an address in the first MiB, where a PC has devices
 *   an address with bits below the page number
 *   a page of zeros
 *   a page with the header of a region of 4096 slots, of which only this page exists
 *   nothing (a withdrawal)
 *
 * `only`: number of the one address to announce, from 0; -1: all of them in turn.
 *
 * With `seconds`, the module instead keeps one region announced for so long, five times a second:
 *
 *   rom=0   a region with host lines and room for domains. Right after the last announcement, the memory is used
 *           for something else, without a withdrawal
 *   rom=1   a region whose slots lie in the firmware's ROM (x86)
 *
 * and the parameters `written` (the host has answered in a host line), `domains` (the host has written its table of
 * domains) and `damaged` (the host has changed the ROM, or the memory that was used for something else) say what
 * has happened.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

#include "announce.h"
#include "describe.h"

static unsigned int rounds = 1000;
module_param(rounds, uint, 0444);
static int only = -1;
module_param(only, int, 0444);

static unsigned int seconds;
module_param(seconds, uint, 0444);
static bool rom;
module_param(rom, bool, 0444);
static bool written;
module_param(written, bool, 0444);
static bool domains;
module_param(domains, bool, 0444);
static bool damaged;
module_param(damaged, bool, 0444);

#define KINDS	6
/* The last page below 4 GiB: a PC starts there. */
#define ROM_GPA	0xfffff000ull
#define SLOT	256u
#define SLOTS	4u
#define OTHER_USE	0xa5

static struct paracord_header *page;
static struct paracord_header *zeros;

/* More slots than the page has room for. */
static void describe_falsely(struct paracord_header *h)
{
	describe_region(h, PARACORD_SLOTS_MAX, PARACORD_SLOT_STRIDE_MAX_BYTES);
	declare_driver(h, ~0u);
	h->region_bytes = ~0ull;
	h->host_features = ~0u;
	/* No host lines, which would lie behind the page, and no domains. */
	h->host_line_bytes = 1;
	h->domain_count = 0;
}

static void attack(void *unused)
{
	const u64 kinds[KINDS] = {
		1ull << 43, 0xa0000, virt_to_phys(page) | 0xabc, virt_to_phys(zeros),
		virt_to_phys(page), 0,
	};
	unsigned int i;

	for (i = 0; i < rounds; i++)
		announce(kinds[only < 0 ? i % KINDS : only % KINDS]);
}

/* A page with the header, and a page with the slots. */
static int keep_announced(void)
{
	struct paracord_header *h = alloc_pages_exact(2 * PAGE_SIZE, GFP_KERNEL | __GFP_ZERO);
	void *slots = (void *)h + PAGE_SIZE, *in_rom = NULL, *before = NULL;
	const struct paracord_domain *domain = (void *)h + PARACORD_DOMAIN_OFFSET_BYTES;
	struct paracord_host_line *line = slots + PARACORD_LINE_BYTES;
	unsigned int i;

	if (!h)
		return -ENOMEM;
	if (rom) {
		in_rom = memremap(ROM_GPA, PAGE_SIZE, MEMREMAP_WB);
		before = in_rom ? kmemdup(in_rom, PAGE_SIZE, GFP_KERNEL) : NULL;
		if (!before)
			return -ENOMEM;
	}
	describe_region(h, SLOTS, SLOT);
	declare_driver(h, ~0u);
	h->region_bytes = ~0ull;
	h->slot_offset_bytes = rom ? ROM_GPA - virt_to_phys(h) : PAGE_SIZE;
	for (i = 0; i < seconds * 5; i++) {
		WRITE_ONCE(h->guest_announcements, i + 1);
		announce(virt_to_phys(h));
		msleep(200);
	}
	for (i = 0; i < SLOTS; i++, line = (void *)line + SLOT)
		written |= line->announcement != 0;
	domains = domain->max_khz != 0;
	WRITE_ONCE(h->guest_announcements, i + 1);
	announce(virt_to_phys(h));
	memset(h, OTHER_USE, 2 * PAGE_SIZE);
	/* With VM exits by the timer only. */
	for (i = 0; i < 300; i++)
		mdelay(10);
	damaged = rom ? memcmp(in_rom, before, PAGE_SIZE) : !!memchr_inv(h, OTHER_USE, 2 * PAGE_SIZE);
	announce(0);
	if (rom) {
		kfree(before);
		memunmap(in_rom);
	}
	free_pages_exact(h, 2 * PAGE_SIZE);
	return 0;
}

static int __init pc_announce_init(void)
{
	if (seconds)
		return keep_announced();
	page = (void *)get_zeroed_page(GFP_KERNEL);
	zeros = (void *)get_zeroed_page(GFP_KERNEL);
	if (!page || !zeros) {
		free_page((unsigned long)page);
		free_page((unsigned long)zeros);
		return -ENOMEM;
	}
	describe_falsely(page);
	on_each_cpu(attack, NULL, 1);
	return 0;
}
module_init(pc_announce_init);

/* Frees the pages without a withdrawal, as a kernel that crashes would. */
static void __exit pc_announce_exit(void)
{
	if (seconds)
		return;
	memset(page, 0, sizeof(*page));
	free_page((unsigned long)page);
	free_page((unsigned long)zeros);
}
module_exit(pc_announce_exit);

MODULE_DESCRIPTION("paracord's tests: announcements of a hostile guest");
MODULE_LICENSE("GPL");
