// SPDX-License-Identifier: GPL-2.0-only
/*
 * pc_freqpath: what it costs a guest to say or to hear a frequency, by the way that it takes.
 *
 * Each file in /sys/kernel/debug/pc_freqpath is one way. Reading it does `operations` of them in each of `batches` batches, with
 * preemption off, and shows JSON: the batches' length in ns. The host counts the exits meanwhile.
 *
 *   page        store of 16 bits into this vCPU's guest line of the region
 *   page_kick   the same and a hypercall behind it: what the page would be if the host had to be told
 *   page_read   load of 32 bits (capacity and frequency) from this vCPU's host line
 *   hypercall   a hypercall that the host's kernel answers, as it does not know the number
 *   mmio        store of 32 bits into a register of a device of the VMM
 *   mmio_read   load of 32 bits from one
 *   nothing     none of it: batches of batch_ns
 *
 * The registers are set_perf and cur_perf of a virtual cpufreq device, if the VMM has one, else IntrMask and IVPosition of
 * ivshmem: both are answered in the VMM's process.
 */
#include <linux/debugfs.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/pci.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#ifdef CONFIG_X86
#include <asm/kvm_para.h>
#else
#include <linux/arm-smccc.h>
#endif

#include "paracord_abi.h"

#define OPERATIONS_MAX	1000000u
#define BATCHES_MAX	1000u
#define BATCH_NS_MAX	10000000u
/* KVM knows neither, and answers both in the kernel. */
#define X86_HYPERCALL	0x50434bul
#define SMCCC_HYPERCALL	0x86ffff00ul

#define REGISTER_PAGE_BYTES	0x1000
#define CUR_PERF		0x0
#define SET_PERF		0x4
#define INTR_MASK		0x0
#define IV_POSITION		0x8

static unsigned int operations = 1000;
module_param(operations, uint, 0644);
MODULE_PARM_DESC(operations, "in a batch");
static unsigned int batches = 20;
module_param(batches, uint, 0644);
static unsigned int batch_ns = 1000000;
module_param(batch_ns, uint, 0644);
MODULE_PARM_DESC(batch_ns, "length of a batch of nothing");

static struct paracord_header *region;
static void __iomem *registers;
static unsigned int write_offset, read_offset, cpu_stride_bytes;
static struct dentry *directory;

/* What a batch works on: found before the clock is read. */
struct target {
	struct paracord_slot *slot;
	void __iomem *registers;
};

static void hypercall(void)
{
#ifdef CONFIG_X86
	kvm_hypercall0(X86_HYPERCALL);
#else
	struct arm_smccc_res answer;

	arm_smccc_1_1_hvc(SMCCC_HYPERCALL, &answer);
#endif
}

static void page(const struct target *target, unsigned int count)
{
	while (count--)
		WRITE_ONCE(target->slot->guest.perf_request, count & 1 ? PARACORD_SCALE : 1);
}

static void page_kick(const struct target *target, unsigned int count)
{
	while (count--) {
		WRITE_ONCE(target->slot->guest.perf_request, count & 1 ? PARACORD_SCALE : 1);
		hypercall();
	}
}

static void page_read(const struct target *target, unsigned int count)
{
	while (count--)
		READ_ONCE(*(u32 *)&target->slot->host.capacity);
}

static void hypercalls(const struct target *target, unsigned int count)
{
	while (count--)
		hypercall();
}

static void mmio(const struct target *target, unsigned int count)
{
	while (count--)
		writel_relaxed(count & 1, target->registers + write_offset);
}

static void mmio_read(const struct target *target, unsigned int count)
{
	while (count--)
		readl_relaxed(target->registers + read_offset);
}

static void nothing(const struct target *target, unsigned int count)
{
	u64 end_ns = ktime_get_ns() + min(READ_ONCE(batch_ns), BATCH_NS_MAX);

	while (ktime_get_ns() < end_ns)
		cpu_relax();
}

struct way {
	const char *name;
	void (*run)(const struct target *target, unsigned int count);
};

static const struct way ways[] = {
	{ "page", page }, { "page_kick", page_kick }, { "page_read", page_read }, { "hypercall", hypercalls },
	{ "mmio", mmio }, { "mmio_read", mmio_read }, { "nothing", nothing },
};

