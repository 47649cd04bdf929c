// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracepoints. Most tracepoints are not exported to modules, so the driver looks them
 * up by name in the kernel's table when it starts. Only sched_switch must exist.
 */
#include <linux/interrupt.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <trace/events/irq.h>
#include <trace/events/power.h>
#include <trace/events/sched.h>
#ifdef CONFIG_X86
#include <asm/trace/irq_vectors.h>
#endif

#include "paracord_guest.h"

#define PC_HOOK_SWITCH	BIT(0)
#define PC_HOOK_PRIO	BIT(1)
#define PC_HOOK_IRQ	BIT(2)
#define PC_HOOK_TIMER	BIT(3)
#define PC_HOOK_SOFTIRQ	BIT(4)
#define PC_HOOK_IDLE	BIT(5)
#define PC_HOOK_NMI	BIT(6)

static const char * const pc_hook_names[] = {
	"switch", "prio", "irq", "timer", "softirq", "idle", "nmi",
};

/* docs/guest-module.md lists the cost of each hook. None of the optional hooks is in the path of a context switch. */
static char *hooks = "auto";
module_param(hooks, charp, 0444);
MODULE_PARM_DESC(hooks, "what to publish besides the running task: prio,irq,timer,softirq,idle,nmi; none; all; auto (default): what the host cannot read in preempt_count");

/* Parameter words that stand for several hooks. */
static const struct pc_hook_set {
	const char *name;
	unsigned int mask;
} pc_hook_sets[] = {
	{ "none", 0 },
	{ "all", PC_HOOK_PRIO | PC_HOOK_IRQ | PC_HOOK_TIMER | PC_HOOK_SOFTIRQ |
		 PC_HOOK_IDLE | PC_HOOK_NMI },
};

struct pc_probe {
	const char *tracepoint;
	unsigned int hook;
	void *function;
	bool paired;			/* the probe in the next row resets what this probe sets */
	struct tracepoint *registered;
};

static struct pc_probe pc_probes[] = {
	{ "sched_switch", PC_HOOK_SWITCH, pc_probe_sched_switch },
	{ "sched_pi_setprio", PC_HOOK_PRIO, pc_probe_pi_setprio },
	{ "irq_handler_entry", PC_HOOK_IRQ, pc_probe_irq_entry, .paired = true },
	{ "irq_handler_exit", PC_HOOK_IRQ, pc_probe_irq_exit },
	{ "softirq_entry", PC_HOOK_SOFTIRQ, pc_probe_softirq_entry, .paired = true },
	{ "softirq_exit", PC_HOOK_SOFTIRQ, pc_probe_softirq_exit },
	{ "cpu_idle", PC_HOOK_IDLE, pc_probe_cpu_idle },
#ifdef CONFIG_X86
	/*
	 * The tick does not go through irq_handler_entry. For the other interrupts of
	 * the local APIC there is no hook, because preempt_count shows them, and
	 * because the kernel would have to patch its running text twice for each
	 * tracepoint.
	 */
	{ "local_timer_entry", PC_HOOK_TIMER, pc_probe_timer_entry, .paired = true },
	{ "local_timer_exit", PC_HOOK_TIMER, pc_probe_timer_exit },
#endif
};

static unsigned int pc_hooks_on;

/* Lets the compiler compare the types of the probes with the types that this kernel's tracepoints expect. */
static void __maybe_unused pc_check_probe_types(void)
{
	check_trace_callback_type_sched_switch(pc_probe_sched_switch);
	check_trace_callback_type_sched_pi_setprio(pc_probe_pi_setprio);
	check_trace_callback_type_irq_handler_entry(pc_probe_irq_entry);
	check_trace_callback_type_irq_handler_exit(pc_probe_irq_exit);
	check_trace_callback_type_softirq_entry(pc_probe_softirq_entry);
	check_trace_callback_type_softirq_exit(pc_probe_softirq_exit);
	check_trace_callback_type_cpu_idle(pc_probe_cpu_idle);
#ifdef CONFIG_X86
	check_trace_callback_type_local_timer_entry(pc_probe_timer_entry);
	check_trace_callback_type_local_timer_exit(pc_probe_timer_exit);
#endif
}

static bool pc_word_is(const char *word, size_t length, const char *name)
{
	return strlen(name) == length && !strncmp(word, name, length);
}

