// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks that the shared memory is a paracord region and is as large as its header
 * claims. Also writes the guest line of the header.
 *
 * The header is copied once and the copy is checked. The driver accesses nothing
 * beyond the sizes that the copy declares, and nothing beyond the BAR.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "paracord_guest.h"

static bool publish_preempt_count = true;
module_param_named(preempt_count, publish_preempt_count, bool, 0444);
MODULE_PARM_DESC(preempt_count, "tell the host where preempt_count lies (default: on)");

/* Checks a copied header. Return: 0 or a negative error. An error is logged in one line, which describes the problem. */
static int pc_region_check(struct device *dev, const struct paracord_header *h,
			   u64 bar_bytes)
{
	u64 end;

	if (h->magic != PARACORD_MAGIC) {
		dev_info(dev, "not a paracord region (magic %#llx), left alone\n",
			 h->magic);
		return -ENODEV;
	}
	if (h->abi_major != PARACORD_ABI_MAJOR) {
		dev_err(dev, "region has ABI version %u.%u, this driver knows %u: update %s\n",
			h->abi_major, h->abi_minor, PARACORD_ABI_MAJOR,
			h->abi_major > PARACORD_ABI_MAJOR ? "the driver" : "the host");
		return -EPROTONOSUPPORT;
	}
	if (h->header_bytes < PARACORD_HEADER_BYTES ||
	    h->slot_offset_bytes < h->header_bytes ||
	    h->slot_offset_bytes % PARACORD_LINE_BYTES) {
		dev_err(dev, "region's header of %u bytes does not fit before its slots at %u: recreate the region\n",
			h->header_bytes, h->slot_offset_bytes);
		return -EINVAL;
	}
	if (h->slot_stride_bytes < 2 * PARACORD_LINE_BYTES ||
	    h->slot_stride_bytes > PARACORD_SLOT_STRIDE_MAX_BYTES ||
	    h->slot_stride_bytes % PARACORD_LINE_BYTES) {
		dev_err(dev, "region's slot stride of %u bytes is not a multiple of %u in %u..%u: recreate the region\n",
			h->slot_stride_bytes, PARACORD_LINE_BYTES,
			2 * PARACORD_LINE_BYTES, PARACORD_SLOT_STRIDE_MAX_BYTES);
		return -EINVAL;
	}
	if (!h->slot_count || h->slot_count > PARACORD_SLOTS_MAX) {
		dev_err(dev, "region's slot count of %u is not in 1..%u: recreate the region\n",
			h->slot_count, PARACORD_SLOTS_MAX);
		return -EINVAL;
	}
	end = (u64)h->slot_offset_bytes + (u64)h->slot_count * h->slot_stride_bytes;
	if (h->region_bytes > bar_bytes || end > h->region_bytes) {
		dev_err(dev, "region too small: %u slots end at %llu, header says %llu bytes, BAR has %llu: recreate the region\n",
			h->slot_count, end, h->region_bytes, bar_bytes);
		return -EINVAL;
	}
	return 0;
}

/* Largest size of a region. Only this part of a larger BAR is mapped. */
#define PC_REGION_MAX_BYTES \
	(PARACORD_SLOT_OFFSET_BYTES + (u64)PARACORD_SLOTS_MAX * PARACORD_SLOT_STRIDE_MAX_BYTES)

#if defined(CONFIG_X86) && defined(CONFIG_VMAP_PFN)
static void pc_region_unmap(void *base)
{
	vunmap(base);
}

/*
 * The BAR is RAM of the host, so the mapping should be write-back: a store then costs
 * no more than a store to ordinary memory. On x86, memremap() refuses a write-back
 * mapping, because firmware marks the window below 4 GiB as uncacheable in the
 * (virtual) MTRRs. Intel hosts ignore the guest's memory type. AMD hosts honour it, so
 * an uncacheable mapping would make each store an uncached store.
 */
static void *pc_region_map(struct device *dev, phys_addr_t start, size_t bytes)
{
	unsigned int i, pages = DIV_ROUND_UP(bytes, PAGE_SIZE);
	unsigned long *pfns;
	void *base;
	int err;

	pfns = kvmalloc_array(pages, sizeof(*pfns), GFP_KERNEL);
	if (!pfns)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < pages; i++)
		pfns[i] = PHYS_PFN(start) + i;
	base = vmap_pfn(pfns, pages, pgprot_decrypted(PAGE_KERNEL));
	kvfree(pfns);
	if (!base)
		return ERR_PTR(-ENOMEM);
	err = devm_add_action_or_reset(dev, pc_region_unmap, base);
	return err ? ERR_PTR(err) : base;
}
#else
static void *pc_region_map(struct device *dev, phys_addr_t start, size_t bytes)
{
	return devm_memremap(dev, start, bytes, MEMREMAP_WB);
}
#endif

