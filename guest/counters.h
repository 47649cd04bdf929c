/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * paracord guest driver: shared declarations of the PMU. pmu.c is the driver for perf,
 * counters.c sends requests to the host, overflow.c writes samples.
 */
#ifndef PARACORD_COUNTERS_H
#define PARACORD_COUNTERS_H

#include <linux/perf_event.h>

#include "paracord_guest.h"

/* The last bucket counts all batches that took longer than half a second. */
#define PC_BATCH_BUCKETS	30

/*
 * The counters of one CPU. Only the CPU itself accesses them, with interrupts off,
 * except that sysfs reads some of them.
 *
 * Changes are collected and sent to the host as a batch, which costs one VM exit. When
 * the host serves a batch, the new count of a counter belongs to the event that held
 * the counter before the batch. That event is in @left if it has left the counter, and
 * in @event if it has not.
 */
struct pc_counters {
	struct paracord_pmu_guest *lines;	/* guest's lines of the PMU area; NULL: this CPU has no lines */
	const struct paracord_pmu_host *host;
	struct perf_event *event[PARACORD_COUNTERS];
	struct perf_event *left[PARACORD_COUNTERS];
	struct paracord_pmu_want told[PARACORD_COUNTERS];	/* requests that the host has served */
	struct paracord_pmu_count last[PARACORD_COUNTERS];	/* counts that the host reported last */
	u32 overflows[PARACORD_COUNTERS];	/* the host's overflow count up to which this CPU has handled overflows */
	u64 since_ns[PARACORD_COUNTERS];	/* time up to which the counter's time was accounted as counted or not counted */
	u64 told_ns;			/* local_clock() before the exit of the last batch, or at the last overflow */
	u64 served_ns;			/* @told_ns of the last batch that was served */
	u64 unserved_ns;		/* @told_ns of the first batch since then that was not served; 0: none */
	u32 changed;			/* mask: the request has changed since the last batch */
	u32 read;			/* mask: the next batch reads the count */
	u32 refused;			/* mask: the host does not serve the counter */
	u32 strays;			/* mask: a batch was not served, so the event to which the count belongs is unknown */
	u32 service;			/* paracord_pmu_host.service of the last answer */
	u32 asked;			/* number of the last batch */
	int irq;			/* Linux interrupt number for overflows; 0: none */
	bool patient;			/* this CPU waits for answers: the host served the last batch and refused nothing */
	bool collecting;		/* perf has disabled the PMU, so changes are collected */
	u64 batches;
	u64 batches_unserved;
	u64 samples;
	u64 batch_ns;			/* total time of all batches */
	u32 batch_buckets[PC_BATCH_BUCKETS];	/* number of batches that took 2^n..2^(n+1) ns */
};

DECLARE_PER_CPU(struct pc_counters, pc_counters);

/* Number of counters per CPU that the driver uses. */
unsigned int pc_counters_in_use(void);

/* Allocates a counter for an event. Return: the number of the counter; -1 if all are in use or this CPU has no counters. */
int pc_counter_take(struct pc_counters *c, struct perf_event *event);
void pc_counter_free(struct pc_counters *c, int nr);

/* Let a counter start or stop counting for its event. The change takes effect with the next batch. */
void pc_counter_start(struct pc_counters *c, int nr);
void pc_counter_stop(struct pc_counters *c, int nr);

/* Return: whether the counter has overflowed since the last call. If so, the count of the counter's event has been updated. */
bool pc_counter_overflowed(struct pc_counters *c, int nr);

/* Whether both requests count the same event in the same modes, and either both have a period or neither does. */
static inline bool pc_same_event(const struct paracord_pmu_want *a, const struct paracord_pmu_want *b)
{
	return a->event == b->event && a->flags == b->flags && !a->period == !b->period;
}

/*
 * Sends the host a batch that contains all pending changes and all pending requests for counts. Return: false if the host does
 * not answer.
 */
bool pc_counters_ring(struct pc_counters *c);

/*
 * Sends a batch from this CPU, and waits for the answer, even if the host did not answer the previous batch. If @offered is not
 * NULL, *@offered is set to the mask of the events that the host offers to guests without a device. Return: false if the host
 * does not answer.
 */
bool pc_counters_try(u64 *offered);

/* pmu.c. Return: the shortest period of the event; 0 if the event cannot be sampled. */
u64 pc_event_min_period(const struct perf_event *event);

/* overflow.c */
void pc_overflow_begin(struct perf_event *event, struct paracord_pmu_want *want, const struct paracord_pmu_want *told);
void pc_overflow_online(const struct pc_region *region, u32 slot);
void pc_overflow_offline(void);

#endif /* PARACORD_COUNTERS_H */