/* Return: mask of PC_HOOK_*; 0 for an unknown word. */
static unsigned int pc_hooks_of_word(const char *word, size_t length, bool irqs_readable)
{
	int i;

	/*
	 * With "auto", hooks publish only what the host cannot read itself, because
	 * each tracepoint in the wakeup path touches pages and cache lines that nothing
	 * else in that path needs.
	 */
	if (pc_word_is(word, length, "auto")) {
		word = irqs_readable ? "prio" : "all";
		length = strlen(word);
	}
	for (i = 0; i < ARRAY_SIZE(pc_hook_sets); i++)
		if (pc_word_is(word, length, pc_hook_sets[i].name))
			return PC_HOOK_SWITCH | pc_hook_sets[i].mask;
	for (i = 0; i < ARRAY_SIZE(pc_hook_names); i++)
		if (pc_word_is(word, length, pc_hook_names[i]))
			return PC_HOOK_SWITCH | BIT(i);
	return 0;
}

/* Return: mask of PC_HOOK_*; 0 for an unknown name, which is logged. */
static unsigned int pc_parse_hooks(const char *list, bool irqs_readable)
{
	unsigned int mask = PC_HOOK_SWITCH;

	while (*list) {
		size_t length = strcspn(list, ",");
		unsigned int found = pc_hooks_of_word(list, length, irqs_readable);

		if (length && !found) {
			pr_err("paracord_guest: hooks=%s: unknown \"%.*s\"; known: prio,irq,timer,softirq,idle,nmi,none,all,auto\n",
			       hooks, (int)length, list);
			return 0;
		}
		mask |= found;
		list += length + (list[length] == ',');
	}
	return mask;
}

static void pc_register(struct tracepoint *tp, void *mask)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(pc_probes); i++) {
		struct pc_probe *probe = &pc_probes[i];

		if (!(probe->hook & *(unsigned int *)mask) ||
		    strcmp(tp->name, probe->tracepoint))
			continue;
		if (!tracepoint_probe_register(tp, probe->function, NULL))
			probe->registered = tp;
	}
}

static void pc_unregister(struct pc_probe *probe)
{
	if (!probe->registered)
		return;
	tracepoint_probe_unregister(probe->registered, probe->function, NULL);
	probe->registered = NULL;
}

int pc_hooks_start(bool irqs_readable)
{
	unsigned int mask = pc_parse_hooks(hooks, irqs_readable);
	int i;

	if (!mask)
		return -EINVAL;
	for_each_kernel_tracepoint(pc_register, &mask);

	pc_hooks_on = 0;
	for (i = 0; i < ARRAY_SIZE(pc_probes); i++) {
		struct pc_probe *probe = &pc_probes[i];

		/* A pair needs both probes: without the second one, nothing would reset the byte that the first one sets. */
		if (probe->paired && (!probe[0].registered || !probe[1].registered)) {
			pc_unregister(&probe[0]);
			pc_unregister(&probe[1]);
		}
		if (probe->registered)
			pc_hooks_on |= probe->hook;
	}
	pc_context_idle_hook(pc_hooks_on & PC_HOOK_IDLE);
	if ((mask & PC_HOOK_NMI) && !pc_arch_nmi_start())
		pc_hooks_on |= PC_HOOK_NMI;

	if (!(pc_hooks_on & PC_HOOK_SWITCH)) {
		pc_hooks_stop();
		return -ENOENT;
	}
	return 0;
}

/* Removes all hooks. When this function returns, no probe runs any more. */
void pc_hooks_stop(void)
{
	int i;

	if (pc_hooks_on & PC_HOOK_NMI)
		pc_arch_nmi_stop();
	for (i = 0; i < ARRAY_SIZE(pc_probes); i++)
		pc_unregister(&pc_probes[i]);
	tracepoint_synchronize_unregister();
	pc_hooks_on = 0;
}

/* Lists the names of the hooks in use, on one line. Return: bytes written. */
int pc_hooks_list(char *buf, size_t bytes)
{
	int i, n = 0;

	for (i = 0; i < ARRAY_SIZE(pc_hook_names); i++)
		if (pc_hooks_on & BIT(i))
			n += scnprintf(buf + n, bytes - n, "%s%s", n ? "," : "",
				       pc_hook_names[i]);
	return n + scnprintf(buf + n, bytes - n, "\n");
}
