/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Serves the counters of a guest whose region lies in the guest's own memory, and not in a device. The guest's requests and the
 * host's answers lie in this region. On the host, only the sensor accesses the region. The worker that serves the counters does
 * not access it (announce.h, host_line.h). So each batch of requests takes two kicks:
 *
 * - At the first kick, the sensor copies the requests into the mail of the vCPU, and wakes the worker of this CPU. The worker
 *   runs before the vCPU enters the guest again, and leaves the answer in the mail.
 * - At the next kick, the sensor writes the answer into the guest's memory. The guest repeats the kick until it finds the answer.
 *
 * host_line.h describes the dangers of a store into the guest's memory. The sensor copies requests and writes answers only if the
 * slot still contains the host line that the sensor has written there. It writes an answer only within PC_HOST_LINE_FRESH_NS
 * after it has copied the batch from the same slot, and only over an earlier answer or zeros.
 *
 * The sensor looks for requests at the tracepoint of the kick and not at every exit, because the checks of the slot's address
 * cost more than everything else that the sensor does at an exit. On x86, the guest's user space can also make the hypercall. The
 * sensor then compares two numbers, and finds no new batch.
 */
#ifndef PARACORD_BPF_PMU_MAIL_H
#define PARACORD_BPF_PMU_MAIL_H

_Static_assert(sizeof(struct paracord_pmu_guest) == PC_PMU_ASK_BYTES, "requests");
_Static_assert(sizeof(struct paracord_pmu_host) == PC_PMU_ANSWER_BYTES, "answer");
_Static_assert(!__builtin_offsetof(struct paracord_pmu_guest, asked), "the number of a batch comes first");
_Static_assert(!__builtin_offsetof(struct paracord_pmu_host, served), "the number of an answer comes first");

/* The mail of each vCPU, at the index of the vCPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PC_VCPUS_MAX);
	__type(key, u32);
	__type(value, struct pc_pmu_mail);
} pmu_mails SEC(".maps");

/* Time after which a kick wakes the worker again if there is still no answer. The worker may have missed the first wakeup. */
#define PC_RING_AGAIN_NS	PC_NSEC_PER_MSEC

/*
 * Whether the host line in the slot still contains what the sensor has written into it. If it does not, another guest kernel may
 * use the memory, for example after a reset of the guest.
 */
static __always_inline bool has_our_line(struct pc_vcpu *v)
{
	u64 there[PC_HOST_LINE_WORDS];
	void *at = (void *)v->line_hva + sizeof(struct paracord_guest_line);

	return v->line.known && !bpf_probe_read_user(there, sizeof(there), at) && is_as_written(v, there);
}

#define PC_ANSWER_RESERVED_WORDS	5

/* The beginning of struct paracord_pmu_host. */
struct pc_answer_head {
	u32 served;
	u32 refused;
	u32 service;
	u32 reserved32;
	u64 offered;
	u64 reserved[PC_ANSWER_RESERVED_WORDS];
};

_Static_assert(sizeof(struct pc_answer_head) == __builtin_offsetof(struct paracord_pmu_host, counter), "head of an answer");

/*
 * Whether the place for the answer contains something that the sensor may overwrite. This is the last answer that the sensor has
 * written there. If the sensor has not written there yet, it is anything that looks like an answer of another host, or zeros.
 */
static __always_inline bool has_earlier_answer(const struct pc_pmu_mail *mail, void *at)
{
	struct pc_answer_head there;
	u64 reserved = 0;
	int i;

	if (bpf_probe_read_user(&there, sizeof(there), at))
		return false;
#pragma unroll
	for (i = 0; i < PC_ANSWER_RESERVED_WORDS; i++)
		reserved |= there.reserved[i];
	return !reserved && !there.reserved32 && (!mail->written || !there.served || there.served == mail->written);
}

/* Copies the requests of the guest into the mail. Return: true if the copy failed. */
static __always_inline bool copy_batch(struct pc_vcpu *v, struct pc_pmu_mail *mail, void *at, u32 asked, u64 now)
{
	/* An exchange is a barrier on all architectures. */
	__sync_lock_test_and_set(&mail->asked, 0);
	if (bpf_probe_read_user(mail->ask, sizeof(mail->ask), at))
		return true;
	/* The memory may have another content since the last answer, for example after a reset or a restored snapshot. */
	if (mail->gpa != v->line_gpa || mail->kvm != v->slots_kvm || mail->generation != v->slots_generation ||
	    mail->left_ns != v->line.left_ns)
		mail->written = 0;
	mail->left_ns = v->line.left_ns;
	mail->asked_ns = now;
	mail->rung_ns = 0;
	mail->gpa = v->line_gpa;
	mail->kvm = v->slots_kvm;
	mail->generation = v->slots_generation;
	__sync_lock_test_and_set(&mail->asked, asked);
	return false;
}

/* Whether the answer may be written: the answered batch was copied from this slot a short time ago. */
static __always_inline bool may_answer(const struct pc_vcpu *v, const struct pc_pmu_mail *mail, u32 asked, u64 now)
{
	return READ_ONCE(mail->asked) == asked && mail->gpa == v->line_gpa && mail->kvm == v->slots_kvm &&
	       mail->generation == v->slots_generation && pc_elapsed_ns(now, mail->asked_ns) < PC_HOST_LINE_FRESH_NS;
}

/*
 * Writes the answer to batch `asked` into the guest's memory. The number of the batch is written last. Return: true if a write
 * failed.
 */
