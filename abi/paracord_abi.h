/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/*
 * paracord ABI: the memory that a host and one guest share so that their
 * schedulers can work together. This header is the only place that defines
 * offsets, units and magic numbers. The guest module, the BPF programs and the
 * policy include this header; the Rust mirror in crates/abi is generated from it.
 *
 * Layout of a region (all fields are little-endian and naturally aligned):
 *
 *   offset 0                      struct paracord_header, host line
 *   offset 64                     struct paracord_header, guest line
 *   domain_offset_bytes           domain 0: struct paracord_domain
 *   domain_offset_bytes + n*stride  domain n, of domain_count
 *   event_offset_bytes + n*stride   event n that guests may count: struct paracord_event
 *   slot_offset_bytes             slot 0: struct paracord_slot
 *   slot_offset_bytes + n*stride  slot n, n = architectural id of the vCPU
 *                                 (x86: APIC ID = KVM vcpu_id)
 *
 * Each cache line is written by ONE side only. The comment on the line's structure
 * names this side. The other side copies a line (or a word of the line) once and then
 * checks the copy. There is no lock. A torn read of a host line or a guest line
 * is harmless, because each field is valid independently of the other fields.
 *
 * Some words must be accessed in a fixed order:
 *   - guest_features of the header: the guest stores it last at probe and first
 *     at remove;
 *   - paracord_pmu_guest.asked: the guest stores it after the rest of a batch;
 *   - paracord_pmu_host.served: the host stores it after the rest of an answer;
 *   - paracord_domain.max_khz of a domain in the guest's own memory: the host stores
 *     0 before it changes the domain, and the new value afterwards;
 *   - paracord_host_line.domain refers to the table whose ID is in domain_table: the
 *     guest reads domain_table before and after it reads domain.
 *
 * A region lies in the BAR of an ivshmem device or, since 1.3, in the guest's own
 * memory. If the region lies in the guest's own memory, the guest writes the whole
 * header, and announces the guest-physical address of the region's first byte to
 * the host.
 *
 * Versions: each side refuses a region with a different major version. A new
 * minor version only appends fields. A reader uses a field only if the field
 * ends within the number of bytes that the line's writer declared
 * (guest_line_bytes, host_line_bytes, header_bytes); PARACORD_FIELD_IN() tests
 * this condition.
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

/* In memory, the eight bytes spell "PARACORD". */
#define PARACORD_MAGIC			0x44524f4341524150ULL
#define PARACORD_ABI_MAJOR		1
#define PARACORD_ABI_MINOR		6

#define PARACORD_LINE_BYTES		64
#define PARACORD_HEADER_BYTES		128
#define PARACORD_SLOT_STRIDE_BYTES	1024
#define PARACORD_SLOT_OFFSET_BYTES	4096
/* Largest number of slots that a reader accepts; KVM's own limit is 4096 vCPUs. */
#define PARACORD_SLOTS_MAX		4096
/* Largest slot stride that a reader accepts. */
#define PARACORD_SLOT_STRIDE_MAX_BYTES	65536

/* The performance domains lie between the header and the first slot (since 1.1). */
#define PARACORD_DOMAIN_OFFSET_BYTES	128
#define PARACORD_DOMAIN_STRIDE_BYTES	192
#define PARACORD_DOMAINS_MAX		16
#define PARACORD_LEVELS_MAX		64
/* The events that a guest may count follow the domains (since 1.2). */
#define PARACORD_EVENT_OFFSET_BYTES	3200
#define PARACORD_EVENT_STRIDE_BYTES	32
#define PARACORD_EVENTS_MAX		28
#define PARACORD_EVENT_NAME_BYTES	24
/*
 * The events that a guest may count if its region lies in its own memory (since 1.6), separated by spaces. The number of an event
 * is its position in this list, so an event has the same number on all hosts. New events are appended.
 */
#define PARACORD_EVENT_LIST \
	"cycles instructions cache-references cache-misses branches branch-misses bus-cycles " \
	"stalled-cycles-frontend stalled-cycles-backend ref-cycles L1-dcache-loads L1-dcache-load-misses " \
	"L1-icache-load-misses LLC-loads LLC-load-misses dTLB-loads dTLB-load-misses iTLB-load-misses " \
	"cpu-clock task-clock page-faults context-switches cpu-migrations major-faults"
/* Number of counters per vCPU. */
#define PARACORD_COUNTERS		16
/* Full scale of capacities, requests, levels and frequencies. */
#define PARACORD_SCALE			1024

