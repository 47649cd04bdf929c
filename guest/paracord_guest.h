/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * paracord guest driver: shared declarations.
 *
 *   main.c      PCI and platform device, order of setup and teardown
 *   region.c    checks of the shared region, and the guest's declaration in the region's header
 *   memory.c    a region in the guest's own memory, and its announcement
 *   domain.c    the host's performance domains, and the domain of each CPU
 *   vcpu.c      which slot belongs to which CPU, CPU hotplug
 *   context.c   what runs on a CPU, published by tracepoint probes
 *   hooks.c     lookup of the tracepoints by name, the "hooks" parameter
 *   kick.c      one VM exit when a boost has become stale
 *   cpufreq.c   cpufreq driver "paracord": stores the governor's request in the guest line
 *   invariance.c  speed of the CPU, from the host line, for load tracking
 *   pmu.c       perf PMU "paracord": events that the host counts
 *   counters.c  a CPU's counters: sends changes to the host in batches, takes the answers
 *   overflow.c  the interrupt that a counter raises when it overflows: writes samples
 *   sysfs.c     state for the administrator
 *   arch_*.c    slot index, preempt_count, kicks and announcements, NMIs, frequency scale
 */
#ifndef PARACORD_GUEST_H
#define PARACORD_GUEST_H

#include <linux/cpumask.h>
#include <linux/pci.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/timer.h>
#include <linux/types.h>
#include <linux/user-return-notifier.h>
#include <linux/workqueue.h>

#include "paracord_abi.h"

/* All features that this driver supports, whether or not the host offers them. */
#define PC_DRIVER_FEATURES \
	(PARACORD_F_BOOST | PARACORD_F_PREEMPT_COUNT | PARACORD_F_KICK | \
	 PARACORD_F_PERF_REQUEST | PARACORD_F_CAPACITY | PARACORD_F_PMU)

/*
 * A mapped region. @host is the checked copy of the header. The driver does not read
 * the host's part of the mapped header again, so the host cannot change the values that
 * were checked.
 */
struct pc_region {
	struct device *dev;
	void *base;
	resource_size_t bytes;		/* mapped bytes of the BAR, or size of the region in the guest's own memory */
	struct paracord_header host;
	u32 features;			/* offered by the host and accepted by this driver */
	void __iomem *doorbell;		/* NULL: counters do not use the doorbell, or the doorbell is not mapped */
	unsigned int vectors;		/* number of MSI-X vectors; vector n belongs to slot n; 0: none */
	bool in_memory;			/* the region lies in the guest's own memory */
	struct work_struct find_counters;	/* registers the PMU once a host serves the counters, if @in_memory */
	bool perf_refuses;		/* perf has refused the PMU of a region in_memory */
	bool awaits_counters;		/* answers to announcements may schedule @find_counters */
	struct paracord_domain *domains;	/* checked copy of the domain table. A domain with max_khz 0 is not known yet. */
	unsigned int domain_count;
	u32 domain_table;		/* paracord_domain.table of @domains; 0: none yet, or a device's table before ABI 1.5 */
	bool domains_change;		/* the table lies in the guest's own memory, where another host may replace it */
	bool domains_in_use;		/* frequencies and capacities were started with @domains */
	bool domains_refused;		/* a domain of the table in the guest's own memory is invalid; this was logged */
	bool follows_host;		/* answers to announcements may schedule @find_domains */
	u32 answered_table;		/* ID of the table in the last answer that named a table */
	struct delayed_work find_domains;
	int last_asked;			/* CPU that last announced the region on behalf of @find_domains */
	unsigned int asks_left;		/* number of announcements that @find_domains may still cause */
	unsigned int looks_left;	/* number of times that @find_domains may still run at the short interval */
	bool told_of_wait;		/* the wait for a daemon was logged */
};

/*
 * Bookkeeping of stale boosts for one CPU. Times are local_clock() nanoseconds.
 * Only the CPU itself accesses this structure, with interrupts off, except that sysfs
 * reads the counters.
 */
struct pc_kick_state {
	struct user_return_notifier on_user_return;
	bool armed;			/* @on_user_return is registered */
	bool boosted;			/* the host line reported a boost at the last look */
	bool stale;			/* boosted although the reason for the boost has ended on this CPU */
	bool seen_by_host;		/* a VM exit has happened since @stale was set */
	u32 boosts_seen;		/* @boosts of the host line at the last look */
	u64 observed_ns;		/* when this CPU last looked at the host line */
	u64 boosted_since_ns;		/* earliest possible start of the boost, or time of the last kick */
	u64 stale_since_ns;
	u64 stale_boosts;
	u64 stale_ns;
	u64 stale_max_ns;
};

