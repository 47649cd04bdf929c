// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_rogue MODE: what root in a guest can do with the shared region, to show
 * that the host contains it. Maps BAR 2 of the ivshmem device, or the region in
 * the guest's own memory of pc_region.ko, and, on every CPU of the guest at once,
 *   hold     sets every hint of every slot for ever and spins
 *   toggle   sets and clears the hints as fast as it can, with a VM exit each time
 *   garbage  writes random bytes over the whole region, header included
 *   perf     requests absurd performance, with contradictory sizes and features
 *   pmu      asks for other counters, and reads the rest, as fast as it can, with an exit to the VMM each time
 *            (a VMM that serves counters at the doorbell)
 *   exits    the same exits, and nothing else: what any guest may do
 *
 * Output, one JSON line: "loops" of work done, "exits" forced, "bytes" written.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "monotonic.h"
#include "options.h"
#include "paracord_abi.h"
#include "pci_device.h"
#include "work.h"

#define PCI_DEVICES "/sys/bus/pci/devices"

struct region {
	volatile uint8_t *base;
	uint64_t bytes;
	uint64_t gpa;		/* of base */
	volatile uint32_t *doorbell;
};

enum mode { HOLD, TOGGLE, GARBAGE, PERF, PMU, EXITS, MODES };
static const char *const mode_names[MODES] = { "hold", "toggle", "garbage", "perf", "pmu", "exits" };

static struct region region;
static enum mode mode;
static atomic_int stop;
static atomic_ullong total_loops, total_exits, total_bytes;

static unsigned long read_hex(const char *device, const char *file)
{
	char path[512];
	unsigned long value = 0;
	FILE *f;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/%s", device, file);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%lx", &value) != 1)
			value = 0;
		fclose(f);
	}
	return value;
}

/* Line n of the device's "resource" file: start, end, flags of BAR n. */
static uint64_t bar_gpa(const char *device)
{
	unsigned long long start = 0;
	char path[512], line[128];
	FILE *f;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource", device);
	f = fopen(path, "r");
	if (!f)
		return 0;
	for (int i = 0; i <= PARACORD_IVSHMEM_BAR && fgets(line, sizeof(line), f); i++)
		if (i == PARACORD_IVSHMEM_BAR && sscanf(line, "%llx", &start) != 1)
			start = 0;
	fclose(f);
	return start;
}

/* NULL: it cannot be mapped. */
static volatile void *map_bar(const char *device, int bar, uint64_t *bytes)
{
	char path[512];
	struct stat st;
	void *base;
	int fd;

	snprintf(path, sizeof(path), PCI_DEVICES "/%s/resource%d", device, bar);
	fd = open(path, O_RDWR);
	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		return NULL;
	}
	*bytes = (uint64_t)st.st_size;
	base = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		perror(path);
		return NULL;
	}
	return base;
}

static unsigned long long read_parameter(const char *name)
{
	unsigned long long value = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/pc_region/parameters/%s", name);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%llu", &value) != 1)
			value = 0;
		fclose(f);
	}
	return value;
}

/* The region of pc_region.ko, which has no doorbell. False: the module is not loaded. */
static bool map_own_memory(void)
{
	int fd = open("/dev/pc_region", O_RDWR);
	void *base;

	if (fd < 0)
		return false;
	region.bytes = read_parameter("bytes");
	region.gpa = read_parameter("gpa");
	base = mmap(NULL, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		perror("/dev/pc_region");
		return false;
	}
	region.base = base;
	return true;
}

static int map_region(void)
{
	DIR *devices = opendir(PCI_DEVICES);
	struct dirent *entry;

	if (map_own_memory())
		return 0;
	while (devices && (entry = readdir(devices))) {
		volatile uint8_t *registers;
		uint64_t register_bytes;
		char memory[512];

		if (read_hex(entry->d_name, "vendor") != PARACORD_IVSHMEM_VENDOR_ID ||
		    read_hex(entry->d_name, "device") != PARACORD_IVSHMEM_DEVICE_ID)
			continue;
		snprintf(memory, sizeof(memory), PCI_DEVICES "/%s/resource%d", entry->d_name, PARACORD_IVSHMEM_BAR);
		enable_device(memory);
		region.base = map_bar(entry->d_name, PARACORD_IVSHMEM_BAR, &region.bytes);
		registers = map_bar(entry->d_name, PARACORD_DOORBELL_BAR, &register_bytes);
		if (!region.base || !registers)
			return -1;
		region.doorbell = (volatile uint32_t *)(registers + PARACORD_DOORBELL_OFFSET);
		region.gpa = bar_gpa(entry->d_name);
		return 0;
	}
	fprintf(stderr, "no PCI device %04x:%04x: start the guest with a region\n",
		PARACORD_IVSHMEM_VENDOR_ID, PARACORD_IVSHMEM_DEVICE_ID);
	return -1;
}

static volatile struct paracord_slot *slot(uint64_t n)
{
	uint64_t at = PARACORD_SLOT_OFFSET_BYTES + n * PARACORD_SLOT_STRIDE_BYTES;

	if (at + PARACORD_SLOT_STRIDE_BYTES > region.bytes)
		return NULL;
	return (volatile struct paracord_slot *)(region.base + at);
}

/* As the driver does, but with more than it was offered. */
static void declare(void)
{
	volatile struct paracord_header *h = (volatile struct paracord_header *)region.base;

	h->guest_abi_major = PARACORD_ABI_MAJOR;
	h->guest_abi_minor = PARACORD_ABI_MINOR;
	h->guest_line_bytes = mode == PERF ? ~0u : sizeof(struct paracord_guest_line);
	h->guest_features = mode == PERF ? ~0u : PARACORD_F_BOOST | PARACORD_F_PREEMPT_COUNT | PARACORD_F_KICK;
}

