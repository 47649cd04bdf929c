// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ext actuator: the sensor and, in the same object, a sched_ext scheduler that
 * owns all ordinary tasks of the host. A boost takes effect where it is decided:
 * no step in user space lies between.
 *
 *  file              what
 *  sensor.bpf.c      sees vCPUs, decides (as for the rt actuator)
 *  scx.h             the kernel's interface
 *  sched_rq.h        the records of CPUs and tasks
 *  sched_group.h     weights of control groups
 *  sched_state.h     where each task is: states, and what follows them
 *  sched_quota.h     cpu.max: what groups may still run (policy/quota.h)
 *  sched_park.h      who waits for that
 *  sched_cgroup.h    the operations about them
 *  sched_perf.h      load tracking, the CPU's request (policy/perf.h)
 *  sched_turn.h      turns that end between two ticks
 *  sched_queue.h     a queue per CPU, virtual time (policy/fair.h)
 *  sched_topology.h  cores, caches and nodes: where an idle CPU is looked for
 *  sched_balance.h   which CPU takes a task over from which (policy/balance.h)
 *  sched_place.h     where tasks run on a host whose CPUs differ (policy/energy.h)
 *  sched_idle.h      what idle CPUs ask for
 *  sched_clamp.h     what tasks and groups may ask for, as the daemon is told
 *  sched_import.h    what they asked the kernel for
 *  sched_boost.h     what a boost or its end does to a task that runs or waits
 *  sched_yield.h     who gives its CPU to another one
 *  sched_core.h      whose turn it is on a core that is shared by cookies (policy/core.h)
 *  sched_life.h      CPUs, tasks and the scheduler that come and go
 *  sched_ops.h       the operations that the kernel calls
 *
 * Should the kernel eject the scheduler, the sensor stays: the daemon goes on with rt.
 */
#define PC_EXT
#include "sensor.bpf.c"
#include "sched_ops.h"
