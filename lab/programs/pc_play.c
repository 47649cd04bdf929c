// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
/*
 * pc_play: plays a mix of the simulator's (docs/simulator.md) on this machine's kernel, as processes that run, sleep,
 * wake each other and fork, and says what CPU time each kind of them had. Needs root.
 *
 *   paracord-sim plan FILE.mix | pc_play [--vm NAME=TID,TID...]...
 *
 * --vm   the vCPU threads of a VM of the mix: they are there already, and do what the mix says
 *
 * Output, one JSON object:
 *   measured_ns   from the end of the warm-up to the end
 *   kinds         of each task and VM: name, ran_ns of all of them after the warm-up, there and ended (how many),
 *                 least_ns and most_ns of those that are there from the end of the warm-up to the end
 */
#include <sys/eventfd.h>

#include "play_task.h"
#include "play_vm.h"

struct tally {
	uint64_t ran_ns[KINDS_MAX];
	uint64_t ended[KINDS_MAX];
	uint64_t slot_ns[SLOTS];
	int slot_pid[SLOTS];
	uint64_t vcpu_ns[VMS_MAX][VCPUS_MAX];
};

static struct tally first, last;
static pid_t player;
static int offline[CPU_SETSIZE];

static void take_tally(struct tally *tally)
{
	for (int k = 0; k < plan.kind_count; k++) {
		tally->ran_ns[k] = shared->ended_ns[k];
		tally->ended[k] = shared->ended[k];
	}
	for (int n = 0; n < shared->slots_end; n++) {
		struct slot *slot = &shared->slots[n];

		tally->slot_pid[n] = slot->pid;
		tally->slot_ns[n] = slot->used_ns;
		tally->ran_ns[slot->kind] += tally->slot_ns[n];
	}
	for (int v = 0; v < plan.vm_count; v++)
		for (int n = 0; n < plan.vms[v].vcpus; n++)
			tally->vcpu_ns[v][n] = ran_ns_of(vcpus[v][n].tid);
}

static void make_queues(void)
{
	for (int n = 0; n < plan.queue_count; n++) {
		if (plan.is_pipe[n]) {
			if (pipe(queue_ends[n]))
				fail("cannot make", "a pipe");
			continue;
		}
		queue_ends[n][0] = queue_ends[n][1] = eventfd(0, EFD_SEMAPHORE);
		if (queue_ends[n][0] < 0)
			fail("cannot make", "a counter");
	}
	for (int n = 0; n < plan.lock_count; n++) {
		lock_ends[n] = eventfd(1, EFD_SEMAPHORE);
		if (lock_ends[n] < 0)
			fail("cannot make", "a lock");
	}
}

/* All of them stand at the gate then. */
static void make_tasks(void)
{
	int count = 0;

	if (pipe(gate))
		fail("cannot make", "a pipe");
	for (int k = 0; k < plan.kind_count; k++)
		for (int n = 0; n < plan.kinds[k].count; n++) {
			char byte;

			count++;
			if (fork_task(k, NULL))
				continue;
			prctl(PR_SET_TIMERSLACK, 1);
			close(gate[1]);
			shared->ready++;
			if (read(gate[0], &byte, 1) < 0)
				_exit(1);
			sleep_until_ns(shared->start_ns + (uint64_t)plan.kinds[k].start_ns);
			own->begin_ns = begin_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
			do_phases(k);
		}
	while (shared->ready < count && !shared->failed) {
		reap(WNOHANG);
		usleep(10000);
	}
}

static void change_task(const struct change *change, pid_t pid)
{
	struct sched_param param = { .sched_priority = change->policy.priority };
	int failed = 0;

	switch (change->what) {
	case NICE:
		failed = setpriority(PRIO_PROCESS, (id_t)pid, (int)change->value);
		break;
	case POLICY:
		failed = sched_setscheduler(pid, change->policy.number, &param);
		break;
	case CPUS:
		failed = sched_setaffinity(pid, sizeof(change->cpus), &change->cpus);
		break;
	default:
		join_group(change->value, pid);
	}
	if (failed && errno != ESRCH)
		fail("cannot change", plan.kinds[change->of].name);
}

static void switch_cpu(int cpu, int online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	if (!write_text(path, online ? "1" : "0"))
		fail("cannot switch", path);
	offline[cpu] = !online;
}

static void make_change(const struct change *change)
{
	if (change->what == WEIGHT) {
		write_group(change->of, "cpu.weight", "%" PRId64, change->value);
	} else if (change->what == QUOTA) {
		set_quota(change->of, &change->quota);
	} else if (change->what == IDLE) {
		write_group(change->of, "cpu.idle", "%" PRId64, change->value);
	} else if (change->what == ONLINE) {
		switch_cpu(usable[change->of], change->value != 0);
	} else {
		for (int n = 0; n < shared->slots_end; n++)
			if (shared->slots[n].kind == change->of && shared->slots[n].pid > 0)
				change_task(change, shared->slots[n].pid);
	}
}

static int has_phases(enum verb verb)
{
	for (int k = 0; k < plan.kind_count; k++)
		for (int n = 0; n < plan.kinds[k].phase_count; n++)
			if (plan.kinds[k].phases[n].verb == verb)
				return 1;
	return 0;
}

static int has_changes_of_tasks(void)
{
	for (int n = 0; n < plan.change_count; n++)
		if (plan.changes[n].what >= NICE && plan.changes[n].what <= GROUP)
			return 1;
	return 0;
}

