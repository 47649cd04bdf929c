// SPDX-License-Identifier: GPL-2.0-only
/*
 * The counters of a CPU. The host does the counting. The guest stores its requests into
 * the vCPU's lines of the PMU area and causes one VM exit. The host normally serves the
 * requests before it enters the vCPU again.
 */
#include <linux/io.h>
#include <linux/log2.h>
#include <linux/moduleparam.h>
#include <linux/sched/clock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "counters.h"

/* A smaller number is meant for measuring how perf multiplexes events in a guest. */
static unsigned int counters = PARACORD_COUNTERS;
module_param(counters, uint, 0444);
MODULE_PARM_DESC(counters, "counters in use, 1 to 16 (default: 16)");

DEFINE_PER_CPU(struct pc_counters, pc_counters);

/*
 * Longest wait for an answer, with interrupts off. An emulated host may take this long. Other hosts have answered by the time the
 * exit returns, or a few microseconds after that.
 */
#define PC_ANSWER_MAX_NS	(10 * NSEC_PER_MSEC)

/*
 * Longest time between two batches of a CPU that counts, if the lines are in the guest's own memory. After a migration, the new
 * host must be told what to count.
 */
#define PC_REPEAT_NS	NSEC_PER_SEC
/*
 * Like PC_REPEAT_NS, but used if the last batch was not served. The host writes an answer only within 100 ms after it has read the
 * batch. So this time and the interval of the timer (PC_LOOK_MS) must together be shorter than 100 ms.
 */
#define PC_RETRY_NS	(50 * NSEC_PER_MSEC)
/*
 * If the lines are in the guest's own memory: time without an answer after which the driver assumes that no host counts any more.
 * The VM may have migrated to a host without paracord.
 */
#define PC_GONE_NS	(3 * NSEC_PER_SEC)

/* The doorbell register, the same for all CPUs: a write to it causes a VM exit. NULL: the host serves counters at kicks. */
static void __iomem *pc_doorbell;
/*
 * True if the lines are in the guest's own memory. The host then reads a batch at one kick and writes the answer at a later kick.
 */
static bool pc_lines_in_memory;

unsigned int pc_counters_in_use(void)
{
	return clamp_t(unsigned int, counters, 1, PARACORD_COUNTERS);
}

/* The request for an event. The period of a sampled event is 1, a placeholder; pc_overflow_begin() sets the real period. */
static struct paracord_pmu_want pc_want_of(const struct perf_event *event)
{
	const struct perf_event_attr *attr = &event->attr;

	return (struct paracord_pmu_want){
		.period = is_sampling_event((struct perf_event *)event),
		.event = attr->config + 1,
		.flags = (attr->exclude_user ? 0 : PARACORD_WANT_USER) |
			 (attr->exclude_kernel ? 0 : PARACORD_WANT_KERNEL),
	};
}

/*
 * Prefers a free counter that counted the same event before the current batch. If the next task counts the same events as the
 * previous task, the host then only has to read the counter.
 */
int pc_counter_take(struct pc_counters *c, struct perf_event *event)
{
	struct paracord_pmu_want want = pc_want_of(event);
	int nr, found = -1;

	if (!c->lines)
		return -1;
	for (nr = 0; nr < pc_counters_in_use(); nr++) {
		if (c->event[nr])
			continue;
		if (found < 0)
			found = nr;
		if (c->left[nr]) {
			struct paracord_pmu_want had = pc_want_of(c->left[nr]);

			if (pc_same_event(&want, &had)) {
				found = nr;
				break;
			}
		}
	}
	if (found >= 0)
		c->event[found] = event;
	return found;
}

void pc_counter_free(struct pc_counters *c, int nr)
{
	c->event[nr] = NULL;
}

void pc_counter_start(struct pc_counters *c, int nr)
{
	struct paracord_pmu_want want = pc_want_of(c->event[nr]);

	c->changed |= BIT(nr);
	if (!c->left[nr])
		c->since_ns[nr] = local_clock();
	if (want.period)
		pc_overflow_begin(c->event[nr], &want, &c->told[nr]);
	if (c->lines)
		c->lines->want[nr] = want;
}

void pc_counter_stop(struct pc_counters *c, int nr)
{
	c->changed |= BIT(nr);
	/* If @left is set, the current event took the counter within the current batch and has not counted yet. */
	if (!c->left[nr])
		c->left[nr] = c->event[nr];
	if (c->lines)
		c->lines->want[nr] = (struct paracord_pmu_want){ .event = 0 };
}

