// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots and CPUs. The hotplug state machine calls pc_cpu_online() and
 * pc_cpu_offline() on the CPU itself. At registration, it calls pc_cpu_online() on
 * all CPUs that are online already. So each CPU sets up and clears its own line.
 */
#include <linux/cpuhotplug.h>
#include <linux/jiffies.h>
#include <linux/string.h>
#include <linux/version.h>

#include "paracord_guest.h"

/* Longest time for which a change of the running task's class or priority stays unpublished if no hook reports the change. */
#define PC_LOOK_MS	20

/* The timer's interval if it also reads the speed of the CPU. The host writes the speed at the same interval. */
#define PC_LOOK_INVARIANT_MS	8

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define timer_delete_sync del_timer_sync
#endif

DEFINE_PER_CPU(struct pc_cpu, pc_cpus);

static struct pc_region *pc_region;
static int pc_hotplug_state;
static atomic_t pc_published = ATOMIC_INIT(0);
static atomic_t pc_without_slot = ATOMIC_INIT(0);

/* The function of the timer @look, called in the timer softirq. The timer is deferrable, so it does not wake an idle CPU. */
static void pc_look(struct timer_list *timer)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	unsigned int next_ms = PC_LOOK_MS;
	unsigned long flags;

	local_irq_save(flags);
	if (cpu->line)
		pc_context_look_again(cpu);
	if (pc_invariance_needs_looks()) {
		pc_invariance_look();
		next_ms = PC_LOOK_INVARIANT_MS;
	}
	pc_counters_look();
	local_irq_restore(flags);
	/*
	 * The timer also runs when a CPU has woken only for the kernel's own work. The guest then counts as idle, and an idle
	 * guest announces nothing.
	 */
	if (cpu->worked || current->mm)
		pc_memory_announce_again();
	cpu->worked = false;
	mod_timer(timer, jiffies + msecs_to_jiffies(next_ms));
}

static int pc_cpu_online(unsigned int nr)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_slot *slot;
	unsigned long flags;

	slot = pc_region_slot(pc_region, pc_arch_slot_index());
	if (!slot) {
		/* A CPU without a slot is counted but not logged: the host has chosen the number of slots. */
		atomic_inc(&pc_without_slot);
		return 0;
	}

	local_irq_save(flags);
	memset(&slot->guest, 0, sizeof(slot->guest));
	cpu->host = &slot->host;
	pc_kick_begin(cpu);
	cpu->line = &slot->guest;
	pc_context_begin(cpu, pc_region->features & PARACORD_F_PREEMPT_COUNT);
	local_irq_restore(flags);
	pc_domain_online(pc_region, cpu);
	pc_cpufreq_online(cpu);
	pc_invariance_online(nr);
	pc_counters_online(pc_region);
	timer_setup(&cpu->look, pc_look, TIMER_PINNED | TIMER_DEFERRABLE);
	cpu->look.expires = jiffies + msecs_to_jiffies(PC_LOOK_MS);
	add_timer_on(&cpu->look, nr);
	atomic_inc(&pc_published);
	return 0;
}

static int pc_cpu_offline(unsigned int nr)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_guest_line *line = cpu->line;
	unsigned long flags;

	if (!line) {
		atomic_dec(&pc_without_slot);
		return 0;
	}

	pc_counters_offline();
	pc_cpufreq_offline(cpu);
	timer_delete_sync(&cpu->look);
	local_irq_save(flags);
	/* An NMI may come at any point: clear cpu->line first, so that no probe stores into the line after the memset(). */
	WRITE_ONCE(cpu->line, NULL);
	barrier();
	pc_kick_end(cpu);
	memset(line, 0, sizeof(*line));
	local_irq_restore(flags);
	atomic_dec(&pc_published);
	return 0;
}

int pc_vcpus_start(struct pc_region *region)
{
	int state;

	pc_region = region;
	state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "paracord:online",
				  pc_cpu_online, pc_cpu_offline);
	if (state < 0)
		return state;
	pc_hotplug_state = state;
	return 0;
}

void pc_vcpus_stop(void)
{
	cpuhp_remove_state(pc_hotplug_state);
	pc_region = NULL;
}

unsigned int pc_vcpus_published(void)
{
	return atomic_read(&pc_published);
}

unsigned int pc_vcpus_without_slot(void)
{
	return atomic_read(&pc_without_slot);
}
