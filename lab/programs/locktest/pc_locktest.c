// SPDX-License-Identifier: GPL-2.0-only
/*
 * pc_locktest: priority inversion through a spinlock, on purpose.
 *
 * A normal kthread on one CPU holds a spinlock for hold_us every period_us; a
 * SCHED_FIFO kthread on another CPU takes the same lock every period and
 * records how long it waited. On a virtual machine the holder's vCPU may lose
 * its physical CPU inside the critical section; then the waiter spins for as
 * long as that lasts, however urgent its own vCPU is.
 *
 * Result, JSON, while loaded: /sys/kernel/debug/pc_locktest/result. A write of
 * anything to that file starts the statistics again.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#define WAIT_BUCKETS	32	/* bucket n: [2^n, 2^(n+1)) ns; 0 also takes 0 */

static unsigned int holder_cpu;
module_param(holder_cpu, uint, 0444);
static unsigned int waiter_cpu = 1;
module_param(waiter_cpu, uint, 0444);
static unsigned int hold_us = 200;
module_param(hold_us, uint, 0644);
MODULE_PARM_DESC(hold_us, "length of the critical section, us (at most 10000)");
static unsigned int period_us = 2000;
module_param(period_us, uint, 0644);
MODULE_PARM_DESC(period_us, "both threads, us (100 to 1000000)");
static bool holder_spins = true;
module_param(holder_spins, bool, 0644);
MODULE_PARM_DESC(holder_spins, "holder is busy between its critical sections, so that the host takes its CPU away (default: on)");

static DEFINE_SPINLOCK(contended_lock);

/* Guarded by stats_lock; only the waiter and the file touch it. */
static DEFINE_SPINLOCK(stats_lock);
static struct {
	u64 waits;
	u64 sum_ns;
	u64 max_ns;
	u64 bucket[WAIT_BUCKETS];
} stats;
static atomic64_t holds = ATOMIC64_INIT(0);

static struct task_struct *holder, *waiter;
static struct dentry *directory;

static unsigned int safe_period_us(void)
{
	return clamp(READ_ONCE(period_us), 100u, 1000000u);
}

static void busy_us(unsigned int us)
{
	u64 end_ns = ktime_get_ns() + (u64)us * NSEC_PER_USEC;

	while (ktime_get_ns() < end_ns)
		cpu_relax();
}

static int hold_lock(void *unused)
{
	while (!kthread_should_stop()) {
		unsigned int us = min(READ_ONCE(hold_us), 10000u);
		unsigned int pause_us = max(safe_period_us(), us + 50) - us;

		spin_lock(&contended_lock);
		busy_us(us);
		spin_unlock(&contended_lock);
		atomic64_inc(&holds);

		if (READ_ONCE(holder_spins)) {
			busy_us(pause_us);
			cond_resched();
		} else {
			usleep_range(pause_us, pause_us + 10);
		}
	}
	return 0;
}

static void record(u64 wait_ns)
{
	unsigned int bucket = wait_ns ? min_t(unsigned int, ilog2(wait_ns), WAIT_BUCKETS - 1) : 0;

	spin_lock(&stats_lock);
	stats.waits++;
	stats.sum_ns += wait_ns;
	stats.max_ns = max(stats.max_ns, wait_ns);
	stats.bucket[bucket]++;
	spin_unlock(&stats_lock);
}

static int wait_for_lock(void *unused)
{
	sched_set_fifo(current);
	while (!kthread_should_stop()) {
		unsigned int us = safe_period_us();
		u64 start_ns, wait_ns;

		usleep_range(us, us + 10);
		start_ns = ktime_get_ns();
		spin_lock(&contended_lock);
		wait_ns = ktime_get_ns() - start_ns;
		spin_unlock(&contended_lock);
		record(wait_ns);
	}
	return 0;
}

static int result_show(struct seq_file *file, void *unused)
{
	int i;

	spin_lock(&stats_lock);
	seq_printf(file, "{\"program\": \"pc_locktest\", \"hold_us\": %u, \"period_us\": %u, \"holds\": %lld, \"waits\": %llu, \"sum_ns\": %llu, \"max_ns\": %llu, \"log2_ns\": [",
		   hold_us, period_us, (s64)atomic64_read(&holds), stats.waits,
		   stats.sum_ns, stats.max_ns);
	for (i = 0; i < WAIT_BUCKETS; i++)
		seq_printf(file, "%s%llu", i ? ", " : "", stats.bucket[i]);
	seq_puts(file, "]}\n");
	spin_unlock(&stats_lock);
	return 0;
}

static int result_open(struct inode *inode, struct file *file)
{
	return single_open(file, result_show, NULL);
}

static ssize_t result_write(struct file *file, const char __user *buf, size_t count,
			    loff_t *pos)
{
	spin_lock(&stats_lock);
	memset(&stats, 0, sizeof(stats));
	spin_unlock(&stats_lock);
	atomic64_set(&holds, 0);
	return count;
}

static const struct file_operations result_operations = {
	.owner = THIS_MODULE,
	.open = result_open,
	.read = seq_read,
	.write = result_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init locktest_init(void)
{
	if (holder_cpu == waiter_cpu || !cpu_online(holder_cpu) || !cpu_online(waiter_cpu)) {
		pr_err("pc_locktest: holder_cpu=%u and waiter_cpu=%u must be two online CPUs\n",
		       holder_cpu, waiter_cpu);
		return -EINVAL;
	}
	holder = kthread_create_on_cpu(hold_lock, NULL, holder_cpu, "pc_holder/%u");
	if (IS_ERR(holder))
		return PTR_ERR(holder);
	waiter = kthread_create_on_cpu(wait_for_lock, NULL, waiter_cpu, "pc_waiter/%u");
	if (IS_ERR(waiter)) {
		kthread_stop(holder);
		return PTR_ERR(waiter);
	}
	directory = debugfs_create_dir("pc_locktest", NULL);
	debugfs_create_file("result", 0600, directory, NULL, &result_operations);
	wake_up_process(holder);
	wake_up_process(waiter);
	return 0;
}

static void __exit locktest_exit(void)
{
	debugfs_remove(directory);
	kthread_stop(waiter);
	kthread_stop(holder);
}

module_init(locktest_init);
module_exit(locktest_exit);

MODULE_DESCRIPTION("paracord lab: priority inversion through a spinlock");
MODULE_AUTHOR("The paracord authors");
MODULE_LICENSE("GPL");
