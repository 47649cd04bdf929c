/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * paracord ABI: the memory that a host and one guest share so that their
 * schedulers can work together. This header is the only place where offsets,
 * units and magic numbers are written down; every other form is generated from
 * it (crates/abi) or includes it (guest module, BPF programs, policy).
 *
 * Layout of a region (all little-endian, naturally aligned):
 *
 *   offset 0                      struct paracord_header, host line
 *   offset 64                     struct paracord_header, guest line
 *   domain_offset_bytes           domain 0: struct paracord_domain
 *   domain_offset_bytes + n*stride  domain n, of domain_count
 *   event_offset_bytes + n*stride   event n that guests may count: struct paracord_event
 *   slot_offset_bytes             slot 0
 *   slot_offset_bytes + n*stride  slot n, n = architectural id of the vCPU
 *                                 (x86: APIC ID = KVM vcpu_id)
 *
 * Every cache line has ONE writer, named in its comment. The other side copies
 * a line (or a word of it) once and then checks the copy. No field depends on
 * another one to be valid, so torn reads are harmless and no lock exists.
 *
 * Versions: a different major is refused by both sides. A minor only appends.
 * A reader uses a field only if it ends inside the number of bytes that the
 * line's writer declared (guest_line_bytes, host_line_bytes, header_bytes);
 * PARACORD_FIELD_IN() is that test.
 */
#ifndef PARACORD_ABI_H
#define PARACORD_ABI_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/stddef.h>
#elif !defined(__VMLINUX_H__) && !defined(PARACORD_ABI_NO_TYPES)
#include <linux/types.h>
#include <stddef.h>
#endif

/* "PARACORD" as the bytes lie in memory. */
#define PARACORD_MAGIC			0x44524f4341524150ULL
#define PARACORD_ABI_MAJOR		1
#define PARACORD_ABI_MINOR		2

#define PARACORD_LINE_BYTES		64
#define PARACORD_HEADER_BYTES		128
#define PARACORD_SLOT_STRIDE_BYTES	1024
#define PARACORD_SLOT_OFFSET_BYTES	4096
/* Upper limit on slots that a reader accepts; KVM's own limit is 4096. */
#define PARACORD_SLOTS_MAX		4096
/* Upper limit on the stride that a reader accepts. */
#define PARACORD_SLOT_STRIDE_MAX_BYTES	65536

/* Performance domains lie between the header and the first slot (since 1.1). */
#define PARACORD_DOMAIN_OFFSET_BYTES	128
#define PARACORD_DOMAIN_STRIDE_BYTES	192
#define PARACORD_DOMAINS_MAX		16
#define PARACORD_LEVELS_MAX		64
/* Events that a guest may count lie behind them (since 1.2). */
#define PARACORD_EVENT_OFFSET_BYTES	3200
#define PARACORD_EVENT_STRIDE_BYTES	32
#define PARACORD_EVENTS_MAX		28
#define PARACORD_EVENT_NAME_BYTES	24
/* Counters of a vCPU. */
#define PARACORD_COUNTERS		16
/* The top of every scale: capacities, requests, levels, frequencies. */
#define PARACORD_SCALE			1024

/* PCI identity of the transport: QEMU's ivshmem-plain, region in BAR 2. */
#define PARACORD_IVSHMEM_VENDOR_ID	0x1af4
#define PARACORD_IVSHMEM_DEVICE_ID	0x1110
#define PARACORD_IVSHMEM_BAR		2
/* The register of BAR 0 that ivshmem calls Doorbell: 32 bits, whatever is written (since 1.2). */
#define PARACORD_DOORBELL_BAR		0
#define PARACORD_DOORBELL_OFFSET	12

