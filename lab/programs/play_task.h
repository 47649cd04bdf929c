/* SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause */
/*
 * A task of a plan: a process that goes through its phases, and says in shared memory how much CPU time it had.
 */
#ifndef LAB_PLAY_TASK_H
#define LAB_PLAY_TASK_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "monotonic.h"
#include "play_group.h"
#include "work.h"

enum {
	SLOTS = 65536,
	/* A task that nobody ends does so itself, so long after the end. */
	LATE_S = 10,
	/* CPU time between two looks at the clock. */
	LOOK_NS = 50000,
};

struct slot {
	atomic_int pid;		/* 0: free */
	atomic_int kind;
	atomic_uint_fast64_t used_ns;	/* CPU time, as the task last said itself */
	atomic_uint_fast64_t begin_ns;	/* CPU time before it began, and of its children that it has reaped */
};

struct shared {
	atomic_int stop;
	atomic_int failed;				/* wait status of a task that ended by mistake; 0: none */
	atomic_int born;				/* tasks so far */
	atomic_int ready;				/* of those from the beginning, who stand at the gate */
	uint64_t start_ns;
	atomic_uint_fast64_t ended_ns[KINDS_MAX];	/* CPU time of those that have ended */
	atomic_uint_fast64_t ended[KINDS_MAX];		/* how many */
	atomic_int slots_end;				/* no later one was ever used */
	struct slot slots[SLOTS];
};

static struct shared *shared;
static int queue_ends[QUEUES_MAX][2], lock_ends[LOCKS_MAX], gate[2];
static uint64_t loops_per_look;
/* By changes of the plan, or by tasks themselves. */
static int tasks_change;

static struct slot *own;
static uint64_t begin_cpu_ns, random_state;

/* By the median: an emulator's clocks may stand still for a moment, or jump. */
static void calibrate(void)
{
	enum { LOOPS = 100000, TIMES = 21 };
	uint64_t took_ns[TIMES];

	for (int n = 0; n < TIMES; n++) {
		uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		work(LOOPS);
		took_ns[n] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
	}
	qsort(took_ns, TIMES, sizeof(took_ns[0]), by_ns);
	loops_per_look = (uint64_t)LOOPS * LOOK_NS / (took_ns[TIMES / 2] + 1) + 1;
}

/* SplitMix64. */
static uint64_t draw(int64_t min, int64_t max)
{
	uint64_t z = random_state += 0x9E3779B97F4A7C15ull;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
	z ^= z >> 31;
	return (uint64_t)min + (max > min ? z % (uint64_t)(max - min + 1) : 0);
}

/* Publishes it, too. */
static uint64_t used_ns(void)
{
	uint64_t now_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;

	atomic_store_explicit(&own->used_ns, now_ns, memory_order_relaxed);
	return now_ns;
}

__attribute__((noreturn)) static void end_task(void)
{
	used_ns();
	_exit(0);
}

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * NS_PER_US;
}

/*
 * Children that have ended count with all of their time: the way out of a process takes some, too. Return: whether
 * there are others.
 */
static int reap(int options)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, options, &usage)) > 0) {
		uint64_t ran_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);

		/* What is said of this task at its end has its children's time in it. */
		if (own)
			own->begin_ns += ran_ns;
		for (int n = 0; n < shared->slots_end; n++) {
			struct slot *slot = &shared->slots[n];
			int kind = slot->kind;

			if (slot->pid != pid)
				continue;
			atomic_fetch_add(&shared->ended_ns[kind], ran_ns - slot->begin_ns);
			atomic_fetch_add(&shared->ended[kind], 1);
			slot->used_ns = slot->begin_ns = 0;
			slot->pid = 0;
			break;
		}
		/* Others than this program end them by mistake only. */
		if (!shared->stop && (!WIFEXITED(status) || WEXITSTATUS(status)))
			shared->failed = status;
	}
	return !pid;
}

static void run_for(uint64_t ns)
{
	uint64_t now_ns = used_ns(), end_ns = ns == UINT64_MAX ? ns : now_ns + ns;

	while (now_ns < end_ns) {
		uint64_t left_ns = end_ns - now_ns;

		work(left_ns < LOOK_NS ? loops_per_look * left_ns / LOOK_NS + 1 : loops_per_look);
		if (atomic_load_explicit(&shared->stop, memory_order_relaxed))
			end_task();
		now_ns = used_ns();
	}
}