/* PCI identity of the transport, which is QEMU's ivshmem-plain or ivshmem-doorbell. The region is in BAR 2. */
#define PARACORD_IVSHMEM_VENDOR_ID	0x1af4
#define PARACORD_IVSHMEM_DEVICE_ID	0x1110
#define PARACORD_IVSHMEM_BAR		2
/* ivshmem's Doorbell register in BAR 0, 32 bits wide (since 1.2). The value that the guest writes does not matter. */
#define PARACORD_DOORBELL_BAR		0
#define PARACORD_DOORBELL_OFFSET	12

/*
 * Announcement of a region in the guest's own memory (since 1.3). Only the guest's
 * kernel can announce a region, because user space cannot execute the instruction:
 *
 *   x86    WRMSR to an MSR that nothing implements. The CPU checks the privilege
 *          level before the VM exit. KVM refuses the write, so WRMSR raises #GP in
 *          the guest.
 *   arm64  HVC, which is undefined in user space, with a function number that
 *          nothing implements. KVM answers "not supported".
 *
 * The host observes these instructions at KVM's tracepoints. The announced value is
 * the address of the region; its lower PARACORD_ANNOUNCE_SHIFT bits are 0, whatever
 * the page sizes of guest and host. The value 0 withdraws the region. On arm64, the
 * lower 32 bits of x0 contain the function number, and the upper 32 bits contain the
 * address, shifted right by PARACORD_ANNOUNCE_SHIFT. The host ignores announcements of
 * arm64 guests that can run guests of their own.
 *
 * The guest repeats the announcement every PARACORD_ANNOUNCE_MS while any of its CPUs
 * is awake, because after a migration or a restart of the daemon, the host does not
 * know of earlier announcements.
 */
#define PARACORD_ANNOUNCE_MSR		0x50434b01
#define PARACORD_ANNOUNCE_HVC		0xc600504bu
#define PARACORD_ANNOUNCE_SHIFT		12
#define PARACORD_ANNOUNCE_MS		1000
/*
 * The kick: a hypercall whose only purpose is to cause a VM exit. x86: a hypercall number that KVM does not know. arm64: the
 * function number of a call that only lists KVM's services (ARM_SMCCC_VENDOR_HYP_KVM_FEATURES_FUNC_ID). Since 1.6, the host also
 * watches for this number, so that it can serve counters of a region in the guest's own memory.
 */
#define PARACORD_KICK_HYPERCALL		0x50434b	/* "PCK" */
#define PARACORD_KICK_HVC		0x86000000u
/*
 * Features of a region in the guest's own memory. All of these features except
 * PARACORD_F_BOOST and PARACORD_F_PREEMPT_COUNT need host lines.
 *
 * Since 1.4, the host writes host lines into the region if the header declares the
 * whole line (host_line_bytes), if slot_offset_bytes and slot_stride_bytes are multiples
 * of 128, and if the host's kernel and configuration permit it.
 * The host writes the line of a vCPU at VM exits of this vCPU, so the line shows the
 * state at the last exit. The host stops writing a line if the guest no longer announces
 * the region, or if the host finds that somebody else has written to the line.
 *
 * From paracord_host_line.announcement, the guest learns whether any host writes the
 * line.
 *
 * Since 1.5, the host also writes performance domains into the region if the header
 * declares PARACORD_DOMAINS_MAX domains at PARACORD_DOMAIN_OFFSET_BYTES. The host writes
 * the domains at the exits that follow an announcement. From paracord_domain.table, the
 * guest learns to which table a domain belongs.
 *
 * Since 1.6, a host also serves the PMU area if the slots contain it. A batch then needs
 * at least two kicks: the host copies the requests at the first kick, and writes the
 * answer at a later kick. The guest repeats the kick until it finds the answer. The host
 * does not report overflows, so events can be counted but not sampled.
 */
#define PARACORD_ANNOUNCED_FEATURES	63u	/* PARACORD_F_BOOST to PARACORD_F_PMU */

/* Feature bits. The host offers features in host_features. The guest accepts them in guest_features. */
#define PARACORD_F_BOOST		(1u << 0) /* the guest line influences boosts of the vCPU */
#define PARACORD_F_PREEMPT_COUNT	(1u << 1) /* the host reads preempt_count at preempt_count_gpa */
#define PARACORD_F_KICK			(1u << 2) /* the guest may cause a VM exit (a kick) when a boost has outlived its reason */
#define PARACORD_F_PERF_REQUEST		(1u << 3) /* the guest line has perf_request and perf_limit */
#define PARACORD_F_CAPACITY		(1u << 4) /* the host line has capacity and frequency */
#define PARACORD_F_PMU			(1u << 5) /* the slots have a PMU area (since 1.2) */
#define PARACORD_F_PMU_DOORBELL		(1u << 6) /* set: the host serves the PMU area at doorbell writes; clear: at kicks */