/*
 * Subtracts from the event's running time the time in which the host did not count, so that perf shows the event as multiplexed.
 * perf updates total_time_running only when an event is added, removed or read. Time that exceeds total_time_running stays in
 * config_base and is subtracted at the next call.
 */
static void pc_not_running(struct perf_event *event, u64 ns)
{
	u64 now;

	event->hw.config_base += ns;
	now = min_t(u64, event->hw.config_base, event->total_time_running);
	event->total_time_running -= now;
	event->hw.config_base -= now;
}

/* Accounts the time from a counter's last count until @now_ns as time in which the host did not count the counter's event. */
static void pc_not_counted(struct pc_counters *c, int nr, u64 now_ns)
{
	struct perf_event *event = c->left[nr] ?: c->event[nr];

	/* The event may have taken the counter after @now_ns. */
	if ((s64)(now_ns - c->since_ns[nr]) <= 0)
		return;
	if (event)
		pc_not_running(event, now_ns - c->since_ns[nr]);
	c->since_ns[nr] = now_ns;
}

static void pc_account(struct pc_counters *c, int nr, const struct paracord_pmu_count *now)
{
	struct perf_event *event = c->left[nr] ?: c->event[nr];
	const struct paracord_pmu_count *last = &c->last[nr];
	u64 enabled_ns = now->enabled_ns - last->enabled_ns;
	u64 running_ns = now->running_ns - last->running_ns;

	if (c->strays & BIT(nr))
		pc_not_counted(c, nr, c->told_ns);
	if (!event || c->strays & BIT(nr))
		return;
	local64_add(now->count - last->count, &event->count);
	/*
	 * A period_left below 0 means that the event left the counter before its sample was taken. The sample is then due when
	 * the event returns.
	 */
	if (is_sampling_event(event))
		local64_sub(now->count - last->count, &event->hw.period_left);
	if (c->refused & BIT(nr))
		pc_not_running(event, c->told_ns - c->since_ns[nr]);
	else
		pc_not_running(event, enabled_ns > running_ns ? enabled_ns - running_ns : 0);
}

static void pc_take_count(struct pc_counters *c, int nr)
{
	struct paracord_pmu_count now;

	memcpy(&now, &c->host->counter[nr], sizeof(now));
	pc_account(c, nr, &now);
	c->last[nr] = now;
	c->left[nr] = NULL;
	c->since_ns[nr] = c->told_ns;
}

static void pc_take_answer(struct pc_counters *c, u32 mask)
{
	int nr;

	for (nr = 0; nr < PARACORD_COUNTERS; nr++) {
		if (!(mask & BIT(nr)))
			continue;
		pc_take_count(c, nr);
		c->told[nr] = c->lines->want[nr];
	}
	c->strays &= ~mask;
	c->refused = READ_ONCE(c->host->refused);
}

/*
 * Takes the first answer of another host, or of a restarted daemon. The new host or daemon has counted nothing before this batch,
 * and its counts may begin at any value.
 */
static void pc_begin_again(struct pc_counters *c, u64 now_ns)
{
	int nr;

	for (nr = 0; nr < PARACORD_COUNTERS; nr++) {
		pc_not_counted(c, nr, now_ns);
		memcpy(&c->last[nr], &c->host->counter[nr], sizeof(c->last[nr]));
	}
	c->strays = 0;
	c->refused = READ_ONCE(c->host->refused);
	c->service = READ_ONCE(c->host->service);
}

/* Like pc_begin_again(), but for the answer to a batch that this CPU has just sent. */
static void pc_begin_with_answer(struct pc_counters *c)
{
	int nr;

	pc_begin_again(c, c->told_ns);
	memset(c->left, 0, sizeof(c->left));
	for (nr = 0; nr < PARACORD_COUNTERS; nr++)
		c->told[nr] = c->lines->want[nr];
}

/*
 * Checks for a late answer: the host may have served the last batch after this CPU stopped waiting for the answer. If so, the
 * host's counts belong to known events again.
 */
static void pc_take_late_answer(struct pc_counters *c)
{
	int nr;

	if (!c->strays || READ_ONCE(c->host->served) != c->asked)
		return;
	smp_rmb();
	if (READ_ONCE(c->host->service) != c->service) {
		pc_begin_again(c, c->told_ns);
		return;
	}
	for (nr = 0; nr < PARACORD_COUNTERS; nr++) {
		if (!(c->strays & BIT(nr)))
			continue;
		/* The host has counted since it served the batch, so @since_ns is right. */
		memcpy(&c->last[nr], &c->host->counter[nr], sizeof(c->last[nr]));
	}
	c->strays = 0;
	c->refused = READ_ONCE(c->host->refused);
}