/* Features. Host offers in host_features, guest accepts in guest_features. */
#define PARACORD_F_BOOST		(1u << 0) /* guest line steers vCPU boosting */
#define PARACORD_F_PREEMPT_COUNT	(1u << 1) /* preempt_count_gpa is followed */
#define PARACORD_F_KICK			(1u << 2) /* guest may kick on a stale boost */
#define PARACORD_F_PERF_REQUEST		(1u << 3) /* perf_* of the guest line */
#define PARACORD_F_CAPACITY		(1u << 4) /* capacity, frequency of the host line */
#define PARACORD_F_PMU			(1u << 5) /* PMU area (since 1.2) */
#define PARACORD_F_PMU_DOORBELL		(1u << 6) /* it is served at a write to the doorbell; else at a kick */

struct paracord_header {
	/* --- host line: written by the host before the guest starts --- */
	__u64 magic;			/* PARACORD_MAGIC */
	__u16 abi_major;
	__u16 abi_minor;
	__u32 header_bytes;		/* bytes of this structure that the host knows */
	__u64 region_bytes;		/* whole region */
	__u32 slot_offset_bytes;	/* first slot */
	__u32 slot_stride_bytes;	/* distance of slots, multiple of 64 */
	__u32 slot_count;
	__u32 host_features;		/* PARACORD_F_*, offered */
	__u32 host_line_bytes;		/* bytes of struct paracord_host_line in use */
	__u32 stale_boost_kick_us;	/* kick when a dropped boost is older; 0: default */
	__u32 domain_offset_bytes;	/* first domain (since 1.1) */
	__u16 domain_count;		/* 0: the host's frequencies are not for guests to ask for */
	__u16 domain_stride_bytes;	/* distance of domains, multiple of 64 */
	__u32 event_offset_bytes;	/* first event (since 1.2) */
	__u16 event_count;		/* 0: nothing is for guests to count */
	__u16 event_stride_bytes;	/* distance of events, multiple of 8 */
	/* --- guest line: written by the guest driver at probe and remove --- */
	__u32 guest_features;		/* PARACORD_F_*, accepted; 0: no driver */
	__u16 guest_abi_major;
	__u16 guest_abi_minor;
	__u32 guest_line_bytes;		/* bytes of struct paracord_guest_line in use */
	__u32 guest_reserved[13];
};

/* paracord_domain.flags */
#define PARACORD_DOMAIN_SHARED		(1u << 0) /* its CPUs have one frequency: one policy for its vCPUs */

/*
 * Host CPUs with the same capacity and frequencies (since 1.1). Written by the
 * host before the guest starts, constant from then on. A reader checks that
 * levels rise strictly: equal ones make a guest's cpufreq core divide by nothing.
 */
struct paracord_domain {
	__u32 max_khz;			/* highest frequency, for people to read; never 0 */
	__u16 capacity;			/* 1..1024 at max_khz, on the host's scale */
	__u16 level_count;		/* 1..64 */
	__u32 flags;			/* PARACORD_DOMAIN_* */
	__u8  host_reserved[52];
	__u16 levels[PARACORD_LEVELS_MAX]; /* frequency / max_khz, 1..1024, rising; the last is 1024 */
};

/* Scheduling class of the task on a vCPU: paracord_context.task_class. */
#define PARACORD_TASK_UNKNOWN		0 /* no driver on this vCPU (boot, hot-unplug) */
#define PARACORD_TASK_IDLE		1
#define PARACORD_TASK_NORMAL		2 /* SCHED_OTHER, BATCH, IDLE, EXT */
#define PARACORD_TASK_RT		3 /* SCHED_FIFO, SCHED_RR */
#define PARACORD_TASK_DEADLINE		4
#define PARACORD_TASK_STOP		5 /* stopper, migration */

/*
 * What runs on the vCPU. Each member is one byte that the vCPU itself stores
 * plainly; the host loads all eight at once through paracord_guest_line.context.
 */
