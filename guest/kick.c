// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kick: a VM exit whose only purpose is to make the host look at the guest line of
 * a vCPU that is still boosted although the reason for the boost has ended.
 *
 * A switch from a real-time to a normal task causes no VM exit by itself. Without a
 * kick, the normal task would run with the boost until the next exit, perhaps a tick
 * later. A switch to idle needs no kick, because HLT causes a VM exit.
 *
 * When: the reason has ended, the host line reports a boost, and both the boost and the
 * last kick are older than a threshold. So a vCPU sends at most one kick per threshold
 * time, whatever runs on it.
 *
 * Where: at the return to user mode. In the context switch itself, the run queue is
 * locked and preemption is off. At a kick there, the host would see a critical section
 * and keep the boost, or, worse, preempt the holder of a run queue lock.
 */
#include <linux/moduleparam.h>
#include <linux/sched/clock.h>

#include "paracord_guest.h"

/*
 * Default threshold. The cost of a kick is an exit plus the two system calls for an
 * unboost and a new boost: about 10 us, which is 2 % of this threshold. With a lower
 * threshold, a kick would cost more than it gains.
 */
#define PC_STALE_BOOST_KICK_DEFAULT_US	500

static bool kick = true;
module_param(kick, bool, 0644);
MODULE_PARM_DESC(kick, "one VM exit when a boost has become stale (default: on)");

static unsigned int stale_boost_kick_us;
module_param(stale_boost_kick_us, uint, 0644);
MODULE_PARM_DESC(stale_boost_kick_us, "kick when a dropped boost is older, us (default 0: as the host says)");

static unsigned int pc_host_threshold_us;
static bool pc_accepted;	/* PARACORD_F_KICK is offered and possible */
static bool pc_watch;		/* the host lines contain the boost state and the counter of boosts */

bool pc_kick_possible(void)
{
	return IS_ENABLED(CONFIG_USER_RETURN_NOTIFIER) && pc_arch_kick_possible();
}

void pc_kick_set_region(const struct pc_region *region)
{
	pc_host_threshold_us = region ? region->host.stale_boost_kick_us : 0;
	pc_accepted = region && (region->features & PARACORD_F_KICK);
	pc_watch = region && PARACORD_FIELD_IN(struct paracord_host_line, boosts,
					       region->host.host_line_bytes);
}

unsigned int pc_kick_threshold_us(void)
{
	return READ_ONCE(stale_boost_kick_us) ?: pc_host_threshold_us ?:
	       PC_STALE_BOOST_KICK_DEFAULT_US;
}

/*
 * Return: whether the host line reports that this vCPU is boosted.
 *
 * If the line shows a boost that it did not show at the last look, the boost may have
 * started right after that look. So the driver counts the age of the boost from the
 * last look. This age may be too high, because the driver does not look at the line at
 * switches from idle. The error costs one kick. Suppose the driver counted the age from
 * the current look instead. The host boosts the vCPU after the real-time task has
 * started, and the driver looks again only when that task ends. The age would then be
 * 0, which is below the threshold, so the driver would usually not kick at all.
 */
static bool pc_observe(struct pc_cpu *cpu, u64 now_ns)
{
	struct pc_kick_state *k = &cpu->kick;
	bool boosted = READ_ONCE(cpu->host->boost_state) == PARACORD_BOOST_ON;
	u32 boosts = READ_ONCE(cpu->host->boosts);

	if (boosted && (!k->boosted || boosts != k->boosts_seen))
		k->boosted_since_ns = k->observed_ns;
	k->boosted = boosted;
	k->observed_ns = now_ns;
	k->boosts_seen = boosts;
	return boosted;
}

static void pc_stale_begin(struct pc_kick_state *k, u64 now_ns)
{
	k->stale = true;
	k->seen_by_host = false;
	k->stale_since_ns = now_ns;
	k->stale_boosts++;
}

/* Notes an exit at which the host can see that the reason for the boost has ended. Only the first such exit counts. */
static void pc_stale_exit(struct pc_kick_state *k, u64 now_ns)
{
	u64 ns = now_ns - k->stale_since_ns;

	if (!k->stale || k->seen_by_host)
		return;
	k->seen_by_host = true;
	k->stale_ns += ns;
	if (ns > k->stale_max_ns)
		k->stale_max_ns = ns;
}

static void pc_stale_end(struct pc_kick_state *k, u64 now_ns)
{
	pc_stale_exit(k, now_ns);
	k->stale = false;
}

#ifdef CONFIG_USER_RETURN_NOTIFIER
static void pc_disarm(struct pc_kick_state *k)
{
	if (!k->armed)
		return;
	k->armed = false;
	user_return_notifier_unregister(&k->on_user_return);
}

/*
 * Sends a kick if the boost is still stale. Called when the CPU is about to return to user mode, with interrupts off and no lock
 * held.
 */
static void pc_on_user_return(struct user_return_notifier *notifier)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_guest_line *line = cpu->line;
	u64 now_ns;

	pc_disarm(&cpu->kick);
	if (!line || !cpu->kick.stale)
		return;
	now_ns = local_clock();
	if (!pc_observe(cpu, now_ns)) {
		pc_stale_end(&cpu->kick, now_ns);
		return;
	}
	WRITE_ONCE(line->kicks, line->kicks + 1);
	pc_stale_exit(&cpu->kick, now_ns);
	cpu->kick.boosted_since_ns = now_ns;
	pc_arch_kick();
}

static void pc_arm(struct pc_kick_state *k)
{
	if (k->armed)
		return;
	k->armed = true;
	k->on_user_return.on_user_return = pc_on_user_return;
	/*
	 * The registration marks the task that is being switched out. The context switch then passes the mark on to the next
	 * task.
	 */
	user_return_notifier_register(&k->on_user_return);
}
#else
static void pc_disarm(struct pc_kick_state *k) { }
static void pc_arm(struct pc_kick_state *k) { }
#endif

/*
 * Notes the start or end of a stale boost, and arranges a kick if one is due. Called in the context switch, with the run queue
 * locked and interrupts off.
 */
void pc_kick_switch(struct pc_cpu *cpu, u8 before, u8 next)
{
	struct pc_kick_state *k = &cpu->kick;
	u64 now_ns;

	if (!pc_watch)
		return;
	now_ns = local_clock();
	if (!pc_observe(cpu, now_ns) || next != PARACORD_TASK_NORMAL) {
		pc_stale_end(k, now_ns);
		return;
	}
	if (before >= PARACORD_TASK_RT && !k->stale)
		pc_stale_begin(k, now_ns);
	if (k->stale && pc_accepted && READ_ONCE(kick) &&
	    now_ns - k->boosted_since_ns >= (u64)pc_kick_threshold_us() * NSEC_PER_USEC)
		pc_arm(k);
}

/*
 * Updates the bookkeeping at the end of an interrupt and in the timer of vcpu.c. No kick is needed there, because an interrupt
 * causes a VM exit.
 */
void pc_kick_poll(struct pc_cpu *cpu)
{
	u64 now_ns = local_clock();

	pc_stale_exit(&cpu->kick, now_ns);
	if (!pc_observe(cpu, now_ns))
		pc_stale_end(&cpu->kick, now_ns);
}

/* Resets the state, including the counters. Called for each new region, and each time the CPU comes online. */
void pc_kick_begin(struct pc_cpu *cpu)
{
	memset(&cpu->kick, 0, sizeof(cpu->kick));
}

/* Unregisters the notifier. Called on the CPU itself, with interrupts off, after the last probe that may arm the notifier. */
void pc_kick_end(struct pc_cpu *cpu)
{
	pc_disarm(&cpu->kick);
}