bool pc_counter_overflowed(struct pc_counters *c, int nr)
{
	u32 overflows = READ_ONCE(c->host->counter[nr].overflows);

	pc_take_late_answer(c);
	if (overflows == c->overflows[nr])
		return false;
	c->overflows[nr] = overflows;
	c->told_ns = local_clock();
	pc_take_count(c, nr);
	c->refused = READ_ONCE(c->host->refused);
	return true;
}

static void pc_note_latency(struct pc_counters *c, u64 ns)
{
	c->batch_ns += ns;
	c->batch_buckets[min_t(u32, ilog2(ns | 1), PC_BATCH_BUCKETS - 1)]++;
}

/*
 * For each counter whose event changes with this batch, treats all overflows that were reported up to now as handled, because
 * they belong to the previous event.
 */
static void pc_forget_overflows(struct pc_counters *c)
{
	int nr;

	for (nr = 0; nr < PARACORD_COUNTERS; nr++)
		if (c->left[nr] && c->left[nr] != c->event[nr])
			c->overflows[nr] = READ_ONCE(c->host->counter[nr].overflows);
}

/* Causes a VM exit, which is ordered after all earlier stores to the lines. */
static void pc_exit_to_host(void)
{
	if (pc_doorbell)
		iowrite32(0, pc_doorbell);
	else
		pc_arch_kick();
}

/*
 * Waits for the answer to a batch. Return: whether the host has answered. The host normally serves the batch before this vCPU
 * continues, unless the vCPU thread migrates to another CPU at this moment. If the host has not served the previous batch, or has
 * refused counters in it, this CPU does not wait.
 */
static bool pc_await_answer(struct pc_counters *c)
{
	/*
	 * If the lines are in the guest's own memory, the host writes the answer at this exit, provided that the answer is ready.
	 */
	if (pc_lines_in_memory)
		pc_exit_to_host();
	while (READ_ONCE(c->host->served) != c->asked) {
		if (!c->patient || local_clock() - c->told_ns > PC_ANSWER_MAX_NS)
			return false;
		if (pc_lines_in_memory)
			pc_exit_to_host();
		else
			cpu_relax();
	}
	return true;
}

bool pc_counters_ring(struct pc_counters *c)
{
	u32 changed = c->changed, mask = changed | c->read;
	bool served;
	int nr;

	if (!c->lines)
		return false;
	/* The answer to the previous batch may be ready by now, but the host writes it only at a kick. */
	if (pc_lines_in_memory && !c->patient)
		pc_exit_to_host();
	c->patient |= READ_ONCE(c->host->served) == c->asked && !READ_ONCE(c->host->refused);
	pc_take_late_answer(c);
	/* 0 is not a valid batch number. */
	c->asked = c->asked + 1 ?: 1;
	pc_forget_overflows(c);
	WRITE_ONCE(c->lines->read, mask);
	smp_wmb();
	WRITE_ONCE(c->lines->asked, c->asked);
	c->told_ns = local_clock();
	pc_exit_to_host();
	c->changed = 0;
	c->read = 0;
	served = pc_await_answer(c);
	/* If this guest has used up its budget, the host may ignore the next batch. */
	c->patient = served && !READ_ONCE(c->host->refused);
	pc_note_latency(c, local_clock() - c->told_ns);
	c->batches++;
	smp_rmb();
	if (served) {
		c->served_ns = c->told_ns;
		c->unserved_ns = 0;
		if (READ_ONCE(c->host->service) == c->service)
			pc_take_answer(c, mask);
		else
			pc_begin_with_answer(c);
		return true;
	}
	/*
	 * The requests stay in the lines, so the next batch contains them. Until the host has served them, it is unknown to which
	 * events the counts belong.
	 */
	c->batches_unserved++;
	c->strays |= changed;
	c->unserved_ns = c->unserved_ns ?: c->told_ns;
	if (pc_lines_in_memory && c->told_ns - c->unserved_ns > PC_GONE_NS)
		c->strays = GENMASK(PARACORD_COUNTERS - 1, 0);
	for (nr = 0; nr < PARACORD_COUNTERS; nr++)
		if (c->strays & BIT(nr))
			pc_not_counted(c, nr, c->told_ns);
	memset(c->left, 0, sizeof(c->left));
	memset(c->told, 0, sizeof(c->told));
	return false;
}