struct paracord_context {
	__u8 task_class;		/* PARACORD_TASK_* */
	__u8 task_prio;			/* kernel effective prio 0..139, lower is more urgent */
	__u8 hardirq;			/* nonzero: in a hard interrupt handler; like the next two
					 * it may stay 0 where preempt_count tells it */
	__u8 softirq;			/* nonzero: in a softirq handler */
	__u8 nmi;			/* nonzero: in an NMI handler */
	__u8 critical;			/* nonzero: preemption off, when it is known without preempt_count */
	__u8 halting;			/* nonzero: idle, about to halt */
	__u8 reserved;
};

/* Written by this vCPU only. */
struct paracord_guest_line {
	union {
		struct paracord_context context;
		__u64 context_word;
	};
	/*
	 * Guest-physical address of this vCPU's kernel preempt_count word
	 * (0: not offered) and the bits of it that mean "do not preempt me".
	 * The host reads the word where it lies: the guest pays nothing.
	 *
	 *  preempt_count  | NMI 23..20 | hardirq 19..16 | softirq 15..8 | preempt 7..0 |
	 */
	__u64 preempt_count_gpa;
	__u32 preempt_count_mask;
	/*
	 * What the vCPU's governor asks for, and the most that it may ask for, on the
	 * host's capacity scale. Read as one word. Where vCPUs share a policy, each of
	 * their lines has the policy's values, stored under the policy's lock.
	 */
	__u16 perf_request;		/* 0..1024; 0: nothing */
	__u16 perf_limit;		/* 1..1024; 0: none */
	__u16 runqueue_util;		/* 0..1024, PELT utilisation of the guest's run queue */
	__u16 guest_reserved16;
	__u32 kicks;			/* kicks sent, wraps */
	__u8  guest_reserved[32];
};

/* paracord_host_line.boost_state */
#define PARACORD_BOOST_OFF		0
#define PARACORD_BOOST_ON		1
#define PARACORD_BOOST_THROTTLED	2

/* paracord_host_line.boost_reason: why it is on; bit n of a mask is reason n */
#define PARACORD_REASON_WAKE		0 /* the vCPU wakes from a halt */
#define PARACORD_REASON_IRQ		1 /* an interrupt is pending or injected */
#define PARACORD_REASON_RT		2 /* a guest task above SCHED_OTHER runs */
#define PARACORD_REASON_CRITICAL	3 /* preemption off, lock held */
#define PARACORD_REASONS		4

/* Written by the host only. */
struct paracord_host_line {
	__u8  boost_state;		/* PARACORD_BOOST_* */
	__u8  boost_reasons;		/* mask of 1 << PARACORD_REASON_* */
	__u8  host_flags;		/* 0 */
	__u8  host_reserved8;
	__u32 boosts;			/* boosts so far, wraps; changes with each new boost */
	__u32 throttles;		/* forced unboosts so far, wraps */
	__u16 capacity;			/* of the physical CPU, 0..1024; 0: unknown */
	__u16 frequency;		/* current/maximum, 0..1024; 0: unknown */
	__u32 physical_cpu;		/* ~0: unknown */
	__u32 cluster;			/* ~0: unknown */
	__u16 pressure;			/* capacity taken by others, 0..1024 */
	__u16 domain;			/* index + 1 of the vCPU's performance domain; 0: none (since 1.1) */
	__u32 host_reserved32;
	__u64 steal_ns;			/* runnable but not running */
	__u8  host_reserved[24];
};

/*
 * An event that a guest's vCPUs may count (since 1.2). Written by the host
 * before the guest starts, constant from then on.
 */
struct paracord_event {
	__u8  name[PARACORD_EVENT_NAME_BYTES]; /* letters, digits and '-', ended by 0: a file's name in the guest */
	__u64 min_period;		/* a period is at least so long; 0: it only counts, no overflow is told */
};

/* paracord_pmu_want.flags: where it counts */
#define PARACORD_WANT_USER		(1u << 0)
#define PARACORD_WANT_KERNEL		(1u << 1)

/* What one counter shall count from now on. Only a change does anything: of the same, the period goes on. */
struct paracord_pmu_want {
	__u64 period;			/* it overflows each so many; 0: it only counts */
	__u16 event;			/* index + 1; 0: it stands still */
	__u16 flags;			/* PARACORD_WANT_* */
	__u32 elapsed;			/* of the period, in 2^-32: the first overflow is earlier by so much */
};

