/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * paracord guest driver: what the files of the PMU share. counters.c asks the host, pmu.c is
 * perf's driver.
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
	struct paracord_pmu_count last[PARACORD_COUNTERS];	/* what the host said last */
	u64 since_ns[PARACORD_COUNTERS];	/* local_clock() when that was */
	u32 changed;			/* mask: what is wanted of it has changed since */
	u32 read;			/* mask: its count is wanted */
	u32 refused;			/* mask: the host does not serve it */
	u32 strays;			/* mask: whose count this is got lost with a batch that was not served */
	u32 asked;			/* number of the last batch */
	bool collecting;		/* perf has disabled the PMU */
	u64 batches;
	u64 batches_unserved;
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

/* Tell the host what has changed. Return: false if it does not answer. */
bool pc_counters_ring(struct pc_counters *c);

#endif /* PARACORD_COUNTERS_H */