/* State of one CPU. @line is NULL while nothing may be published. */
struct pc_cpu {
	struct paracord_guest_line *line;
	const struct paracord_host_line *host;
	u32 preempt_mask;		/* 0: preempt_count is not published */
	u8 task_class;			/* class of the running task, as published */
	u8 task_prio;
	bool worked;			/* a task for which hints matter has run since the last run of @look */
	const struct paracord_domain *domain;	/* NULL: unknown, or the CPU has none */
	u32 *perf;			/* perf_request and perf_limit in @line, as one word; NULL: nothing may be stored */
	u32 perf_word;			/* request and limit of the policy, stored into @perf when the CPU comes online */
	struct pc_kick_state kick;
	struct timer_list look;
};

DECLARE_PER_CPU(struct pc_cpu, pc_cpus);

/* region.c */
int pc_region_open(struct pc_region *region, struct pci_dev *pdev);
u32 pc_region_features(const struct pc_region *region);
void pc_region_declare(struct pc_region *region);
void pc_region_withdraw(struct pc_region *region);
void pc_region_drop_feature(struct pc_region *region, u32 feature);

/* Slot @index of an open region. Return: NULL if there is none. */
struct paracord_slot *pc_region_slot(const struct pc_region *region, u32 index);

/* memory.c */
bool pc_memory_start(void);
void pc_memory_stop(void);
int pc_memory_open(struct pc_region *region, struct device *dev);
void pc_memory_announce(struct pc_region *region);
void pc_memory_announce_again(void);
void pc_memory_announce_here(void);
void pc_memory_withdraw(void);

/* domain.c */
void pc_domains_read(struct pc_region *region);
int pc_domains_expect(struct pc_region *region);
void pc_domains_start(struct pc_region *region);
void pc_domains_stop(struct pc_region *region);
void pc_domain_online(struct pc_region *region, struct pc_cpu *cpu);
void pc_domains_answered(struct pc_region *region, u32 table);

/* vcpu.c */
int pc_vcpus_start(struct pc_region *region);
void pc_vcpus_stop(void);
unsigned int pc_vcpus_published(void);
unsigned int pc_vcpus_without_slot(void);

/* context.c. The probes have the arguments of their tracepoints. */
struct irqaction;
void pc_context_begin(struct pc_cpu *cpu, bool with_preempt_count);
bool pc_context_irqs_readable(const struct pc_region *region);
void pc_context_look_again(struct pc_cpu *cpu);
void pc_context_nmi(bool inside);
void pc_context_idle_hook(bool present);
void pc_probe_sched_switch(void *data, bool preempt, struct task_struct *prev,
			   struct task_struct *next, unsigned int prev_state);
void pc_probe_pi_setprio(void *data, struct task_struct *task,
			 struct task_struct *pi_task);
void pc_probe_irq_entry(void *data, int irq, struct irqaction *action);
void pc_probe_irq_exit(void *data, int irq, struct irqaction *action, int ret);
void pc_probe_softirq_entry(void *data, unsigned int vec);
void pc_probe_softirq_exit(void *data, unsigned int vec);
void pc_probe_timer_entry(void *data, int vector);
void pc_probe_timer_exit(void *data, int vector);
void pc_probe_cpu_idle(void *data, unsigned int state, unsigned int cpu);

/* hooks.c */
int pc_hooks_start(bool irqs_readable);
void pc_hooks_stop(void);
int pc_hooks_list(char *buf, size_t bytes);

/* kick.c */

/*
 * True if a switch can start or end a stale boost. Only switches between a real-time
 * and a normal task can do so, in either direction. Switches from and to idle are
 * ignored, because they make no boost stale, and because the wakeup path from idle
 * must stay short.
 */
static inline bool pc_kick_concerns(u8 before, u8 next)
{
	return (before >= PARACORD_TASK_RT && next == PARACORD_TASK_NORMAL) ||
	       (before == PARACORD_TASK_NORMAL && next >= PARACORD_TASK_RT);
}

void pc_kick_switch(struct pc_cpu *cpu, u8 before, u8 next);
void pc_kick_poll(struct pc_cpu *cpu);
void pc_kick_begin(struct pc_cpu *cpu);
void pc_kick_end(struct pc_cpu *cpu);
bool pc_kick_possible(void);
void pc_kick_set_region(const struct pc_region *region);
unsigned int pc_kick_threshold_us(void);

/* cpufreq.c */
#ifdef CONFIG_CPU_FREQ
bool pc_cpufreq_possible(void);
void pc_cpufreq_start(struct pc_region *region);
void pc_cpufreq_stop(void);
bool pc_cpufreq_is_foreign(void);
void pc_cpufreq_online(struct pc_cpu *cpu);
void pc_cpufreq_offline(struct pc_cpu *cpu);
#else
static inline bool pc_cpufreq_possible(void) { return false; }
static inline void pc_cpufreq_start(struct pc_region *region) { }
static inline void pc_cpufreq_stop(void) { }
static inline bool pc_cpufreq_is_foreign(void) { return false; }
static inline void pc_cpufreq_online(struct pc_cpu *cpu) { }
static inline void pc_cpufreq_offline(struct pc_cpu *cpu) { }
#endif