struct paracord_header {
	/* --- host line: written by the host before the guest starts, or by the guest if the region lies in its own memory --- */
	__u64 magic;			/* PARACORD_MAGIC */
	__u16 abi_major;
	__u16 abi_minor;
	__u32 header_bytes;		/* bytes of this structure that the host knows */
	__u64 region_bytes;		/* size of the whole region */
	__u32 slot_offset_bytes;	/* offset of slot 0 */
	__u32 slot_stride_bytes;	/* distance between slots, a multiple of 64 */
	__u32 slot_count;
	__u32 host_features;		/* PARACORD_F_*, offered */
	__u32 host_line_bytes;		/* bytes of struct paracord_host_line in use */
	__u32 stale_boost_kick_us;	/* kick if a boost is older than this and its reason has ended; 0: the guest's default */
	__u32 domain_offset_bytes;	/* offset of domain 0 (since 1.1) */
	__u16 domain_count;		/* 0: guests cannot request host frequencies */
	__u16 domain_stride_bytes;	/* distance between domains, a multiple of 64 */
	__u32 event_offset_bytes;	/* offset of event 0 (since 1.2) */
	__u16 event_count;		/* 0: guests cannot count any event */
	__u16 event_stride_bytes;	/* distance between events, a multiple of 8 */
	/* --- guest line: written by the guest's driver at probe, at remove, and at each announcement --- */
	__u32 guest_features;		/* PARACORD_F_*, accepted; 0: the guest has no driver */
	__u16 guest_abi_major;
	__u16 guest_abi_minor;
	__u32 guest_line_bytes;		/* bytes of struct paracord_guest_line in use */
	__u32 guest_announcements;	/* changes with each announcement of a region in the guest's own memory (since 1.3) */
	__u32 guest_reserved[12];
};

/* paracord_domain.flags */
#define PARACORD_DOMAIN_SHARED		(1u << 0) /* the domain's CPUs share a frequency, so its vCPUs share a cpufreq policy */

/*
 * A performance domain: host CPUs with the same capacity and the same
 * frequencies (since 1.1). A reader checks that the levels rise strictly, because
 * two equal frequencies would make the guest's cpufreq core divide by zero.
 *
 * A host's domains form a table. Tables with different domains have different IDs (`table`). In the region of a device, the host
 * writes this structure before the guest starts and does not change it afterwards. In the guest's own memory (since 1.5), a host
 * may replace the structure, for example after a migration. The host then stores 0 into max_khz first, and the new value of max_khz
 * last.
 */
struct paracord_domain {
	__u32 max_khz;			/* highest frequency, for display; never 0 */
	__u16 capacity;			/* capacity at max_khz, 1..1024, on the host's capacity scale */
	__u16 level_count;		/* number of levels, 1..64 */
	__u32 flags;			/* PARACORD_DOMAIN_* */
	__u32 table;			/* ID of the table to which the domain belongs (since 1.5) */
	__u8  host_reserved[48];
	__u16 levels[PARACORD_LEVELS_MAX]; /* frequency / max_khz, 1..1024, strictly rising; the last level is 1024 */
};

/* Scheduling class of the task on a vCPU: paracord_context.task_class. */
#define PARACORD_TASK_UNKNOWN		0 /* no driver runs on this vCPU (boot, hot-unplug) */
#define PARACORD_TASK_IDLE		1
#define PARACORD_TASK_NORMAL		2 /* SCHED_OTHER, BATCH, IDLE, EXT */
#define PARACORD_TASK_RT		3 /* SCHED_FIFO, SCHED_RR */
#define PARACORD_TASK_DEADLINE		4
#define PARACORD_TASK_STOP		5 /* stopper, migration */

/*
 * What runs on the vCPU. Each member is one byte. Only the vCPU itself writes the
 * members. It uses a plain store, either to one member or, through
 * paracord_guest_line.context_word, to all members. The host copies all eight bytes
 * in one step.
 */
