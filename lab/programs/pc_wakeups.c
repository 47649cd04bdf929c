// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_wakeups: how long woken threads wait for a CPU, as schbench measures it. Each messenger
 * wakes its workers; a worker notes how late it is, sleeps (the network, in schbench), computes, and
 * waits for the messenger again. With more workers than CPUs, wakeups compete.
 *
 * Output, one JSON line: wakeups, requests per second, and percentiles of the wait in us.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "monotonic.h"
#include "options.h"
#include "work.h"

#define WORKERS_MAX	256
#define MESSENGERS_MAX	64
#define SAMPLES_MAX	(1 << 16)	/* per worker; later ones are not kept */

struct messenger;

struct worker {
	pthread_t thread;
	struct messenger *messenger;
	sem_t go;
	atomic_int waiting;
	uint64_t woken_ns;
	uint32_t count;
	uint32_t waits_ns[SAMPLES_MAX];
};

struct messenger {
	pthread_t thread;
	sem_t ready;
	struct worker *workers[WORKERS_MAX];
	long count;
};

static atomic_int stop;
static long loops = 20000, sleep_us = 100;

static void *serve(void *argument)
{
	struct worker *w = argument;

	for (;;) {
		uint64_t wait_ns;

		atomic_store(&w->waiting, 1);
		sem_post(&w->messenger->ready);
		while (sem_wait(&w->go))
			;
		wait_ns = monotonic_ns() - w->woken_ns;
		if (atomic_load(&stop))
			return NULL;
		if (w->count < SAMPLES_MAX)
			w->waits_ns[w->count++] = wait_ns < UINT32_MAX ? (uint32_t)wait_ns : UINT32_MAX;
		if (sleep_us)
			sleep_until_ns(monotonic_ns() + (uint64_t)sleep_us * NS_PER_US);
		work((uint64_t)loops);
	}
}

static void *wake(void *argument)
{
	struct messenger *m = argument;

	while (!atomic_load(&stop)) {
		while (sem_wait(&m->ready))
			;
		for (long i = 0; i < m->count; i++) {
			struct worker *w = m->workers[i];

			if (!atomic_exchange(&w->waiting, 0))
				continue;
			w->woken_ns = monotonic_ns();
			sem_post(&w->go);
		}
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static void report(struct worker *workers, long count, double elapsed_s)
{
	uint32_t *all;
	size_t n = 0;

	for (long i = 0; i < count; i++)
		n += workers[i].count;
	all = malloc((n + 1) * sizeof(*all));
	if (!all || !n) {
		fprintf(stderr, "pc_wakeups: nothing measured\n");
		exit(1);
	}
	n = 0;
	for (long i = 0; i < count; i++)
		for (uint32_t k = 0; k < workers[i].count; k++)
			all[n++] = workers[i].waits_ns[k];
	qsort(all, n, sizeof(*all), ascending);
	printf("{\"program\": \"pc_wakeups\", \"wakeups\": %zu, \"requests_per_s\": %.1f, "
	       "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
	       n, (double)n / elapsed_s, all[n / 2] / 1e3, all[n * 99 / 100] / 1e3, all[n - 1] / 1e3);
}

int main(int argc, char **argv)
{
	static struct messenger messengers[MESSENGERS_MAX];
	long seconds = 5, messenger_count = 2, worker_count = 4;
	const struct number_option options[] = {
		{ "--seconds", &seconds, 1, 3600 },
		{ "--messengers", &messenger_count, 1, MESSENGERS_MAX },
		{ "--workers", &worker_count, 1, WORKERS_MAX },	/* of each messenger */
		{ "--loops", &loops, 0, 1000000000 },		/* of work per request */
		{ "--sleep-us", &sleep_us, 0, 1000000 },		/* before it */
	};
	struct worker *workers;
	uint64_t start_ns;
	long total;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	total = messenger_count * worker_count;
	workers = calloc((size_t)total, sizeof(*workers));
	if (!workers) {
		perror("pc_wakeups");
		return 1;
	}
	start_ns = monotonic_ns();
	for (long i = 0; i < messenger_count; i++)
		sem_init(&messengers[i].ready, 0, 0);
	for (long i = 0; i < total; i++) {
		struct messenger *m = &messengers[i % messenger_count];

		sem_init(&workers[i].go, 0, 0);
		workers[i].messenger = m;
		m->workers[m->count++] = &workers[i];
	}
	for (long i = 0; i < total; i++)
		if (pthread_create(&workers[i].thread, NULL, serve, &workers[i]))
			perror("pc_wakeups"), exit(1);
	for (long i = 0; i < messenger_count; i++)
		if (pthread_create(&messengers[i].thread, NULL, wake, &messengers[i]))
			perror("pc_wakeups"), exit(1);
	sleep_until_ns(start_ns + (uint64_t)seconds * NS_PER_S);
	atomic_store(&stop, 1);
	for (long i = 0; i < messenger_count; i++) {
		sem_post(&messengers[i].ready);
		pthread_join(messengers[i].thread, NULL);
	}
	for (long i = 0; i < total; i++) {
		sem_post(&workers[i].go);
		pthread_join(workers[i].thread, NULL);
	}
	report(workers, total, (double)(monotonic_ns() - start_ns) / NS_PER_S);
	return 0;
}
