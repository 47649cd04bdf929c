// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ext actuator: the sensor and a sched_ext scheduler in one object. The scheduler schedules all ordinary tasks of the host.
 * Boosts are decided and applied in the kernel, without a step in user space.
 *
 *  file              contents
 *  sensor.bpf.c      observes vCPUs and decides about boosts (as for the rt actuator)
 *  scx.h             the kernel's sched_ext interface
 *  sched_rq.h        the records of CPUs and tasks
 *  sched_group.h     weights of cgroups
 *  sched_state.h     the states of a task and the transitions between them
 *  sched_quota.h     cpu.max: how much runtime groups have left (policy/quota.h)
 *  sched_park.h      tasks that wait for the quota of their group
 *  sched_cgroup.h    the cgroup operations
 *  sched_perf.h      load tracking and the performance request of a CPU (policy/perf.h)
 *  sched_turn.h      the timer that ends turns between two ticks
 *  sched_queue.h     one queue per CPU, virtual time (policy/fair.h)
 *  sched_topology.h  cores, caches and nodes: where to look for an idle CPU
 *  sched_balance.h   which CPU pulls a task from which other CPU (policy/balance.h)
 *  sched_place.h     placement on a host with asymmetric CPUs (policy/energy.h)
 *  sched_idle.h      performance requests of idle CPUs
 *  sched_clamp.h     clamps of tasks and groups, set through the daemon
 *  sched_import.h    clamps that tasks have set in the kernel
 *  sched_boost.h     how the start or the end of a boost is applied to a task that runs or waits
 *  sched_yield.h     yields and directed yields
 *  sched_core.h      the order of tasks on a core under core scheduling (policy/core.h)
 *  sched_life.h      operations that are called when a CPU, a task or the scheduler itself comes or goes
 *  sched_ops.h       the operations that the kernel calls
 *
 * If the kernel ejects the scheduler, the sensor stays loaded and the daemon continues with the rt actuator.
 */
#define PC_EXT
#include "sensor.bpf.c"
#include "sched_ops.h"
