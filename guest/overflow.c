// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sampling: the host counts down a period and then raises the CPU's MSI-X vector. The interrupt handler writes a sample.
 *
 * The interrupt is an ordinary one, not an NMI. So a sample of code that runs with interrupts off falls on the instruction that
 * enables interrupts. perf's own overflow handling is not exported to modules, which has two consequences. The guest does not
 * throttle samples, so the host limits the period instead. The limit of PERF_EVENT_IOC_REFRESH has no effect, and since 6.10 the
 * event's BPF program does not run.
 */
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/math64.h>
#include <linux/signal.h>

#include <asm/irq_regs.h>

#include "counters.h"

/*
 * Whether two periods differ by at most 1/8 of @b. If an event has a sampling frequency, perf adjusts the period all the time. A
 * small difference is not worth a VM exit.
 */
static bool pc_is_near(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) <= b / 8;
}

/*
 * Elapsed part of @period, in units of @period / 2^32. @left: rest of the period; below 0: a sample is due; 0: the period is new.
 */
static u32 pc_elapsed(u64 period, s64 left, u64 min_left)
{
	int shift = max(fls64(period) - 32, 0);
	u64 over;

	if (!left)
		return 0;
	/*
	 * Raise the rest to at least @min_left. With a shorter rest, the counter could overflow before a task that was just
	 * switched in has left the kernel.
	 */
	left = max(left, (s64)min_left);
	if ((u64)left >= period)
		return 0;
	over = period - left;
	return min_t(u64, div64_u64((over >> shift) << 32, period >> shift), U32_MAX);
}

/*
 * Sets the period in the request @want for @event. @told: the request that the host has served. If the host already counts down a
 * similar period of the same event, that period continues, even if another struct perf_event started it. The sampling rate then
 * stays the same, and nothing changes for the host. Otherwise, @event continues with what was left of its own period when it
 * stopped.
 */
void pc_overflow_begin(struct perf_event *event, struct paracord_pmu_want *want, const struct paracord_pmu_want *told)
{
	struct hw_perf_event *hw = &event->hw;
	u64 min_period = pc_event_min_period(event);

	want->period = max(hw->sample_period, min_period);
	if (pc_same_event(want, told) && pc_is_near(told->period, want->period))
		*want = *told;
	else
		want->elapsed = pc_elapsed(want->period, local64_read(&hw->period_left), min_period);
	hw->last_period = want->period;
}

/* Sets period_left after a sample: the next period started when the sampled period ended. */
static void pc_next_period(struct hw_perf_event *hw)
{
	s64 left = local64_read(&hw->period_left);
	u64 over;

	if (left > 0)
		return;
	div64_u64_rem(-left, hw->last_period, &over);
	local64_set(&hw->period_left, hw->last_period - over);
}

/* Sends SIGIO to processes that asked for it. The code that writes the ring buffer handles the wakeup for a full buffer. */
static void pc_signal(struct perf_event *event)
{
	if (!(event->parent ? event->parent : event)->fasync)
		return;
	event->pending_wakeup = 1;
	irq_work_queue(&event->pending_irq);
}

static void pc_sample(struct perf_event *event, struct pt_regs *regs)
{
	struct perf_sample_data data;

	/* For some events, the host cannot distinguish user mode from kernel mode: drop samples in an excluded mode. */
	if (user_mode(regs) ? event->attr.exclude_user : event->attr.exclude_kernel)
		return;
	perf_sample_data_init(&data, 0, event->hw.last_period);
	event->pending_kill = POLL_IN;
	READ_ONCE(event->overflow_handler)(event, &data, regs);
	pc_signal(event);
}

static irqreturn_t pc_overflow_interrupt(int irq, void *unused)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	int nr;

	for (nr = 0; c->lines && nr < PARACORD_COUNTERS; nr++) {
		struct perf_event *event = c->event[nr];

		if (!pc_counter_overflowed(c, nr) || !event || !is_sampling_event(event) ||
		    event->hw.state & PERF_HES_STOPPED)
			continue;
		c->samples++;
		pc_next_period(&event->hw);
		pc_sample(event, get_irq_regs());
	}
	return IRQ_HANDLED;
}

/*
 * Requests the interrupt of this CPU's counters. Called on the CPU itself, once its lines of the PMU area are in use. Without a
 * vector, events on this CPU are never sampled.
 */
void pc_overflow_online(const struct pc_region *region, u32 slot)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	int irq, err;

	if (slot >= region->vectors)
		return;
	irq = pci_irq_vector(to_pci_dev(region->dev), slot);
	err = irq_set_affinity(irq, cpumask_of(smp_processor_id()));
	if (!err)
		err = request_irq(irq, pc_overflow_interrupt, IRQF_NOBALANCING | IRQF_NO_THREAD,
				  "paracord-counters", c);
	if (err)
		dev_warn(region->dev, "no interrupt for CPU %u: %d: nothing can be sampled on it\n",
			 smp_processor_id(), err);
	else
		c->irq = irq;
}

/* Frees the interrupt of this CPU's counters. Called on the CPU itself, before its lines are withdrawn. */
void pc_overflow_offline(void)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	if (c->irq)
		free_irq(c->irq, c);
	c->irq = 0;
}
