// SPDX-License-Identifier: GPL-2.0-only
/*
 * paracord guest driver: publishes what runs on each vCPU in memory that is shared
 * with the host, so that the host can schedule the vCPU thread accordingly.
 *
 * The guest only gives hints. The fast path consists of plain stores into one cache
 * line per CPU. The host reads the line when it makes a scheduling decision anyway.
 */
#include <linux/module.h>

#include "paracord_guest.h"

/* Slots are indexed by CPU and probes are global, so a kernel can use one region only. */
static atomic_t pc_in_use = ATOMIC_INIT(0);

/* Set once a device was probed. The probe has then logged the outcome. */
static bool pc_device_seen;

static int pc_start(struct pci_dev *pdev)
{
	struct pc_region *region;
	int err;

	region = devm_kzalloc(&pdev->dev, sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	err = pcim_enable_device(pdev);
	if (err)
		return err;
	err = pc_region_open(region, pdev);
	if (err)
		return err;

	pci_set_drvdata(pdev, region);
	pc_kick_set_region(region);
	err = pc_hooks_start(pc_context_irqs_readable(region));
	if (err) {
		dev_err(&pdev->dev, "no tracepoint sched_switch to attach to: %d\n", err);
		return err;
	}
	err = pc_vcpus_start(region);
	if (err) {
		dev_err(&pdev->dev, "cannot follow CPU hotplug: %d\n", err);
		pc_hooks_stop();
		return err;
	}
	pc_region_declare(region);
	pc_domains_start(region);
	pc_pmu_start(region);
	return 0;
}

static int pc_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct pc_region *region;
	int err;

	pc_device_seen = true;
	if (atomic_cmpxchg(&pc_in_use, 0, 1)) {
		dev_err(&pdev->dev, "another region is in use: one per guest\n");
		return -EBUSY;
	}
	err = pc_start(pdev);
	if (err) {
		atomic_set(&pc_in_use, 0);
		/* The error is logged already, so return -ENODEV. Otherwise the driver core would log a bare number as well. */
		return -ENODEV;
	}
	region = pci_get_drvdata(pdev);
	dev_info(&pdev->dev, "region of %llu bytes, ABI %u.%u, features %#x, %u vCPUs published\n",
		 region->host.region_bytes, region->host.abi_major,
		 region->host.abi_minor, region->features, pc_vcpus_published());
	return 0;
}

static void pc_remove(struct pci_dev *pdev)
{
	struct pc_region *region = pci_get_drvdata(pdev);

	pc_pmu_stop();
	pc_domains_stop(region);
	pc_region_withdraw(region);
	pc_vcpus_stop();
	pc_hooks_stop();
	pc_kick_set_region(NULL);
	atomic_set(&pc_in_use, 0);
}

static const struct pci_device_id pc_pci_ids[] = {
	{ PCI_DEVICE(PARACORD_IVSHMEM_VENDOR_ID, PARACORD_IVSHMEM_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, pc_pci_ids);

static struct pci_driver pc_pci_driver = {
	.name = "paracord_guest",
	.id_table = pc_pci_ids,
	.probe = pc_probe,
	.remove = pc_remove,
	/* Called at kexec and reboot. Otherwise the host would read at addresses of a kernel that is gone. */
	.shutdown = pc_remove,
	.dev_groups = pc_sysfs_groups,
};

static int __init pc_init(void)
{
	int err = pci_register_driver(&pc_pci_driver);

	if (!err && !pc_device_seen)
		pr_info("paracord_guest: no ivshmem device with a region yet: add one to this VM (on the host: paracord qemu-args)\n");
	return err;
}
module_init(pc_init);

static void __exit pc_exit(void)
{
	pci_unregister_driver(&pc_pci_driver);
	pc_pmu_exit();
}
module_exit(pc_exit);

MODULE_DESCRIPTION("paracord: schedule a guest together with its host");
MODULE_AUTHOR("The paracord authors");
MODULE_LICENSE("GPL");