bool pc_counters_try(u64 *offered)
{
	struct pc_counters *c;
	unsigned long flags;
	bool answers;

	local_irq_save(flags);
	c = this_cpu_ptr(&pc_counters);
	c->patient = true;
	answers = pc_counters_ring(c);
	if (answers && offered)
		*offered = READ_ONCE(c->host->offered);
	local_irq_restore(flags);
	return answers;
}

/*
 * Reads all counts if the last batch is old. After a migration, the new host does not know what to count until it gets a batch, and
 * what the old host has counted since the last batch is lost. Called with interrupts off.
 */
void pc_counters_look(void)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	u64 due_ns = c->told_ns == c->served_ns ? PC_REPEAT_NS : PC_RETRY_NS;
	int nr;

	if (!pc_lines_in_memory || !c->lines || c->collecting || local_clock() - c->told_ns < due_ns)
		return;
	for (nr = 0; nr < PARACORD_COUNTERS; nr++)
		if (c->event[nr])
			c->read |= BIT(nr);
	if (c->read)
		pc_counters_ring(c);
}

/* Starts the counters of this CPU. Called on the CPU itself. */
void pc_counters_online(const struct pc_region *region)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	struct paracord_slot *slot = pc_region_slot(region, pc_arch_slot_index());
	unsigned long flags;
	int nr;

	if (!slot || !(region->features & PARACORD_F_PMU))
		return;
	local_irq_save(flags);
	pc_doorbell = region->doorbell;
	pc_lines_in_memory = region->in_memory;
	memset(c, 0, sizeof(*c));
	memset(&slot->pmu, 0, sizeof(slot->pmu));
	c->host = &slot->pmu_host;
	/*
	 * An earlier user of the lines may have used any batch numbers. Continue from the number that the host served last, so
	 * that the next number is new to the host.
	 */
	c->asked = READ_ONCE(c->host->served);
	c->lines = &slot->pmu;
	/* The first batch requests no event. It makes the current counts the starting point. */
	c->changed = c->strays = GENMASK(PARACORD_COUNTERS - 1, 0);
	if (pc_lines_in_memory) {
		/*
		 * The host may not know this CPU yet, so no batch is sent now. The batch numbers start at the current clock value,
		 * because any host treats a number that was not used lately as new.
		 */
		c->asked = lower_32_bits(local_clock());
		local_irq_restore(flags);
		return;
	}
	c->patient = true;
	pc_counters_ring(c);
	for (nr = 0; nr < PARACORD_COUNTERS; nr++)
		c->overflows[nr] = READ_ONCE(c->host->counter[nr].overflows);
	local_irq_restore(flags);
	pc_overflow_online(region, pc_arch_slot_index());
}

/* Stops the counters of this CPU, including counters whose events perf has not yet removed. Called on the CPU itself. */
void pc_counters_offline(void)
{
	struct pc_counters *c = this_cpu_ptr(&pc_counters);
	unsigned long flags;
	int nr;

	pc_overflow_offline();
	local_irq_save(flags);
	if (c->lines) {
		for (nr = 0; nr < PARACORD_COUNTERS; nr++)
			if (c->event[nr])
				pc_counter_stop(c, nr);
		pc_counters_ring(c);
		/* The host writes no answer to batch 0. */
		WRITE_ONCE(c->lines->asked, 0);
		c->lines = NULL;
	}
	local_irq_restore(flags);
}

/* Prints one line per CPU that has counters. Return: bytes written. */
int pc_counters_list(char *buf)
{
	int nr, n = 0;

	for_each_online_cpu(nr) {
		const struct pc_counters *c = per_cpu_ptr(&pc_counters, nr);

		if (READ_ONCE(c->lines))
			n += sysfs_emit_at(buf, n, "cpu%d batches %llu unserved %llu refused %#x ns %llu samples %llu\n", nr,
					   READ_ONCE(c->batches), READ_ONCE(c->batches_unserved),
					   READ_ONCE(c->refused), READ_ONCE(c->batch_ns), READ_ONCE(c->samples));
	}
	return n;
}

/*
 * Prints how many batches took 2^n to 2^(n+1) ns, summed over all online CPUs: one line for each n with at least one batch. Return:
 * bytes written.
 */
int pc_counters_latency(char *buf)
{
	int bucket, nr, n = 0;

	for (bucket = 0; bucket < PC_BATCH_BUCKETS; bucket++) {
		u64 sum = 0;

		for_each_online_cpu(nr)
			sum += READ_ONCE(per_cpu(pc_counters, nr).batch_buckets[bucket]);
		if (sum)
			n += sysfs_emit_at(buf, n, "%lu %llu\n", BIT(bucket), sum);
	}
	return n;
}