static void be_of_kind(const struct kind *kind, const struct kind *before)
{
	struct sched_param param = { .sched_priority = kind->policy.priority };

	/* Without any, tasks stay in the group that this program is in. */
	if (plan.group_count && (!before || kind->group != before->group))
		join_group(kind->group, 0);
	if ((!before || !CPU_EQUAL(&kind->cpus, &before->cpus)) &&
	    sched_setaffinity(0, sizeof(kind->cpus), &kind->cpus))
		fail("cannot set the CPUs of", kind->name);
	if ((!before || kind->nice != before->nice) && setpriority(PRIO_PROCESS, 0, (int)kind->nice))
		fail("cannot set nice of", kind->name);
	if ((!before || memcmp(&kind->policy, &before->policy, sizeof(kind->policy))) &&
	    sched_setscheduler(0, kind->policy.number, &param))
		fail("cannot set the policy of", kind->name);
}

static struct slot *take_slot(void)
{
	for (int at = 0; at < SLOTS; at++) {
		int empty = 0;

		if (!atomic_compare_exchange_strong(&shared->slots[at].pid, &empty, -1))
			continue;
		for (int end = shared->slots_end; end <= at;)
			atomic_compare_exchange_strong(&shared->slots_end, &end, at + 1);
		return &shared->slots[at];
	}
	errno = EAGAIN;
	fail("too many tasks of", "the plan");
}

/* The child is a task of that kind, with a slot, and has not begun. */
static pid_t fork_task(int kind, const struct kind *before)
{
	struct slot *slot;
	pid_t pid;

	reap(WNOHANG);
	slot = take_slot();

	slot->kind = kind;
	pid = fork();
	if (pid < 0)
		fail("cannot fork", plan.kinds[kind].name);
	if (pid) {
		slot->pid = pid;
		return pid;
	}
	own = slot;
	slot->pid = getpid();
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	begin_cpu_ns = 0;
	random_state = (uint64_t)plan.seed ^ ((uint64_t)atomic_fetch_add(&shared->born, 1) << 32);
	alarm((unsigned int)(plan.run_ns / (int64_t)NS_PER_S) + LATE_S);
	be_of_kind(&plan.kinds[kind], before);
	return 0;
}

static void pass(int fd, uint64_t amount, int writes)
{
	/* A byte of a pipe, or 1 of a counter, which takes and gives eight bytes. */
	ssize_t done = writes ? write(fd, &amount, amount ? sizeof(amount) : 1) :
				read(fd, &amount, amount ? sizeof(amount) : 1);

	if (done <= 0)
		end_task();
}

/* Whether it is another task from here on: a child. */
static int do_phase(const struct kind *kind, const struct phase *phase, uint64_t start_ns)
{
	uint64_t now_ns;

	switch (phase->verb) {
	case RUN:
		run_for(phase->a < 0 ? UINT64_MAX : draw(phase->a, phase->b));
		return 0;
	case SLEEP:
		sleep_until_ns(monotonic_ns() + draw(phase->a, phase->b));
		return 0;
	case PERIOD:
		now_ns = monotonic_ns() - start_ns;
		sleep_until_ns(start_ns + (now_ns / (uint64_t)phase->a + 1) * (uint64_t)phase->a);
		return 0;
	case POST:
		pass(queue_ends[phase->a][1], !plan.is_pipe[phase->a], 1);
		return 0;
	case WAIT:
		pass(queue_ends[phase->a][0], !plan.is_pipe[phase->a], 0);
		return 0;
	case LOCK:
		pass(lock_ends[phase->a], 1, 0);
		return 0;
	case UNLOCK:
		pass(lock_ends[phase->a], 1, 1);
		return 0;
	case FORK:
		/* Where tasks change, a parent may not be any more what its line says. */
		return !fork_task((int)phase->a, tasks_change ? NULL : kind);
	case YIELD:
		sched_yield();
		return 0;
	case EXIT:
		end_task();
	case MOVE:
		join_group(phase->a, 0);
	}
	return 0;
}

/* A task repeats them until it ends. */
static void do_phases(int number)
{
	const struct kind *kind = &plan.kinds[number];
	uint64_t start_ns = monotonic_ns();

	for (int n = 0; kind->phase_count; n = (n + 1) % kind->phase_count) {
		const struct phase *phase = &kind->phases[n];

		if (atomic_load_explicit(&shared->stop, memory_order_relaxed))
			break;
		if (do_phase(kind, phase, start_ns)) {
			kind = &plan.kinds[phase->a];
			start_ns = monotonic_ns();
			n = -1;
		}
		used_ns();
	}
	end_task();
}

#endif