/* Written by this vCPU only, read by the host when the vCPU has said so by an exit. */
struct paracord_pmu_guest {
	__u32 asked;			/* number of the last batch, never 0; another one is work for the host */
	__u32 read;			/* mask of counters whose count the guest wants to know */
	__u8  guest_reserved[56];
	struct paracord_pmu_want want[PARACORD_COUNTERS];
};

/* What a counter has counted since the VM started, over all that it was for. Only differences mean something. */
struct paracord_pmu_count {
	__u64 count;
	__u64 enabled_ns;		/* time that the vCPU's thread ran while the counter was on */
	__u64 running_ns;		/* of that, time that was counted; less where the host multiplexes */
	__u32 overflows;		/* wraps; another value than before is told by the MSI-X vector of the slot's number */
	__u32 host_reserved;
};

/* Written by the host only, before the guest goes on after its exit. Of a counter that changes: when it stopped. */
struct paracord_pmu_host {
	__u32 served;			/* paracord_pmu_guest.asked of what it has served last */
	__u32 refused;			/* mask of counters that shall count and do not: no such event, or no budget */
	__u8  host_reserved[56];
	struct paracord_pmu_count counter[PARACORD_COUNTERS];
};

/* One vCPU. */
struct paracord_slot {
	struct paracord_guest_line guest;	/* offset 0 */
	struct paracord_host_line host;		/* offset 64 */
	struct paracord_pmu_guest pmu;		/* offset 128 (since 1.2) */
	struct paracord_pmu_host pmu_host;	/* offset 448 (since 1.2) */
};

/* A field may be read if it ends inside the bytes that the writer declared. */
#define PARACORD_FIELD_IN(type, field, declared_bytes) \
	(offsetof(type, field) + sizeof(((type *)0)->field) <= (declared_bytes))

#if defined(__cplusplus)
#define PARACORD_ASSERT(cond, why) static_assert(cond, why)
#else
#define PARACORD_ASSERT(cond, why) _Static_assert(cond, why)
#endif
PARACORD_ASSERT(sizeof(struct paracord_header) == PARACORD_HEADER_BYTES, "header");
PARACORD_ASSERT(sizeof(struct paracord_context) == 8, "context is one load");
PARACORD_ASSERT(sizeof(struct paracord_guest_line) == PARACORD_LINE_BYTES, "guest line");
PARACORD_ASSERT(sizeof(struct paracord_host_line) == PARACORD_LINE_BYTES, "host line");
PARACORD_ASSERT(sizeof(struct paracord_domain) == PARACORD_DOMAIN_STRIDE_BYTES, "domain");
PARACORD_ASSERT(PARACORD_DOMAIN_OFFSET_BYTES + PARACORD_DOMAINS_MAX * PARACORD_DOMAIN_STRIDE_BYTES <=
		PARACORD_EVENT_OFFSET_BYTES, "domains");
PARACORD_ASSERT(sizeof(struct paracord_event) == PARACORD_EVENT_STRIDE_BYTES, "event");
PARACORD_ASSERT(PARACORD_EVENT_OFFSET_BYTES + PARACORD_EVENTS_MAX * PARACORD_EVENT_STRIDE_BYTES <=
		PARACORD_SLOT_OFFSET_BYTES, "events");
PARACORD_ASSERT(sizeof(struct paracord_pmu_guest) == 5 * PARACORD_LINE_BYTES, "PMU, guest's lines");
PARACORD_ASSERT(sizeof(struct paracord_pmu_host) == 9 * PARACORD_LINE_BYTES, "PMU, host's lines");
PARACORD_ASSERT(sizeof(struct paracord_slot) == PARACORD_SLOT_STRIDE_BYTES, "slot");

#endif /* PARACORD_ABI_H */
