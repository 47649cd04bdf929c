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
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/smp.h>
#ifdef CONFIG_X86
#include <asm/msr.h>
#else
#include <linux/arm-smccc.h>
#endif

#include "paracord_abi.h"

static unsigned int rounds = 1000;
module_param(rounds, uint, 0444);
static int only = -1;
module_param(only, int, 0444);

#define KINDS	6

static struct paracord_header *page;
static struct paracord_header *zeros;

static void announce(u64 gpa)
{
#ifdef CONFIG_X86
	wrmsr_safe(PARACORD_ANNOUNCE_MSR, lower_32_bits(gpa), upper_32_bits(gpa));
#else
	struct arm_smccc_res unused;

	arm_smccc_hvc(PARACORD_ANNOUNCE_HVC | gpa >> 12 << 32, 0, 0, 0, 0, 0, 0, 0, &unused);
#endif
}

static void describe(struct paracord_header *h)
{
	h->magic = PARACORD_MAGIC;
	h->abi_major = PARACORD_ABI_MAJOR;
	h->header_bytes = PARACORD_HEADER_BYTES;
	h->slot_offset_bytes = PARACORD_SLOT_OFFSET_BYTES;
	h->slot_stride_bytes = PARACORD_SLOT_STRIDE_MAX_BYTES;
	h->slot_count = PARACORD_SLOTS_MAX;
	h->region_bytes = ~0ull;
	h->host_features = ~0u;
	h->host_line_bytes = PARACORD_LINE_BYTES;
	h->guest_features = ~0u;
	h->guest_abi_major = PARACORD_ABI_MAJOR;
	h->guest_line_bytes = PARACORD_LINE_BYTES;
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

static int __init pc_announce_init(void)
{
	page = (void *)get_zeroed_page(GFP_KERNEL);
	zeros = (void *)get_zeroed_page(GFP_KERNEL);
	if (!page || !zeros) {
		free_page((unsigned long)page);
		free_page((unsigned long)zeros);
		return -ENOMEM;
	}
	describe(page);
	on_each_cpu(attack, NULL, 1);
	return 0;
}
module_init(pc_announce_init);

/* Frees the pages without a withdrawal, as a kernel that crashes would. */
static void __exit pc_announce_exit(void)
{
	memset(page, 0, sizeof(*page));
	free_page((unsigned long)page);
	free_page((unsigned long)zeros);
}
module_exit(pc_announce_exit);

MODULE_DESCRIPTION("paracord's tests: announcements of a hostile guest");
MODULE_LICENSE("GPL");