static __always_inline bool write_answer(struct pc_vcpu *v, struct pc_pmu_mail *mail, void *at, u32 asked)
{
	const u32 number_bytes = sizeof(asked);

	if (!has_earlier_answer(mail, at) || !translations_hold(v))
		return false;
	__sync_lock_test_and_set(&mail->barrier, 0);
	if (bpf_probe_write_user(at + number_bytes, mail->answer + number_bytes, sizeof(mail->answer) - number_bytes))
		return true;
	__sync_lock_test_and_set(&mail->barrier, 0);
	/* If the daemon has begun to write another answer, the guest will find that other answer instead. */
	if (READ_ONCE(mail->answered) != asked)
		return false;
	if (bpf_probe_write_user(at, &asked, number_bytes))
		return true;
	WRITE_ONCE(mail->written, asked);
	return false;
}

static __always_inline void ring(struct pc_pmu_mail *mail, u32 index, u32 cpu, u64 now)
{
	void *bell = bpf_map_lookup_elem(&bells, &cpu);

	if (!bell || (mail->rung_ns && pc_elapsed_ns(now, mail->rung_ns) < PC_RING_AGAIN_NS))
		return;
	mail->rung_ns = now;
	bpf_ringbuf_output(bell, &index, sizeof(index), BPF_RB_FORCE_WAKEUP);
}

/* Return: true if an access to the guest's memory failed. */
static __always_inline bool serve_slot(struct pc_vcpu *v, struct pc_pmu_mail *mail, u32 index, u32 cpu, u64 now)
{
	void *slot = (void *)v->line_hva;
	void *from = slot + __builtin_offsetof(struct paracord_slot, pmu);
	u32 asked = 0;

	if (bpf_probe_read_user(&asked, sizeof(asked), from))
		return true;
	if (!asked || asked == mail->written || !has_our_line(v))
		return false;
	if (asked == READ_ONCE(mail->answered))
		return may_answer(v, mail, asked, now) &&
		       write_answer(v, mail, slot + __builtin_offsetof(struct paracord_slot, pmu_host), asked);
	if (v->deaf_until_ns && now < v->deaf_until_ns)
		return false;
	if (asked != READ_ONCE(mail->asked) && copy_batch(v, mail, from, asked, now))
		return true;
	ring(mail, index, cpu, now);
	return false;
}

/* Called with preemption disabled. Return: 1 if an access to the guest's memory failed. */
static __noinline int serve_held(u32 index, u32 cpu)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	struct pc_pmu_mail *mail = bpf_map_lookup_elem(&pmu_mails, &index);

	return v && mail && translations_hold(v) && serve_slot(v, mail, index, cpu, bpf_ktime_get_ns());
}

/* Since Linux 6.14. */
extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

/*
 * Copies the guest's requests into the mail, or writes the answer into the guest's memory. Called at a kick, in the context of
 * the vCPU thread, with preemption disabled. Return: 0.
 */
static __noinline int serve_mail(u32 index, u32 cpu)
{
	struct pc_vcpu *v = bpf_map_lookup_elem(&vcpus, &index);
	unsigned long flags;
	int failed;

	/* The whole slot must lie in the page whose address was translated. */
	if (!v || !writes_guests || v->line_gpa & (PARACORD_SLOT_STRIDE_BYTES - 1) || !may_write_slot(v, bpf_ktime_get_ns()))
		return 0;
	/*
	 * On x86, KVM holds its lock on the memory slots here, so the slots cannot change before this exit has ended. On arm64, KVM
	 * holds no such lock here. But if the kernel lets BPF programs disable interrupts, interrupts are off. Then only a few
	 * instructions run between the comparison in translations_hold() and the stores.
	 */
	if (bpf_ksym_exists(bpf_local_irq_save)) {
		bpf_local_irq_save(&flags);
		failed = serve_held(index, cpu);
		bpf_local_irq_restore(&flags);
	} else {
		failed = serve_held(index, cpu);
	}
	if (failed) {
		v->counters.guest_read_errors++;
		v->translate = 1;
	}
	return 0;
}

/* Called with preemption disabled. Return: 0. */
static __noinline int kicked_on(u32 cpu)
{
	struct pc_cpu *here = bpf_map_lookup_elem(&cpus, &cpu);
	struct pc_vcpu *v;
	u32 index;

	if (!here || !here->running)
		return 0;
	index = here->running - 1;
	v = bpf_map_lookup_elem(&vcpus, &index);
	return v && v->setup.counts && v->task == bpf_get_current_task() ? serve_mail(index, cpu) : 0;
}

static __always_inline int kicked_for_counters(void)
{
	/* Since Linux 7.0, a program at a tracepoint may be preempted, and the thread may move to another CPU. */
	preempt_off();
	kicked_on(bpf_get_smp_processor_id());
	preempt_on();
	return 0;
}

/* x86: a hypercall. Arguments of the tracepoint: number, four arguments. */
SEC("raw_tp/kvm_hypercall")
int sensor_bell_hypercall(u64 *ctx)
{
	return ctx[0] == PARACORD_KICK_HYPERCALL ? kicked_for_counters() : 0;
}

/* arm64: a hypervisor call. Arguments of the tracepoint: program counter, x0, immediate. */
SEC("raw_tp/kvm_hvc_arm64")
int sensor_bell_hvc(u64 *ctx)
{
	return (u32)ctx[1] == PARACORD_KICK_HVC ? kicked_for_counters() : 0;
}

#endif