struct paracord_context {
	__u8 task_class;		/* PARACORD_TASK_* */
	/*
	 * Effective priority in the kernel (task->prio), 0..139; a lower value is more urgent. The host treats
	 * PARACORD_TASK_NORMAL with 100 (nice -20) almost like an interrupt handler.
	 */
	__u8 task_prio;
	/* hardirq, softirq and nmi may stay 0 if the host can read the same information from preempt_count. */
	__u8 hardirq;			/* nonzero: in a hard interrupt handler */
	__u8 softirq;			/* nonzero: in a softirq handler */
	__u8 nmi;			/* nonzero: in an NMI handler */
	__u8 critical;			/* nonzero: preemption is off; set only if the guest knows this without preempt_count */
	__u8 halting;			/* nonzero: idle, about to halt */
	__u8 reserved;
};

/* Only the vCPU to which the line belongs writes the line, except for perf_request and perf_limit. */
struct paracord_guest_line {
	union {
		struct paracord_context context;
		__u64 context_word;
	};
	/*
	 * preempt_count_gpa: guest-physical address of this vCPU's preempt_count
	 * word in the guest kernel; 0: not offered. preempt_count_mask: the bits
	 * of this word that mean "do not preempt". The host reads the word in
	 * place, so a change of preempt_count costs the guest nothing.
	 *
	 *  to 7.2      | NMI 23..20 | hardirq 19..16 | softirq 15..8 | preempt 7..0 |
	 *  since 7.3   | NMI 28..   | hardirq 27..24 | softirq 15..8 | preempt 7..0 |
	 *
	 * The mask must not have other bits: the host takes each bit above 15 for
	 * an interrupt.
	 */
	__u64 preempt_count_gpa;
	__u32 preempt_count_mask;
	/*
	 * The request of the guest's cpufreq governor for this vCPU, and the upper
	 * limit of this request. The two values are on the host's capacity scale,
	 * and the host reads them as one word. vCPUs that share a cpufreq policy
	 * have the same values in their lines. The CPU that changes the policy
	 * stores the word into all of these lines while it holds the lock of the
	 * policy or of the policy's governor.
	 */
	__u16 perf_request;		/* 0..1024; 0: no request */
	__u16 perf_limit;		/* 1..1024; 0: no limit */
	__u16 runqueue_util;		/* 0..1024, PELT utilisation of the vCPU's run queue in the guest; not set by the driver */
	__u16 guest_reserved16;
	__u32 kicks;			/* number of kicks sent, wraps */
	__u8  guest_reserved[32];
};

/* paracord_host_line.boost_state */
#define PARACORD_BOOST_OFF		0
#define PARACORD_BOOST_ON		1
#define PARACORD_BOOST_THROTTLED	2

/* paracord_host_line.boost_reasons: why the vCPU is boosted; bit n of the mask stands for reason n */
#define PARACORD_REASON_WAKE		0 /* the vCPU wakes from a halt */
#define PARACORD_REASON_IRQ		1 /* an interrupt is pending or injected, or the guest runs a normal task of nice -20 */
#define PARACORD_REASON_RT		2 /* the guest runs a task of a class above SCHED_OTHER */
#define PARACORD_REASON_CRITICAL	3 /* preemption is off in the guest, for example while the guest holds a lock */
#define PARACORD_REASONS		4

/* paracord_host_line.host_flags */
#define PARACORD_HOST_COUNTS		(1u << 0) /* the host serves this slot's PMU area; used only in the guest's own memory */

/*
 * Only the host writes this line. One exception: if the region lies in the guest's own memory,
 * the guest clears all host lines when the host no longer answers announcements.
 */
struct paracord_host_line {
	__u8  boost_state;		/* PARACORD_BOOST_* */
	__u8  boost_reasons;		/* mask of 1 << PARACORD_REASON_* */
	__u8  host_flags;		/* PARACORD_HOST_* (since 1.6) */
	__u8  host_reserved8;
	__u32 boosts;			/* number of boosts, wraps; each new boost changes it */
	__u32 throttles;		/* number of forced unboosts, wraps */
	__u16 capacity;			/* capacity of the physical CPU, 0..1024; 0: unknown */
	__u16 frequency;		/* current / maximum frequency of the physical CPU, 0..1024; 0: unknown */
	__u32 physical_cpu;		/* ~0: unknown */
	__u32 cluster;			/* ~0: unknown */
	__u16 pressure;			/* share of time, 0..1024, in which the vCPU waited while other threads had its CPU */
	__u16 domain;			/* index + 1 of the vCPU's performance domain; 0: none (since 1.1) */
	__u32 announcement;		/* guest_announcements when the host last saw an announcement by this vCPU (since 1.4) */
	__u64 steal_ns;			/* intended for the time in which the vCPU was runnable but did not run; always 0 */
	__u32 domain_table;		/* ID of the table to which `domain` refers; 0: the table in the region (since 1.5) */
	__u8  host_reserved[20];
};