/* Return: the features that the host offers and that this driver and this kernel support. */
u32 pc_region_features(const struct pc_region *region)
{
	u32 features = PC_DRIVER_FEATURES & region->host.host_features;
	u32 host_line_bytes = region->host.host_line_bytes;

	if (!publish_preempt_count || !IS_ENABLED(CONFIG_PREEMPT_COUNT))
		features &= ~PARACORD_F_PREEMPT_COUNT;
	/* The kick needs the boost state and the counter of boosts in the host line. */
	if (!PARACORD_FIELD_IN(struct paracord_host_line, boosts, host_line_bytes) ||
	    !pc_kick_possible())
		features &= ~PARACORD_F_KICK;
	/* Requests and speeds are relative to the performance domain of a vCPU. */
	if (!region->domain_count ||
	    !PARACORD_FIELD_IN(struct paracord_host_line, domain, host_line_bytes))
		features &= ~(PARACORD_F_PERF_REQUEST | PARACORD_F_CAPACITY);
	if (!pc_cpufreq_possible())
		features &= ~PARACORD_F_PERF_REQUEST;
	if (!pc_invariance_possible())
		features &= ~PARACORD_F_CAPACITY;
	if (!pc_pmu_possible(region))
		features &= ~PARACORD_F_PMU;
	return features;
}

/* Maps the doorbell if the host serves counters at doorbell writes. If the mapping fails, there are no counters. */
static void pc_region_map_doorbell(struct pc_region *region, struct pci_dev *pdev)
{
	void __iomem *registers;

	if (!(region->host.host_features & PARACORD_F_PMU_DOORBELL) ||
	    pci_resource_len(pdev, PARACORD_DOORBELL_BAR) < PARACORD_DOORBELL_OFFSET + sizeof(u32))
		return;
	registers = pcim_iomap(pdev, PARACORD_DOORBELL_BAR, 0);
	if (registers)
		region->doorbell = registers + PARACORD_DOORBELL_OFFSET;
}

/* Allocates MSI-X vectors, without which no event can be sampled. The driver core frees the vectors with the device. */
static void pc_region_find_vectors(struct pc_region *region, struct pci_dev *pdev)
{
	int count = pci_msix_vec_count(pdev);

	if (!(region->features & PARACORD_F_PMU) || count <= 0)
		return;
	pci_set_master(pdev);
	count = pci_alloc_irq_vectors(pdev, 1, min_t(u32, count, region->host.slot_count), PCI_IRQ_MSIX);
	region->vectors = max(count, 0);
}

/*
 * Maps the region behind @pdev and checks it.
 *
 * Return: 0; -ENODEV if the ivshmem device is not a paracord region; another
 * negative error if it is a paracord region that cannot be used.
 */
int pc_region_open(struct pc_region *region, struct pci_dev *pdev)
{
	struct device *dev = &pdev->dev;
	int err;

	region->dev = dev;
	region->bytes = min_t(u64, pci_resource_len(pdev, PARACORD_IVSHMEM_BAR),
			      PC_REGION_MAX_BYTES);
	if (region->bytes < PARACORD_HEADER_BYTES) {
		dev_info(dev, "not a paracord region (BAR %d has %llu bytes), left alone\n",
			 PARACORD_IVSHMEM_BAR, (u64)region->bytes);
		return -ENODEV;
	}

	region->base = pc_region_map(dev, pci_resource_start(pdev, PARACORD_IVSHMEM_BAR),
				     region->bytes);
	if (IS_ERR(region->base)) {
		dev_err(dev, "cannot map the region: %ld\n", PTR_ERR(region->base));
		return PTR_ERR(region->base);
	}

	memcpy(&region->host, region->base, sizeof(region->host));
	err = pc_region_check(dev, &region->host, region->bytes);
	if (err)
		return err;

	pc_domains_read(region);
	pc_region_map_doorbell(region, pdev);
	region->features = pc_region_features(region);
	pc_region_find_vectors(region, pdev);
	return 0;
}

struct paracord_slot *pc_region_slot(const struct pc_region *region, u32 index)
{
	if (index >= region->host.slot_count)
		return NULL;
	return region->base + region->host.slot_offset_bytes +
	       (u64)index * region->host.slot_stride_bytes;
}

/* Declares to the host what the guest lines contain. Called once the lines are filled. */
void pc_region_declare(struct pc_region *region)
{
	struct paracord_header *h = region->base;

	WRITE_ONCE(h->guest_abi_major, PARACORD_ABI_MAJOR);
	WRITE_ONCE(h->guest_abi_minor, PARACORD_ABI_MINOR);
	WRITE_ONCE(h->guest_line_bytes, sizeof(struct paracord_guest_line));
	/* The host reads guest_features first; 0 means that there is no driver. */
	smp_wmb();
	WRITE_ONCE(h->guest_features, region->features);
}

/* Withdraws an accepted feature that turns out to be impossible. Called after pc_region_declare(). */
void pc_region_drop_feature(struct pc_region *region, u32 feature)
{
	struct paracord_header *h = region->base;

	region->features &= ~feature;
	WRITE_ONCE(h->guest_features, region->features);
}

void pc_region_withdraw(struct pc_region *region)
{
	struct paracord_header *h = region->base;

	WRITE_ONCE(h->guest_features, 0);
	/* Clear the features first, then the words to which the features refer. */
	smp_wmb();
	WRITE_ONCE(h->guest_line_bytes, 0);
	WRITE_ONCE(h->guest_abi_minor, 0);
	WRITE_ONCE(h->guest_abi_major, 0);
}
