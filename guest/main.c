// SPDX-License-Identifier: GPL-2.0-only
/*
 * paracord guest driver: publishes what runs on each vCPU in memory that is shared
 * with the host, so that the host can schedule the vCPU thread accordingly.
 *
 * The guest only gives hints. The fast path consists of plain stores into one cache
 * line per CPU. The host reads the line when it has a scheduling decision to make.
 */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/version.h>

#include "paracord_guest.h"

/* Slots are indexed by CPU and the tracepoint probes are global, so a kernel can use only one region. */
static atomic_t pc_in_use = ATOMIC_INIT(0);

/*
 * Set once a device with a paracord region was probed, even if the region was refused. The driver then uses no region in the
 * guest's own memory: if the device's region was refused, the operator must repair it.
 */
static bool pc_device_seen;

/* Set after the module has probed the devices that existed when it was loaded. */
static bool pc_initialized;

/* Set while the module is being unloaded. A removed device is then not replaced by a region in the guest's own memory. */
static bool pc_exiting;

/* Before 6.11, the remove operation of a platform driver returns int. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
typedef int pc_remove_result;
#define PC_REMOVED 0
#else
typedef void pc_remove_result;
#define PC_REMOVED
#endif

/* Starts everything that uses @region, which must be open and claimed. If the start fails, the claim is given up. */
static int pc_start(struct pc_region *region)
{
	int err;

	dev_set_drvdata(region->dev, region);
	pc_kick_set_region(region);
	err = pc_hooks_start(pc_context_irqs_readable(region));
	if (err) {
		dev_err(region->dev, "no tracepoint sched_switch to attach to: %d\n", err);
		goto unclaim;
	}
	err = pc_vcpus_start(region);
	if (err) {
		dev_err(region->dev, "cannot follow CPU hotplug: %d\n", err);
		pc_hooks_stop();
		goto unclaim;
	}
	pc_region_declare(region);
	pc_domains_start(region);
	pc_pmu_start(region);
	dev_info(region->dev, "region of %llu bytes, ABI %u.%u, features %#x, %u vCPUs published\n",
		 region->host.region_bytes, region->host.abi_major,
		 region->host.abi_minor, region->features, pc_vcpus_published());
	return 0;

unclaim:
	atomic_set(&pc_in_use, 0);
	return err;
}

static void pc_stop(struct pc_region *region)
{
	pc_pmu_stop(region);
	pc_domains_stop(region);
	pc_region_withdraw(region);
	pc_vcpus_stop();
	pc_hooks_stop();
	pc_kick_set_region(NULL);
	atomic_set(&pc_in_use, 0);
}

/* Claims the driver for one region. Return: 0; -EBUSY if another region is in use. The error is logged. */
static int pc_claim(struct device *dev)
{
	if (!atomic_cmpxchg(&pc_in_use, 0, 1))
		return 0;
	dev_err(dev, "another region is in use: one per guest\n");
	return -EBUSY;
}

static int pc_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct pc_region *region;
	int err;

	region = devm_kzalloc(&pdev->dev, sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	err = pcim_enable_device(pdev);
	if (!err)
		err = pc_region_open(region, pdev);
	if (err != -ENODEV)
		pc_device_seen = true;
	if (err)
		/* The error is logged already. The driver core would also log any error number other than -ENODEV. */
		return -ENODEV;
	/* The device replaces a region in the guest's own memory, because a device offers more. */
	pc_memory_stop();
	if (pc_claim(&pdev->dev))
		return -ENODEV;
	if (!pc_start(region))
		return 0;
	if (pc_initialized)
		pc_memory_start();
	return -ENODEV;
}

static void pc_pci_shutdown(struct pci_dev *pdev)
{
	pc_stop(pci_get_drvdata(pdev));
}

static void pc_pci_remove(struct pci_dev *pdev)
{
	pc_pci_shutdown(pdev);
	if (!pc_exiting)
		pc_memory_start();
}

static const struct pci_device_id pc_pci_ids[] = {
	{ PCI_DEVICE(PARACORD_IVSHMEM_VENDOR_ID, PARACORD_IVSHMEM_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, pc_pci_ids);

static struct pci_driver pc_pci_driver = {
	.name = "paracord_guest",
	.id_table = pc_pci_ids,
	.probe = pc_pci_probe,
	.remove = pc_pci_remove,
	/* Called at kexec and reboot. Without this callback, the host would read at addresses of a kernel that is gone. */
	.shutdown = pc_pci_shutdown,
	.dev_groups = pc_sysfs_groups,
	.driver.probe_type = PROBE_FORCE_SYNCHRONOUS,
};

static int pc_memory_probe(struct platform_device *device)
{
	struct pc_region *region;
	int err;

	region = devm_kzalloc(&device->dev, sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	err = pc_memory_open(region, &device->dev);
	if (!err)
		err = pc_claim(&device->dev);
	if (!err)
		err = pc_start(region);
	if (!err)
		pc_memory_announce(region);
	return err;
}

static void pc_memory_shutdown(struct platform_device *device)
{
	pc_stop(platform_get_drvdata(device));
	pc_memory_withdraw();
}

static pc_remove_result pc_memory_remove(struct platform_device *device)
{
	pc_memory_shutdown(device);
	return PC_REMOVED;
}

static struct platform_driver pc_memory_driver = {
	.driver = {
		.name = "paracord_guest",
		.dev_groups = pc_sysfs_groups,
		.probe_type = PROBE_FORCE_SYNCHRONOUS,
		/* Only pc_memory_start() and pc_memory_stop() bind and unbind the device. */
		.suppress_bind_attrs = true,
	},
	.probe = pc_memory_probe,
	.remove = pc_memory_remove,
	.shutdown = pc_memory_shutdown,
};

static int __init pc_init(void)
{
	int err = platform_driver_register(&pc_memory_driver);

	if (err)
		return err;
	err = pci_register_driver(&pc_pci_driver);
	if (err) {
		platform_driver_unregister(&pc_memory_driver);
		return err;
	}
	pc_initialized = true;
	if (!pc_device_seen && !pc_memory_start())
		pr_info("paracord_guest: no region: this is no KVM guest whose memory the host can read, and it has no ivshmem device (on the host: paracord qemu-args)\n");
	return 0;
}
module_init(pc_init);

static void __exit pc_exit(void)
{
	pc_exiting = true;
	pci_unregister_driver(&pc_pci_driver);
	pc_memory_stop();
	platform_driver_unregister(&pc_memory_driver);
	pc_pmu_exit();
}
module_exit(pc_exit);

MODULE_DESCRIPTION("paracord: schedule a guest together with its host");
MODULE_AUTHOR("The paracord authors");
MODULE_LICENSE("GPL");
