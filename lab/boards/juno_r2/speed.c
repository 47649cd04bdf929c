// SPDX-License-Identifier: GPL-2.0-only
/* /dev/board_speed (board_speed.h): pages of CPUs and of threads. */
#include <linux/arch_topology.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <linux/uaccess.h>

#include "board_speed.h"
#include "speed.h"

/* Threads that somebody wants to know the speed of. */
struct watch {
	struct list_head entry;
	struct page *page;
	struct board_speed_page *shown;
	struct board_speed_threads threads;
};

static struct board_speed_page *cpus;
static LIST_HEAD(watches);
static DEFINE_MUTEX(watches_lock);
static struct tracepoint *switches;

/* The page has the thread's CPU already: either this sees a new speed, or whoever sets that sees the CPU. */
static void show_speed(struct board_speed_page *shown, unsigned int index, int cpu)
{
	u32 speed;

	do {
		speed = READ_ONCE(cpus->speed[cpu]);
		WRITE_ONCE(shown->speed[index], speed);
		smp_mb(); /* pairs with board_speed_set() */
	} while (speed != READ_ONCE(cpus->speed[cpu]));
}

void board_speed_set(int cpu, u32 speed)
{
	struct watch *watch;
	unsigned int i;

	WRITE_ONCE(cpus->speed[cpu], speed);
	smp_mb(); /* pairs with show_speed() */
	rcu_read_lock();
	list_for_each_entry_rcu(watch, &watches, entry)
		for (i = 0; i < watch->threads.count; i++)
			if (READ_ONCE(watch->shown->cpu[i]) == cpu)
				show_speed(watch->shown, i, cpu);
	rcu_read_unlock();
}

static void switched(void *unused, bool preempt, struct task_struct *prev, struct task_struct *next,
		     unsigned int prev_state)
{
	int cpu = smp_processor_id();
	struct watch *watch;
	unsigned int i;

	rcu_read_lock();
	list_for_each_entry_rcu(watch, &watches, entry) {
		for (i = 0; i < watch->threads.count; i++) {
			if (watch->threads.tids[i] != next->pid)
				continue;
			WRITE_ONCE(watch->shown->cpu[i], cpu);
			smp_mb(); /* pairs with board_speed_set() */
			show_speed(watch->shown, i, cpu);
		}
	}
	rcu_read_unlock();
}

static ssize_t speed_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	struct watch *watch;
	int error = -EINVAL;

	if (count != sizeof(watch->threads))
		return -EINVAL;
	watch = kzalloc(sizeof(*watch), GFP_KERNEL);
	if (!watch)
		return -ENOMEM;
	if (copy_from_user(&watch->threads, buf, count)) {
		error = -EFAULT;
		goto refused;
	}
	if (!watch->threads.count || watch->threads.count > BOARD_SPEED_ENTRIES ||
	    watch->threads.page % PAGE_SIZE)
		goto refused;
	error = pin_user_pages_fast(watch->threads.page, 1, FOLL_WRITE | FOLL_LONGTERM, &watch->page);
	if (error != 1)
		goto refused;
	watch->shown = page_address(watch->page);
	mutex_lock(&watches_lock);
	if (file->private_data) {
		mutex_unlock(&watches_lock);
		unpin_user_page(watch->page);
		error = -EBUSY;
		goto refused;
	}
	file->private_data = watch;
	memset(watch->shown, 0, sizeof(*watch->shown));
	/* Nothing is known of a thread before it is switched to: it counts as at full speed on no CPU. */
	memset32(watch->shown->speed, BOARD_FULL_SPEED, BOARD_SPEED_ENTRIES);
	memset32(watch->shown->cpu, U32_MAX, BOARD_SPEED_ENTRIES);
	watch->shown->magic = BOARD_SPEED_MAGIC;
	list_add_rcu(&watch->entry, &watches);
	mutex_unlock(&watches_lock);
	return count;
refused:
	kfree(watch);
	return error < 0 ? error : -EFAULT;
}

static int speed_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL;
	return 0;
}

static int speed_release(struct inode *inode, struct file *file)
{
	struct watch *watch = file->private_data;

	if (!watch)
		return 0;
	mutex_lock(&watches_lock);
	list_del_rcu(&watch->entry);
	mutex_unlock(&watches_lock);
	synchronize_rcu();
	tracepoint_synchronize_unregister();
	unpin_user_pages_dirty_lock(&watch->page, 1, true);
	kfree(watch);
	return 0;
}

static int speed_map(struct file *file, struct vm_area_struct *vma)
{
	if (vma->vm_end - vma->vm_start != PAGE_SIZE || vma->vm_pgoff || (vma->vm_flags & VM_WRITE))
		return -EINVAL;
	vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_page(vma, vma->vm_start, virt_to_page(cpus));
}

static const struct file_operations speed_operations = {
	.owner = THIS_MODULE,
	.open = speed_open,
	.release = speed_release,
	.write = speed_write,
	.mmap = speed_map,
};

static struct miscdevice speed_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "board_speed",
	.fops = &speed_operations,
	.mode = 0644,
};

static void find_switches(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "sched_switch"))
		switches = tracepoint;
}

int board_speed_start(void)
{
	int error, cpu;

	BUILD_BUG_ON(sizeof(*cpus) > PAGE_SIZE);
	for_each_kernel_tracepoint(find_switches, NULL);
	if (!switches || nr_cpu_ids > BOARD_SPEED_ENTRIES)
		return -ENODEV;
	cpus = (void *)get_zeroed_page(GFP_KERNEL);
	if (!cpus)
		return -ENOMEM;
	cpus->magic = BOARD_SPEED_MAGIC;
	for_each_possible_cpu(cpu) {
		cpus->speed[cpu] = topology_get_cpu_scale(cpu);
		cpus->cpu[cpu] = cpu;
	}
	error = tracepoint_probe_register(switches, switched, NULL);
	if (error)
		goto no_probe;
	error = misc_register(&speed_device);
	if (!error)
		return 0;
	tracepoint_probe_unregister(switches, switched, NULL);
	tracepoint_synchronize_unregister();
no_probe:
	free_page((unsigned long)cpus);
	return error;
}

void board_speed_stop(void)
{
	misc_deregister(&speed_device);
	tracepoint_probe_unregister(switches, switched, NULL);
	tracepoint_synchronize_unregister();
	free_page((unsigned long)cpus);
}