static const struct paracord_context every_hint = {
	.task_class = PARACORD_TASK_RT, .task_prio = 0, .hardirq = 1, .softirq = 1,
	.nmi = 1, .critical = 1, .halting = 0, .reserved = 0xff,
};

static void set_hints(uint64_t n)
{
	volatile struct paracord_slot *s = slot(n);

	/* A word of ones in the slot itself stands for a preempt_count that is never 0. */
	memset((void *)s->pmu.guest_reserved, 0xff, sizeof(uint64_t));
	s->guest.preempt_count_mask = ~0u;
	s->guest.preempt_count_gpa = region.gpa + (uint64_t)((volatile uint8_t *)s->pmu.guest_reserved - region.base);
	s->guest.context = every_hint;
}

/* CPUID always exits to KVM, and to nobody behind it: the fastest exit that user mode has. */
static void force_exit(void)
{
#if defined(__x86_64__)
	unsigned int a, b, c, d;

	__cpuid(0, a, b, c, d);
	(void)(a + b + c + d);
#endif
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/*
 * Half of the counters change to any event in any modes, with a period that is never over: most configurations are not
 * open at the host, which keeps fewer. The others are read.
 */
static void ask_for_counters(volatile struct paracord_slot *s, uint32_t asked, uint64_t *random)
{
	uint16_t events = ((volatile struct paracord_header *)region.base)->event_count;

	for (int i = 0; i < PARACORD_COUNTERS; i++) {
		uint64_t value = next_random(random);

		if (value & 1)
			continue;
		s->pmu.want[i].period = value & 2 ? 1ull << 62 : 0;
		s->pmu.want[i].event = (uint16_t)(1 + (value >> 8) % (events + 1u));
		s->pmu.want[i].flags = (uint16_t)(value >> 2 & (PARACORD_WANT_USER | PARACORD_WANT_KERNEL));
	}
	s->pmu.read = ~0u;
	s->pmu.asked = asked;
	*region.doorbell = 1;
}

static void *attack(void *argument)
{
	uint64_t n = (uint64_t)(uintptr_t)argument, random = 0x9e3779b97f4a7c15ull + n;
	uint64_t loops = 0, exits = 0, bytes = 0;
	volatile struct paracord_slot *s = slot(n);

	pin_to_cpu((long)n);
	for (; !stop; loops++) {
		switch (mode) {
		case HOLD:
			for (uint64_t i = 0; slot(i); i++)
				set_hints(i);
			work(100000);
			break;
		case TOGGLE:
			s->guest.context = loops & 1 ? every_hint : (struct paracord_context){};
			force_exit();
			exits++;
			break;
		case GARBAGE:
			for (int i = 0; i < 4096; i++) {
				uint64_t value = next_random(&random);
				uint64_t at = next_random(&random) % (region.bytes / 8);

				/* Half of the stores hit the header and the first slots. */
				if (value & 1)
					at %= (PARACORD_SLOT_OFFSET_BYTES + 8 * PARACORD_SLOT_STRIDE_BYTES) / 8;
				((volatile uint64_t *)region.base)[at] = value;
			}
			bytes += 4096 * 8;
			break;
		case PMU:
			ask_for_counters(s, (uint32_t)loops + 1, &random);
			exits++;
			break;
		case EXITS:
			*region.doorbell = 1;
			exits++;
			break;
		default:
			s->guest.perf_request = 0xffff;
			s->guest.perf_limit = (uint16_t)next_random(&random);
			s->guest.runqueue_util = 0xffff;
			break;
		}
	}
	total_loops += loops;
	total_exits += exits;
	total_bytes += bytes;
	return NULL;
}

int main(int argc, char **argv)
{
	long seconds = 10, cpus = sysconf(_SC_NPROCESSORS_ONLN);
	const struct number_option options[] = {
		{ "--seconds", &seconds, 1, 3600 },
		{ "--cpus", &cpus, 1, 64 },
	};
	pthread_t threads[64];
	uint64_t start_ns;

	while (argc > 1 && mode < MODES && strcmp(argv[1], mode_names[mode]))
		mode++;
	if (argc < 2 || mode == MODES) {
		fprintf(stderr, "usage: pc_rogue hold|toggle|garbage|perf|pmu|exits [--seconds N] [--cpus N]\n");
		return 2;
	}
	parse_numbers(argc, argv, 2, options, sizeof(options) / sizeof(options[0]));
	if (map_region())
		return 1;
	if (!slot((uint64_t)cpus - 1)) {
		fprintf(stderr, "region of %llu bytes has no slot %ld\n",
			(unsigned long long)region.bytes, cpus - 1);
		return 1;
	}
	declare();
	start_ns = monotonic_ns();
	for (long n = 0; n < cpus; n++)
		if (pthread_create(&threads[n], NULL, attack, (void *)(uintptr_t)n)) {
			perror("pc_rogue");
			return 1;
		}
	sleep_until_ns(start_ns + (uint64_t)seconds * NS_PER_S);
	stop = 1;
	for (long n = 0; n < cpus; n++)
		pthread_join(threads[n], NULL);
	printf("{\"program\": \"pc_rogue\", \"mode\": \"%s\", \"cpus\": %ld, \"elapsed_ns\": %llu, \"loops\": %llu, \"exits\": %llu, \"bytes\": %llu}\n",
	       mode_names[mode], cpus, (unsigned long long)(monotonic_ns() - start_ns),
	       total_loops, total_exits, total_bytes);
	return 0;
}