/*
 * An event that a guest's vCPUs may count (since 1.2). The host writes this
 * structure before the guest starts and does not change it afterwards.
 */
struct paracord_event {
	__u8  name[PARACORD_EVENT_NAME_BYTES]; /* letters, digits, '-'; NUL-terminated; name of the event's file in sysfs */
	__u64 min_period;		/* shortest period; 0: the event only counts, and the host never reports an overflow */
};

/* paracord_pmu_want.flags: the modes in which the counter counts */
#define PARACORD_WANT_USER		(1u << 0)
#define PARACORD_WANT_KERNEL		(1u << 1)

/*
 * The guest's request for one counter. Only a change has an effect: while the request stays the same, the current period
 * continues.
 */
struct paracord_pmu_want {
	__u64 period;			/* number of counts from one overflow to the next; 0: the counter only counts */
	__u16 event;			/* index + 1 of the event; 0: the counter is off */
	__u16 flags;			/* PARACORD_WANT_* */
	__u32 elapsed;			/* in units of period / 2^32: the first overflow comes earlier by this part of the period */
};

/*
 * Only the slot's vCPU writes these lines. To submit a batch of requests, the vCPU causes a VM exit; the host then reads the lines.
 */
struct paracord_pmu_guest {
	__u32 asked;			/* number of the last batch; 0: no batch yet; a changed number means a new batch */
	__u32 read;			/* mask of counters whose count the guest requests */
	__u8  guest_reserved[56];
	struct paracord_pmu_want want[PARACORD_COUNTERS];
};

/*
 * Totals of a counter since the VM started, over all events that the counter has counted. Only the difference between two
 * readings is meaningful.
 */
struct paracord_pmu_count {
	__u64 count;
	__u64 enabled_ns;		/* time that the vCPU's thread ran while the counter was on */
	__u64 running_ns;		/* time in which the counter counted; less than enabled_ns if the host multiplexes */
	__u32 overflows;		/* number of overflows, wraps; MSI-X vector n signals a changed number in slot n */
	__u32 host_reserved;
};

/*
 * Only the host writes these lines: at an overflow, and when it serves a batch. The host normally serves a batch before the vCPU
 * enters the guest again. If a batch changes the request of a counter, the answer contains the count at the moment when the
 * counter stopped.
 */
struct paracord_pmu_host {
	__u32 served;			/* value of paracord_pmu_guest.asked in the last batch that the host has served */
	__u32 refused;			/* mask of counters that do not count as requested: unknown event, or no budget left */
	/*
	 * These fields are used only in the guest's own memory (since 1.6). service: if the value differs from the one in the
	 * last answer, another host or daemon has written this answer, and all counts have restarted at arbitrary values.
	 * offered: bit n is set if the host offers event n of PARACORD_EVENT_LIST.
	 */
	__u32 service;
	__u32 host_reserved32;
	__u64 offered;
	__u8  host_reserved[40];
	struct paracord_pmu_count counter[PARACORD_COUNTERS];
};

/* The slot of one vCPU. */
struct paracord_slot {
	struct paracord_guest_line guest;	/* offset 0 */
	struct paracord_host_line host;		/* offset 64 */
	struct paracord_pmu_guest pmu;		/* offset 128 (since 1.2) */
	struct paracord_pmu_host pmu_host;	/* offset 448 (since 1.2) */
};

/* Whether a field ends within the bytes that the writer declared. A reader uses a field only if this is true. */
#define PARACORD_FIELD_IN(type, field, declared_bytes) \
	(offsetof(type, field) + sizeof(((type *)0)->field) <= (declared_bytes))

#if defined(__cplusplus)
#define PARACORD_ASSERT(cond, why) static_assert(cond, why)
#else
#define PARACORD_ASSERT(cond, why) _Static_assert(cond, why)
#endif
PARACORD_ASSERT(PARACORD_ANNOUNCED_FEATURES ==
		(PARACORD_F_BOOST | PARACORD_F_PREEMPT_COUNT | PARACORD_F_KICK |
		 PARACORD_F_PERF_REQUEST | PARACORD_F_CAPACITY | PARACORD_F_PMU), "features");
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
