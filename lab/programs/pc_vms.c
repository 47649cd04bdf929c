// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_vms: small virtual machines without a VMM. Each one is a process of its own with one vCPU, and its guest
 * announces a region in its own memory.
 *
 *   --vms N          number of virtual machines
 *   --seconds N      how long they run
 *   --exit_us N      pause between two VM exits of a vCPU; 0: none
 *   --announce_ms N  time between two announcements; 0: none
 *   --class_ms N     time after which the guest alternately shows a real-time task and a normal one; 0: never
 *   --asks N         the request of the guest (paracord_guest_line.perf_request)
 *   --count N        1: after each announcement, the guest asks for its counters, in two kicks
 *   --exec_ms N      time after which the vCPU's thread becomes pc_hog; 0: never
 *   --edge N         1: the guest line is the last line of the VM's memory, so the host line would lie behind this
 *                       memory, where the process has something else
 *   --take N         0: the memory of the region stays
 *                    1: after announcements, the VM loses this memory, and its process uses it for something else,
 *                       as a VMM may after it has unplugged or moved memory
 *                    2: after announcements, the process gives the pages back to the kernel, as for a balloon
 *
 * What the process puts there instead looks like a region: its host line is the one that the host has written last,
 * and its guest line asks for FOREIGN_ASKS. So the host does not notice from the content that it is wrong.
 *
 * Prints one line: "answered N counted N domains N taken N foreign_writes N made_present N". `answered`: announcements
 * that the host has answered in the host line. `counted`: requests for counters that the host has answered. `domains`: virtual machines that have the host's performance domains at the
 * end. `foreign_writes`: how often the host has written to the memory while it was taken, and virtual machines behind
 * whose memory the host has written.
 * `made_present`: how often a page that was given back was present again, although the process had not touched it.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "announce/describe.h"
#include "monotonic.h"
#include "options.h"
#include "vms_guest.h"

#define PAGE		4096u
#define REGION_BYTES	(2 * PAGE)
#define REGION_SLOT	1
#define FOREIGN_ASKS	777
#define FOREIGN_BYTE	0xa5
/* Longest time from the exit before an announcement until the memory is taken. */
#define ANSWER_MAX_US	1500
/* Longest time for which the memory stays taken. */
#define TAKEN_MAX_US	20000
#define ANNOUNCE	1
#define PAGE_IS_PRESENT	(1ull << 63)

struct totals {
	atomic_ulong answered, counted, domains, taken, foreign_writes, made_present;
};

struct machine {
	int vm, vcpu, pagemap;
	struct kvm_run *run;
	uint8_t *code;
	struct paracord_header *header;
	struct paracord_slot *slot;
	/* The page behind the region, which is not memory of the virtual machine. */
	uint8_t *behind;
	/* The announcement that the host has answered last. */
	uint32_t answered;
	/* Held by who accesses the region. */
	pthread_mutex_t region_lock;
	/* Posted before each announcement, so that the memory is taken about then. */
	sem_t announced;
};

static long vms = 1, seconds = 5, exit_us = 1000, announce_ms = 1000, class_ms, asks, count, take, edge, exec_ms;
static struct totals *totals;
static uint64_t end_ns;

static void *memory(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(at == MAP_FAILED ? -1 : 0, "mmap");
	return at;
}

static void set_slot(struct machine *m, uint32_t slot, uint64_t gpa, size_t bytes, void *at)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot, .guest_phys_addr = gpa, .memory_size = bytes, .userspace_addr = (uintptr_t)at,
	};

	need(ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region), "KVM_SET_USER_MEMORY_REGION");
}