static int result_show(struct seq_file *file, void *unused)
{
	const struct way *way = file->private;
	unsigned int count = clamp(READ_ONCE(operations), 1u, OPERATIONS_MAX);
	unsigned int left = clamp(READ_ONCE(batches), 1u, BATCHES_MAX);

	seq_printf(file, "{\"operations\": %u, \"ns\": [", count);
	while (left--) {
		struct target target;
		u64 begin_ns, ns;
		unsigned int cpu;

		/*
		 * An interrupt at least. An emulated x86 host keeps the type of an exception that it has injected until then, and
		 * KVM refuses to emulate an access to a device while one is being delivered.
		 */
		schedule_timeout_uninterruptible(2);
		cpu = get_cpu();
		/* The region has a slot for each vCPU (KVM numbers them as Linux does here), the device a page. */
		target.slot = (void *)region + region->slot_offset_bytes +
			      (size_t)cpu * region->slot_stride_bytes;
		target.registers = registers + (size_t)cpu * cpu_stride_bytes;
		begin_ns = ktime_get_ns();
		way->run(&target, count);
		ns = ktime_get_ns() - begin_ns;
		put_cpu();
		seq_printf(file, "%llu%s", ns, left ? ", " : "]}\n");
	}
	return 0;
}

static int result_open(struct inode *inode, struct file *file)
{
	return single_open(file, result_show, inode->i_private);
}

static const struct file_operations result_operations = {
	.owner = THIS_MODULE,
	.open = result_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
};

/* Write-back, as paracord's own driver has it (guest/region.c). */
static void *map_region(phys_addr_t start, size_t bytes)
{
#ifdef CONFIG_X86
	unsigned int i, pages = DIV_ROUND_UP(bytes, PAGE_SIZE);
	unsigned long *pfns = kvmalloc_array(pages, sizeof(*pfns), GFP_KERNEL);
	void *base;

	if (!pfns)
		return NULL;
	for (i = 0; i < pages; i++)
		pfns[i] = PHYS_PFN(start) + i;
	base = vmap_pfn(pfns, pages, pgprot_decrypted(PAGE_KERNEL));
	kvfree(pfns);
	return base;
#else
	return memremap(start, bytes, MEMREMAP_WB);
#endif
}

static void unmap_region(void *base)
{
#ifdef CONFIG_X86
	vunmap(base);
#else
	memunmap(base);
#endif
}

static bool map_registers(struct pci_dev *device)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "qemu,virtual-cpufreq");

	if (node) {
		registers = of_iomap(node, 0);
		of_node_put(node);
		write_offset = SET_PERF;
		read_offset = CUR_PERF;
		cpu_stride_bytes = REGISTER_PAGE_BYTES;
	} else {
		registers = ioremap(pci_resource_start(device, 0), pci_resource_len(device, 0));
		write_offset = INTR_MASK;
		read_offset = IV_POSITION;
	}
	return registers;
}

static int __init freqpath_init(void)
{
	struct pci_dev *device = pci_get_device(PARACORD_IVSHMEM_VENDOR_ID, PARACORD_IVSHMEM_DEVICE_ID, NULL);
	size_t bytes;
	int i, error = -ENODEV;

	if (!device || pci_enable_device(device))
		goto no_device;
	bytes = pci_resource_len(device, PARACORD_IVSHMEM_BAR);
	region = map_region(pci_resource_start(device, PARACORD_IVSHMEM_BAR), bytes);
	if (!region)
		goto no_device;
	if (region->magic != PARACORD_MAGIC || region->slot_count < nr_cpu_ids || !map_registers(device)) {
		pr_err("pc_freqpath: no region for %u CPUs\n", nr_cpu_ids);
		unmap_region(region);
		goto no_device;
	}
	directory = debugfs_create_dir("pc_freqpath", NULL);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		debugfs_create_file(ways[i].name, 0400, directory, (void *)&ways[i], &result_operations);
	error = 0;
no_device:
	pci_dev_put(device);
	return error;
}

static void __exit freqpath_exit(void)
{
	debugfs_remove(directory);
	iounmap(registers);
	unmap_region(region);
}

module_init(freqpath_init);
module_exit(freqpath_exit);

MODULE_DESCRIPTION("paracord lab: what it costs to ask for a frequency");
MODULE_AUTHOR("The paracord authors");
MODULE_LICENSE("GPL");
