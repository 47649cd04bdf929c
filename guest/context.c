// SPDX-License-Identifier: GPL-2.0-only
/*
 * What runs on a CPU, stored by that CPU into its guest line.
 *
 * Probes run with preemption off, or at least with migration off, so two CPUs never
 * write the same line. Each store is one instruction, so a probe that interrupts
 * another probe leaves no half-written value. A host that reads between two stores
 * sees values that are a few nanoseconds old, which is good enough for a hint.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched/rt.h>
#include <trace/events/power.h>

#include "paracord_guest.h"

/*
 * preempt_count bits that mean "do not preempt". The mask excludes x86's inverted
 * PREEMPT_NEED_RESCHED (bit 31; bit 63 since 7.3). The macros follow the layout of the
 * kernel that the module is built for.
 */
#define PC_PREEMPT_MASK \
	((u32)(PREEMPT_MASK | SOFTIRQ_MASK | HARDIRQ_MASK | NMI_MASK))

/* The idle loop always runs with preemption off. This is not a reason for a boost, so the mask for idle excludes PREEMPT_MASK. */
#define PC_IDLE_PREEMPT_MASK	(PC_PREEMPT_MASK & ~(u32)PREEMPT_MASK)

static bool pc_idle_hook;

static u8 pc_class_of_prio(const struct task_struct *task, int prio)
{
	if (is_idle_task(task))
		return PARACORD_TASK_IDLE;
	if (likely(!rt_prio(prio)))
		return PARACORD_TASK_NORMAL;
	if (prio < 0)
		return PARACORD_TASK_DEADLINE;
	/* The stopper's sched_class is private to the kernel. Only the stopper is a per-CPU kthread at prio 0. */
	if (!prio && (task->flags & PF_KTHREAD) && (task->flags & PF_NO_SETAFFINITY) &&
	    task->nr_cpus_allowed == 1)
		return PARACORD_TASK_STOP;
	return PARACORD_TASK_RT;
}

static struct paracord_context pc_context_of(const struct task_struct *task, int prio)
{
	struct paracord_context context = {
		.task_class = pc_class_of_prio(task, prio),
		.task_prio = clamp(prio, 0, MAX_PRIO - 1),
	};

	/* Without the hook of the idle loop, the driver only knows that the idle task runs, and publishes this as halting. */
	context.halting = context.task_class == PARACORD_TASK_IDLE && !pc_idle_hook;
	return context;
}

/* Guest-physical address of a kernel object; 0 if the object has no fixed address. */
static u64 pc_gpa(const void *object)
{
	if (!object)
		return 0;
	if (is_vmalloc_addr(object))
		return page_to_phys(vmalloc_to_page(object)) + offset_in_page(object);
	return virt_addr_valid(object) ? virt_to_phys((void *)object) : 0;
}

static void pc_store_context(struct paracord_guest_line *line,
			     struct paracord_context context)
{
	union {
		struct paracord_context context;
		u64 word;
	} store = { .context = context };

	WRITE_ONCE(line->context_word, store.word);
}

/* Publishes a change of the running task's class or priority that happens without a context switch. */
static void pc_store_task(struct pc_cpu *cpu, struct paracord_guest_line *line,
			  int prio)
{
	struct paracord_context context = pc_context_of(current, prio);

	cpu->task_class = context.task_class;
	cpu->task_prio = context.task_prio;
	WRITE_ONCE(line->context.task_class, context.task_class);
	WRITE_ONCE(line->context.task_prio, context.task_prio);
}

/* Stores the initial values into a zeroed line. Called with interrupts off. */
void pc_context_begin(struct pc_cpu *cpu, bool with_preempt_count)
{
	struct paracord_guest_line *line = cpu->line;
	struct paracord_context context = pc_context_of(current, current->prio);

	cpu->task_class = context.task_class;
	cpu->task_prio = context.task_prio;
	cpu->preempt_mask = 0;
	if (with_preempt_count) {
		u64 gpa = pc_gpa(pc_arch_preempt_count(current));

		if (gpa) {
			cpu->preempt_mask = PC_PREEMPT_MASK;
			WRITE_ONCE(line->preempt_count_mask, PC_PREEMPT_MASK);
			WRITE_ONCE(line->preempt_count_gpa, gpa);
		}
	}
	pc_store_context(line, context);
}

/* True if the host finds hardirq, softirq and NMI in preempt_count, so that no hook has to publish them. */
bool pc_context_irqs_readable(const struct pc_region *region)
{
	/*
	 * If preempt_count lies in the task structure, its address changes at each switch, and the host cannot follow each
	 * change.
	 */
	return (region->features & PARACORD_F_PREEMPT_COUNT) && !PC_PREEMPT_COUNT_PER_TASK;
}

