/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * paracord guest driver: what the files of the PMU share. counters.c asks the host, overflow.c
 * samples, pmu.c is perf's driver.
 */
#ifndef PARACORD_COUNTERS_H
#define PARACORD_COUNTERS_H

#include <linux/perf_event.h>

#include "paracord_guest.h"

/* The last one has what took longer, half a second. */
#define PC_BATCH_BUCKETS	30

/*
 * The counters of one CPU. Touched by the CPU itself only, with interrupts off.
 *
 * Changes are collected and told in a batch, at the cost of one exit. What a counter has
 * counted until it is served belongs to the event that had it until then: @left, if that has
 * gone meanwhile, else @event.
 */
struct pc_counters {
	struct paracord_pmu_guest *lines;	/* NULL: this CPU has none */
	const struct paracord_pmu_host *host;
	struct perf_event *event[PARACORD_COUNTERS];
	struct perf_event *left[PARACORD_COUNTERS];
	struct paracord_pmu_want told[PARACORD_COUNTERS];	/* what the host has served */
	struct paracord_pmu_count last[PARACORD_COUNTERS];	/* what the host said last */
	u32 overflows[PARACORD_COUNTERS];	/* of the host's number, those that are dealt with */
	u64 since_ns[PARACORD_COUNTERS];	/* @told_ns of that */
	u64 told_ns;			/* local_clock() before the last exit, or at the last overflow */
	u32 changed;			/* mask: what is wanted of it has changed since */
	u32 read;			/* mask: its count is wanted */
	u32 refused;			/* mask: the host does not serve it */
	u32 strays;			/* mask: whose count this is got lost with a batch that was not served */
	u32 asked;			/* number of the last batch */
	int irq;			/* 0: its overflows are not told */
	bool patient;			/* the host has answered the last time */
	bool collecting;		/* perf has disabled the PMU */
	u64 batches;
	u64 batches_unserved;
	u64 samples;
	u64 batch_ns;			/* time that all of them took */
	u32 batch_buckets[PC_BATCH_BUCKETS];	/* how many took 2^n..2^(n+1) ns */
};

DECLARE_PER_CPU(struct pc_counters, pc_counters);

/* How many of a CPU's counters are used. */
unsigned int pc_counters_in_use(void);

/* A counter for an event. Return: -1 if all are in use, or there are none. */
int pc_counter_take(struct pc_counters *c, struct perf_event *event);
void pc_counter_free(struct pc_counters *c, int nr);

/* From the next batch on, the counter counts for its event, or stands still. */
void pc_counter_start(struct pc_counters *c, int nr);
void pc_counter_stop(struct pc_counters *c, int nr);

/* Whether the counter has overflowed since this was asked last; its event is up to date then. */
bool pc_counter_overflowed(struct pc_counters *c, int nr);

/* Whether both count the same, in the same way. */
static inline bool pc_same_event(const struct paracord_pmu_want *a, const struct paracord_pmu_want *b)
{
	return a->event == b->event && a->flags == b->flags && !a->period == !b->period;
}

/* Tell the host what has changed. Return: false if it does not answer. */
bool pc_counters_ring(struct pc_counters *c);

/* pmu.c. Return: 0 if the event cannot be sampled. */
u64 pc_event_min_period(const struct perf_event *event);

/* overflow.c */
void pc_overflow_begin(struct perf_event *event, struct paracord_pmu_want *want, const struct paracord_pmu_want *told);
void pc_overflow_online(const struct pc_region *region, u32 slot);
void pc_overflow_offline(void);

#endif /* PARACORD_COUNTERS_H */