static void make(struct machine *m)
{
	int kvm = need(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
	int bytes = need(ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");

	m->vm = need(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	m->vcpu = need(ioctl(m->vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	m->run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu, 0);
	need(m->run == MAP_FAILED ? -1 : 0, "mmap of the vCPU");
	m->pagemap = need(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), "/proc/self/pagemap");
	m->code = memory(CODE_BYTES);
	m->header = memory(REGION_BYTES + PAGE);
	m->behind = (uint8_t *)m->header + REGION_BYTES;
	memset(m->behind, FOREIGN_BYTE, PAGE);
	describe_region(m->header, 1, PARACORD_SLOT_STRIDE_BYTES);
	if (edge) {
		m->header->slot_offset_bytes = REGION_BYTES - PARACORD_LINE_BYTES;
		m->header->region_bytes += m->header->slot_offset_bytes - PARACORD_SLOT_OFFSET_BYTES;
	}
	m->slot = (void *)((uint8_t *)m->header + m->header->slot_offset_bytes);
	declare_driver(m->header, PARACORD_F_BOOST | PARACORD_F_PERF_REQUEST | (count ? PARACORD_F_PMU : 0));
	m->slot->guest.perf_request = (uint16_t)asks;
	set_slot(m, 0, CODE_GPA, CODE_BYTES, m->code);
	set_slot(m, REGION_SLOT, REGION_GPA, REGION_BYTES, m->header);
	load_guest(m->vm, m->vcpu, m->code, count);
	pthread_mutex_init(&m->region_lock, NULL);
	sem_init(&m->announced, 0, 0);
}

/* Makes a new request for counters, of no event, and counts an answer to the earlier one. */
static void ask_for_counters(struct machine *m)
{
	volatile uint32_t *asked = &m->slot->pmu.asked, *served = &m->slot->pmu_host.served;

	atomic_fetch_add(&totals->counted, *asked && *served == *asked);
	++*asked;
}

/* Gives the next announcement a new number, and counts an answer to an earlier one. */
static void renew(struct machine *m)
{
	uint32_t answered = *(volatile uint32_t *)&m->slot->host.announcement;

	atomic_fetch_add(&totals->answered, answered != m->answered);
	m->answered = answered;
	m->header->guest_announcements++;
	if (count)
		ask_for_counters(m);
}

static void show_other_task(struct machine *m)
{
	uint8_t *shown = &m->slot->guest.context.task_class;

	*(volatile uint8_t *)shown = *shown == PARACORD_TASK_RT ? PARACORD_TASK_NORMAL : PARACORD_TASK_RT;
}

/* Calls the function once in `ms`, unless the memory is taken. Return: whether it is time. */
static bool each(struct machine *m, long ms, uint64_t *next_ns, void (*what)(struct machine *))
{
	uint64_t now = monotonic_ns();

	if (!ms || now < *next_ns)
		return false;
	*next_ns = now + (uint64_t)ms * NS_PER_MS;
	if (!pthread_mutex_trylock(&m->region_lock)) {
		what(m);
		pthread_mutex_unlock(&m->region_lock);
	}
	return true;
}

/* The vCPU's thread. */
static void *run_vcpu(void *argument)
{
	struct machine *m = argument;
	/* The machines begin at different times. */
	uint64_t begin_ms = announce_ms ? (uint64_t)getpid() * 7919 % (uint64_t)announce_ms : 0;
	uint64_t announce_ns = monotonic_ns() + begin_ms * NS_PER_MS, class_ns = 0;
	uint64_t exec_ns = monotonic_ns() + (uint64_t)exec_ms * NS_PER_MS;
	struct timespec pause = { .tv_sec = exit_us / 1000000, .tv_nsec = exit_us % 1000000 * 1000 };

	prctl(PR_SET_NAME, "CPU 0/KVM");
	while (monotonic_ns() < end_ns) {
		bool due;

		if (ioctl(m->vcpu, KVM_RUN, 0)) {
			if (errno == EINTR)
				continue;
			need(-1, "KVM_RUN");
		}
		each(m, class_ms, &class_ns, show_other_task);
		/* If the memory is taken, the guest announces what it no longer has. */
		due = each(m, announce_ms, &announce_ns, renew);
		if (!answer_guest(m->run, due ? ANNOUNCE : 0)) {
			fprintf(stderr, "pc_vms: exit for the reason %u\n", m->run->exit_reason);
			exit(1);
		}
		if (due)
			sem_post(&m->announced);
		else if (exit_us)
			nanosleep(&pause, NULL);
		/* Here the thread has just been woken, and is boosted. */
		if (exec_ms && monotonic_ns() >= exec_ns)
			need(execlp("pc_hog", "pc_hog", "--seconds", "60", NULL), "pc_hog");
	}
	return NULL;
}

static void wait_us(unsigned int us)
{
	uint64_t until = monotonic_ns() + us * NS_PER_US;

	while (monotonic_ns() < until)
		;
}

static bool is_present(struct machine *m, void *at)
{
	uint64_t entry = 0;

	need((int)pread(m->pagemap, &entry, sizeof(entry), (off_t)((uintptr_t)at / PAGE * sizeof(entry))), "pagemap");
	return entry & PAGE_IS_PRESENT;
}

/* Uses the memory for something else for a while. */
static void reuse(struct machine *m, const struct paracord_header *before, unsigned int us)
{
	struct paracord_guest_line *line = &m->slot->guest;
	uint8_t foreign[REGION_BYTES];

	set_slot(m, REGION_SLOT, REGION_GPA, 0, NULL);
	/* The host would write a domain again that is not there any more. */
	memset(m->header + 1, FOREIGN_BYTE, PAGE - sizeof(*m->header));
	line->perf_request = FOREIGN_ASKS;
	memcpy(foreign, m->header, sizeof(foreign));
	wait_us(us);
	if (memcmp(foreign, m->header, sizeof(foreign)))
		atomic_fetch_add(&totals->foreign_writes, 1);
	memcpy(m->header, before, sizeof(foreign));
	set_slot(m, REGION_SLOT, REGION_GPA, REGION_BYTES, m->header);
}

/* Gives the pages back to the kernel for a while. */
static void give_back(struct machine *m, const struct paracord_header *before, unsigned int us)
{
	need(madvise(m->header, REGION_BYTES, MADV_DONTNEED), "MADV_DONTNEED");
	wait_us(us);
	if (is_present(m, m->header) || is_present(m, m->slot))
		atomic_fetch_add(&totals->made_present, 1);
	memcpy(m->header, before, REGION_BYTES);
}

/* Waits for an announcement. Return: whether the host has answered the previous one. */
static bool await_announcement(struct machine *m)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec++;
	while (!sem_trywait(&m->announced))
		;
	if (sem_timedwait(&m->announced, &limit))
		return false;
	return *(volatile uint32_t *)&m->slot->host.announcement + 1 == m->header->guest_announcements;
}

static void *take_memory(void *argument)
{
	struct machine *m = argument;
	unsigned int random = (unsigned int)getpid();
	struct paracord_header *before = memory(REGION_BYTES);

	while (monotonic_ns() < end_ns) {
		/* The host uses the memory: it is about to answer, or has just done so. */
		if (!await_announcement(m))
			continue;
		wait_us((unsigned int)rand_r(&random) % ANSWER_MAX_US);
		pthread_mutex_lock(&m->region_lock);
		memcpy(before, m->header, REGION_BYTES);
		(take == 1 ? reuse : give_back)(m, before, (unsigned int)rand_r(&random) % TAKEN_MAX_US);
		atomic_fetch_add(&totals->taken, 1);
		pthread_mutex_unlock(&m->region_lock);
	}
	return NULL;
}

static bool is_written_behind(const struct machine *m)
{
	for (size_t i = 0; i < PAGE; i++)
		if (m->behind[i] != FOREIGN_BYTE)
			return true;
	return false;
}

static void run_machine(void)
{
	static struct machine m;
	const struct paracord_domain *domain;
	pthread_t vcpu, taker;

	make(&m);
	domain = (void *)((uint8_t *)m.header + PARACORD_DOMAIN_OFFSET_BYTES);
	need(-pthread_create(&vcpu, NULL, run_vcpu, &m), "pthread_create");
	if (take) {
		need(-pthread_create(&taker, NULL, take_memory, &m), "pthread_create");
		pthread_join(taker, NULL);
	}
	pthread_join(vcpu, NULL);
	atomic_fetch_add(&totals->domains, domain->max_khz != 0);
	atomic_fetch_add(&totals->foreign_writes, is_written_behind(&m));
}

int main(int argc, char **argv)
{
	const struct number_option options[] = {
		{ "--vms", &vms, 1, 1000 },
		{ "--seconds", &seconds, 1, 86400 },
		{ "--exit_us", &exit_us, 0, 100000000 },
		{ "--announce_ms", &announce_ms, 0, 1000000 },
		{ "--class_ms", &class_ms, 0, 1000000 },
		{ "--asks", &asks, 0, PARACORD_SCALE },
		{ "--count", &count, 0, 1 },
		{ "--take", &take, 0, 2 },
		{ "--edge", &edge, 0, 1 },
		{ "--exec_ms", &exec_ms, 0, 1000000 },
	};
	int failed = 0, status;

	parse_numbers(argc, argv, 1, options, sizeof(options) / sizeof(options[0]));
	totals = mmap(NULL, sizeof(*totals), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	need(totals == MAP_FAILED ? -1 : 0, "mmap");
	end_ns = monotonic_ns() + (uint64_t)seconds * NS_PER_S;
	for (long i = 0; i < vms; i++) {
		pid_t child = need(fork(), "fork");

		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_machine();
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	printf("answered %lu counted %lu domains %lu taken %lu foreign_writes %lu made_present %lu\n", totals->answered,
	       totals->counted, totals->domains, totals->taken, totals->foreign_writes, totals->made_present);
	return failed ? 1 : 0;
}