/* invariance.c */
bool pc_invariance_possible(void);
void pc_invariance_start(struct pc_region *region);
void pc_invariance_stop(void);
bool pc_invariance_running(void);
bool pc_invariance_needs_looks(void);
void pc_invariance_online(int nr);

/* Stores the speed of the current CPU for the kernel's load tracking. Called with interrupts off. */
void pc_invariance_look(void);

/* Speed of a CPU, relative to the highest frequency of its domain: 1..1024; 1024 if the host reports no speed. */
unsigned long pc_freq_scale(const struct pc_cpu *cpu);

/* pmu.c, counters.c */
#ifdef CONFIG_PERF_EVENTS
bool pc_pmu_possible(const struct pc_region *region);
void pc_pmu_start(struct pc_region *region);
void pc_pmu_stop(struct pc_region *region);
void pc_pmu_exit(void);
void pc_pmu_answered(struct pc_region *region, u8 host_flags);
void pc_counters_online(const struct pc_region *region);
void pc_counters_offline(void);
void pc_counters_look(void);
int pc_counters_list(char *buf);
int pc_counters_latency(char *buf);
#else
static inline bool pc_pmu_possible(const struct pc_region *region) { return false; }
static inline void pc_pmu_start(struct pc_region *region) { }
static inline void pc_pmu_stop(struct pc_region *region) { }
static inline void pc_pmu_exit(void) { }
static inline void pc_pmu_answered(struct pc_region *region, u8 host_flags) { }
static inline void pc_counters_online(const struct pc_region *region) { }
static inline void pc_counters_offline(void) { }
static inline void pc_counters_look(void) { }
static inline int pc_counters_list(char *buf) { return 0; }
static inline int pc_counters_latency(char *buf) { return 0; }
#endif

/* sysfs.c */
extern const struct attribute_group *pc_sysfs_groups[];

/* arch_*.c */

/* Slot index of the current CPU: KVM's vcpu_id. */
u32 pc_arch_slot_index(void);

/*
 * Address of the current CPU's preempt_count word while @task runs on this CPU.
 * Return: NULL if the kernel keeps no preempt_count.
 */
const void *pc_arch_preempt_count(struct task_struct *task);

/* True if the host's kernel handles the VM exit of pc_arch_kick() without the VMM. */
bool pc_arch_kick_possible(void);
void pc_arch_kick(void);

/*
 * Address of the kernel's frequency scale for a CPU. Return: NULL if modules cannot write the scale, or if the kernel writes it
 * itself.
 */
unsigned long *pc_arch_freq_scale(int nr);

/* Address of the kernel's capacity value for a CPU. Return: NULL if the capacity cannot be set, or if it comes from firmware. */
unsigned long *pc_arch_cpu_capacity(int nr);

/*
 * Arranges calls of pc_invariance_look() at each tick. Return: a negative error if the
 * architecture does not allow such calls; the timer of vcpu.c then calls
 * pc_invariance_look().
 */
int pc_arch_ticks_start(void);
void pc_arch_ticks_stop(void);

/*
 * False if the kernel treats a change of the CPU's frequency as a change of the clock
 * rate. In that case, the driver must not report frequency changes to the cpufreq core.
 */
bool pc_arch_clock_is_constant(void);

/*
 * If schedutil knows that utilisation is frequency-invariant, it scales utilisation
 * by the highest frequency. If it does not know this, it scales by policy->cur.
 * Return: the value of policy->cur, in kHz, with which schedutil chooses the right
 * frequencies in the second case; 0 in the first case.
 */
unsigned int pc_arch_reference_khz(unsigned int max_khz);

/* Arranges calls of pc_context_nmi() around NMIs, on architectures with NMI handlers. */
int pc_arch_nmi_start(void);
void pc_arch_nmi_stop(void);

/*
 * Announces the region at @gpa, in the guest's own memory, to the host. If @gpa is 0, withdraws the region. Can be called in any
 * context. If no host listens, nothing happens.
 */
void pc_arch_announce(u64 gpa);
bool pc_arch_announce_possible(void);
bool pc_arch_can_announce(u64 gpa);

/*
 * x86 keeps preempt_count per CPU. Other architectures keep it in the task, so the
 * address of the word changes with each context switch.
 */
#define PC_PREEMPT_COUNT_PER_TASK (!IS_ENABLED(CONFIG_X86))

#endif /* PARACORD_GUEST_H */
