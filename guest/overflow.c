// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sampling: the host counts a period down, interrupts the CPU by its vector, and a sample is written.
 *
 * An ordinary interrupt: where interrupts are off, samples fall on the instruction that turns them on. What perf's
 * core does at an overflow is not exported to modules: no throttling (the shortest period is the host's), no
 * PERF_EVENT_IOC_REFRESH, and from 6.10 on no BPF program of the event's.
 */
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/math64.h>
#include <linux/signal.h>

#include <asm/irq_regs.h>

#include "counters.h"

/* A period that differs by less is not worth an exit: perf corrects that of a frequency all the time. */
static bool pc_is_near(u64 a, u64 b)
{
	return (a > b ? a - b : b - a) <= b / 8;
}

/* How much of @period is over, in 2^-32. @left: below zero if a sample is due, zero if the period is a new one. */
static u32 pc_elapsed(u64 period, s64 left, u64 min_left)
{
	int shift = max(fls64(period) - 32, 0);
	u64 over;

	if (!left)
		return 0;
	/* A task that has just come would not leave the kernel in less. */
	left = max(left, (s64)min_left);
	if ((u64)left >= period)
		return 0;
	over = period - left;
	return min_t(u64, div64_u64((over >> shift) << 32, period >> shift), U32_MAX);
}

/*
 * Where the host counts down a period like the event's already, that one goes on, whoever began it: samples are
 * as frequent, and nothing changes for the host. Else what was left when the event stopped is left now.
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

/* The period that has ended is sampled; the next one began when it did. */
static void pc_next_period(struct hw_perf_event *hw)
{
	s64 left = local64_read(&hw->period_left);
	u64 over;

	if (left > 0)
		return;
	div64_u64_rem(-left, hw->last_period, &over);
	local64_set(&hw->period_left, hw->last_period - over);
}

/* SIGIO, for who wants it; what a full ring buffer does is done where it is written. */
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

	/* The host cannot tell for all events. */
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

/* On the CPU itself, after it has lines. Without a vector its events are never sampled. */
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

/* On the CPU itself, before its lines go. */
void pc_overflow_offline(void)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);

	if (c->irq)
		free_irq(c->irq, c);
	c->irq = 0;
}