void pc_context_idle_hook(bool present)
{
	pc_idle_hook = present;
}

void pc_probe_sched_switch(void *data, bool preempt, struct task_struct *prev,
			   struct task_struct *next, unsigned int prev_state)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_guest_line *line = cpu->line;
	struct paracord_context context;
	u8 before = cpu->task_class;

	if (!line)
		return;
	context = pc_context_of(next, next->prio);
	/* Kernel threads with normal priority do not count, because they also run in an idle guest. */
	if (next->mm || context.task_class >= PARACORD_TASK_RT)
		cpu->worked = true;
	/*
	 * Most switches are between tasks of the same class and priority. At such a
	 * switch, the line and its page stay untouched. The other bytes of the context
	 * usually need no reset here, because the hook that sets a byte also resets
	 * it. Only on PREEMPT_RT can a task switch leave the softirq byte set.
	 */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || context.task_class != before ||
	    context.task_prio != cpu->task_prio) {
		cpu->task_class = context.task_class;
		cpu->task_prio = context.task_prio;
		pc_store_context(line, context);
	}

	if (cpu->preempt_mask) {
		if (PC_PREEMPT_COUNT_PER_TASK)
			WRITE_ONCE(line->preempt_count_gpa,
				   pc_gpa(pc_arch_preempt_count(next)));
		if (unlikely(context.task_class == PARACORD_TASK_IDLE))
			WRITE_ONCE(line->preempt_count_mask, PC_IDLE_PREEMPT_MASK);
		else if (before == PARACORD_TASK_IDLE)
			WRITE_ONCE(line->preempt_count_mask, PC_PREEMPT_MASK);
	}

	if (unlikely(cpu->kick.stale ||
		     pc_kick_concerns(before, context.task_class)))
		pc_kick_switch(cpu, before, context.task_class);
}

/*
 * Called when priority inheritance is about to change the priority of @task. Publishes
 * the new priority only if this CPU runs @task, because a CPU may write only its own
 * line. If another CPU runs @task, that CPU updates its line when it calls
 * pc_context_look_again().
 */
void pc_probe_pi_setprio(void *data, struct task_struct *task,
			 struct task_struct *pi_task)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_guest_line *line = cpu->line;
	int prio = task->normal_prio;

	if (!line || task != current)
		return;
	if (pi_task)
		prio = min(prio, pi_task->prio);
	pc_store_task(cpu, line, prio);
}

/*
 * Publishes the running task's class again. Two changes reach the line only through
 * this function: sched_setscheduler() on a running task, which has no tracepoint, and
 * priority inheritance that another CPU has caused.
 */
void pc_context_look_again(struct pc_cpu *cpu)
{
	pc_store_task(cpu, cpu->line, current->prio);
	if (unlikely(cpu->kick.stale))
		pc_kick_poll(cpu);
}

static void pc_hardirq(bool inside)
{
	struct pc_cpu *cpu = this_cpu_ptr(&pc_cpus);
	struct paracord_guest_line *line = cpu->line;

	if (!line)
		return;
	WRITE_ONCE(line->context.hardirq, inside);
	if (!inside)
		pc_context_look_again(cpu);
}

void pc_probe_irq_entry(void *data, int irq, struct irqaction *action)
{
	pc_hardirq(true);
}

void pc_probe_irq_exit(void *data, int irq, struct irqaction *action, int ret)
{
	pc_hardirq(false);
}

void pc_probe_timer_entry(void *data, int vector)
{
	pc_hardirq(true);
}

void pc_probe_timer_exit(void *data, int vector)
{
	pc_hardirq(false);
}

static void pc_softirq(bool inside)
{
	struct paracord_guest_line *line = this_cpu_read(pc_cpus.line);

	if (line)
		WRITE_ONCE(line->context.softirq, inside);
}

void pc_probe_softirq_entry(void *data, unsigned int vec)
{
	pc_softirq(true);
}

void pc_probe_softirq_exit(void *data, unsigned int vec)
{
	pc_softirq(false);
}

void pc_probe_cpu_idle(void *data, unsigned int state, unsigned int nr)
{
	struct paracord_guest_line *line = this_cpu_read(pc_cpus.line);

	if (line)
		WRITE_ONCE(line->context.halting, state != PWR_EVENT_EXIT);
}

void pc_context_nmi(bool inside)
{
	struct paracord_guest_line *line = this_cpu_read(pc_cpus.line);

	if (line)
		WRITE_ONCE(line->context.nmi, inside);
}