/* Who ends is reaped soon. A mix without forks is not disturbed. */
static void wait_until(uint64_t at_ns)
{
	enum { REAP_NS = 50000000 };

	while (has_phases(FORK) && monotonic_ns() + REAP_NS < at_ns) {
		reap(WNOHANG);
		sleep_until_ns(monotonic_ns() + REAP_NS);
	}
	sleep_until_ns(at_ns);
	reap(WNOHANG);
}

/* Up to a time of the plan, its changes included. */
static void play_until(uint64_t until_ns)
{
	static int next;

	for (; next < plan.change_count && (uint64_t)plan.changes[next].at_ns <= until_ns; next++) {
		wait_until(shared->start_ns + (uint64_t)plan.changes[next].at_ns);
		make_change(&plan.changes[next]);
	}
	wait_until(shared->start_ns + until_ns);
}

/* Some may fork meanwhile. */
static void end_tasks(void)
{
	shared->stop = 1;
	do {
		for (int n = 0; n < shared->slots_end; n++)
			if (shared->slots[n].pid > 0)
				kill(shared->slots[n].pid, SIGKILL);
		usleep(10000);
	} while (reap(WNOHANG));
}

static void print_kind(const char *name, uint64_t ran_ns, uint64_t there, uint64_t ended, uint64_t least_ns,
		       uint64_t most_ns)
{
	static const char *separator = "";

	printf("%s{\"name\": \"%s\", \"ran_ns\": %" PRIu64 ", \"there\": %" PRIu64 ", \"ended\": %" PRIu64, separator, name,
	       ran_ns, there, ended);
	if (there)
		printf(", \"least_ns\": %" PRIu64 ", \"most_ns\": %" PRIu64, least_ns, most_ns);
	printf("}");
	separator = ", ";
}

static void print_tally(uint64_t measured_ns)
{
	printf("{\"program\": \"pc_play\", \"measured_ns\": %" PRIu64 ", \"kinds\": [", measured_ns);
	for (int k = 0; k < plan.kind_count; k++) {
		uint64_t least_ns = UINT64_MAX, most_ns = 0, there = 0;

		/* What was there at the warm-up's end, and is there still. */
		for (int n = 0; n < shared->slots_end; n++) {
			uint64_t ns = last.slot_ns[n] - first.slot_ns[n];

			if (shared->slots[n].kind != k || last.slot_pid[n] <= 0 || last.slot_pid[n] != first.slot_pid[n])
				continue;
			there++;
			least_ns = ns < least_ns ? ns : least_ns;
			most_ns = ns > most_ns ? ns : most_ns;
		}
		print_kind(plan.kinds[k].name, last.ran_ns[k] - first.ran_ns[k], there, last.ended[k] - first.ended[k],
			   least_ns, most_ns);
	}
	for (int v = 0; v < plan.vm_count; v++) {
		uint64_t least_ns = UINT64_MAX, most_ns = 0, ran_ns = 0;

		for (int n = 0; n < plan.vms[v].vcpus; n++) {
			uint64_t ns = last.vcpu_ns[v][n] - first.vcpu_ns[v][n];

			ran_ns += ns;
			least_ns = ns < least_ns ? ns : least_ns;
			most_ns = ns > most_ns ? ns : most_ns;
		}
		print_kind(plan.vms[v].name, ran_ns, (uint64_t)plan.vms[v].vcpus, 0, least_ns, most_ns);
	}
	printf("]}\n");
}

/* However this program ends, but by SIGKILL: then tasks end by themselves, and groups stay. */
static void clean_up(void)
{
	if (getpid() != player)
		return;
	end_tasks();
	release_vms();
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (offline[cpu]) {
			offline[cpu] = 0;
			switch_cpu(cpu, 1);
		}
	remove_groups();
}

static void on_signal(int sig)
{
	(void)sig;
	clean_up();
	_exit(1);
}

int main(int argc, char **argv)
{
	const struct sched_param above = { .sched_priority = 90 };
	uint64_t first_ns, last_ns;

	read_plan(stdin);
	for (int n = 1; n < argc; n += 2) {
		if (strcmp(argv[n], "--vm") || n + 1 == argc) {
			fprintf(stderr, "pc_play: %s: write --vm NAME=TID,TID..., and a plan to standard input\n", argv[n]);
			return 2;
		}
		name_vcpus(argv[n + 1]);
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("cannot map", "shared memory");
	/* Whose parent has ended is reaped here. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	player = getpid();
	atexit(clean_up);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	tasks_change = has_changes_of_tasks() || has_phases(MOVE);
	calibrate();
	make_queues();
	make_groups();
	place_vms();
	make_tasks();

	/* Changes come at their times. */
	sched_setscheduler(0, SCHED_FIFO, &above);
	shared->start_ns = monotonic_ns();
	close(gate[1]);
	play_until((uint64_t)plan.warmup_ns);
	take_tally(&first);
	first_ns = monotonic_ns();
	play_until((uint64_t)plan.run_ns);
	take_tally(&last);
	last_ns = monotonic_ns();
	end_tasks();
	if (shared->failed) {
		int status = shared->failed, is_signal = WIFSIGNALED(status);

		fprintf(stderr, "pc_play: a task ended by mistake (%s %d)\n", is_signal ? "signal" : "exit code",
			is_signal ? WTERMSIG(status) : WEXITSTATUS(status));
		return 1;
	}
	print_tally(last_ns - first_ns);
	return 0;
}
