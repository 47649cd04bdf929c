// SPDX-License-Identifier: GPL-2.0-only
//! Writes a [`Mix`] as text. Reading this text gives an equal mix.

use std::fmt::{self, Display, Formatter};

use super::declare::{DEFAULT_EXITS_PER_S, policy_text};
use super::value::{quota_text, time};
use super::{Group, Guest, KernelVersion, Mix, Policy, Scheduler, Task, Vm, changes, phases};
use crate::machine::{CpuSet, Machine};

impl Display for Mix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        machine(f, &self.machine)?;
        let kernel = match self.kernel {
            KernelVersion::V6_12 => "6.12",
            KernelVersion::V7_3 => "7.3",
        };
        writeln!(f, "kernel {kernel}")?;
        if self.scheduler == Scheduler::Stock {
            writeln!(f, "scheduler stock")?;
        }
        writeln!(f, "seed {}", self.seed)?;
        write!(f, "run {}", time(self.run_ns))?;
        key(f, "warmup", &time(self.warmup_ns), self.warmup_ns == 0)?;
        writeln!(f)?;
        self.groups.iter().try_for_each(|one| group(f, one))?;
        self.queues.iter().try_for_each(|name| writeln!(f, "queue {name}"))?;
        self.locks.iter().try_for_each(|name| writeln!(f, "lock {name}"))?;
        self.tasks.iter().try_for_each(|one| task(f, self, one))?;
        self.vms.iter().try_for_each(|one| vm(f, self, one))?;
        for irq in &self.irqs {
            let (every, length) = (time(irq.every_ns), time(irq.for_ns));
            writeln!(f, "irq cpu={} every={every} for={length}", irq.cpu)?;
        }
        for timed in &self.changes {
            writeln!(f, "at {} {}", time(timed.at_ns), changes::text(self, &timed.change))?;
        }
        Ok(())
    }
}

/// Writes ` key=value`, unless the value is the default.
fn key(f: &mut Formatter<'_>, key: &str, value: &dyn Display, default: bool) -> fmt::Result {
    if default { Ok(()) } else { write!(f, " {key}={value}") }
}

fn machine(f: &mut Formatter<'_>, machine: &Machine) -> fmt::Result {
    write!(f, "machine cpus={}", machine.cpus)?;
    key(f, "smt", &machine.smt, machine.smt == 1)?;
    key(f, "caches", &machine.caches, machine.caches == 1)?;
    key(f, "nodes", &machine.nodes, machine.nodes == 1)?;
    let flat = machine.capacities.iter().all(|capacity| *capacity == 1024);
    key(f, "capacity", &capacities(&machine.capacities), flat)?;
    write!(f, " hz={}", machine.hz)?;
    let (costs, usual) = (machine.costs, crate::machine::Costs::default());
    key(f, "switch", &time(costs.switch_ns), costs.switch_ns == usual.switch_ns)?;
    key(f, "migrate", &time(costs.migrate_ns), costs.migrate_ns == usual.migrate_ns)?;
    key(f, "ipi", &time(costs.ipi_ns), costs.ipi_ns == usual.ipi_ns)?;
    key(f, "exit", &time(costs.exit_ns), costs.exit_ns == usual.exit_ns)?;
    writeln!(f)
}

fn capacities(all: &[u32]) -> String {
    let runs = all.chunk_by(|a, b| a == b).map(|run| format!("{}*{}", run[0], run.len()));
    runs.collect::<Vec<_>>().join(",")
}

fn group(f: &mut Formatter<'_>, group: &Group) -> fmt::Result {
    write!(f, "group {}", group.path)?;
    key(f, "weight", &group.weight, group.weight == 100)?;
    if group.quota.is_some() {
        write!(f, " {}", quota_text(group.quota))?;
    }
    writeln!(f, "{}", if group.idle { " idle" } else { "" })
}

fn place(
    f: &mut Formatter<'_>,
    mix: &Mix,
    to: Option<usize>,
    cpus: Option<&CpuSet>,
) -> fmt::Result {
    key(f, "group", &mix.group_path(to), to.is_none())?;
    cpus.map_or(Ok(()), |cpus| key(f, "cpus", cpus, false))
}

fn task(f: &mut Formatter<'_>, mix: &Mix, task: &Task) -> fmt::Result {
    write!(f, "task {}", task.name)?;
    key(f, "count", &task.count, task.count == 1)?;
    place(f, mix, task.group, task.cpus.as_ref())?;
    if task.policy != Policy::Other {
        write!(f, " {}", policy_text(task.policy))?;
    }
    key(f, "nice", &task.nice, task.nice == 0)?;
    key(f, "cookie", &task.cookie, task.cookie == 0)?;
    key(f, "start", &time(task.start_ns), task.start_ns == 0)?;
    f.write_str(if task.template { " template : " } else { " : " })?;
    let program = task.phases.iter().map(|phase| phases::text(mix, *phase));
    writeln!(f, "{}", program.collect::<Vec<_>>().join(", "))
}

fn vm(f: &mut Formatter<'_>, mix: &Mix, vm: &Vm) -> fmt::Result {
    write!(f, "vm {}", vm.name)?;
    key(f, "count", &vm.count, vm.count == 1)?;
    write!(f, " vcpus={}", vm.vcpus)?;
    place(f, mix, vm.group, vm.cpus.as_ref())?;
    key(f, "exits", &vm.exits_per_s, vm.exits_per_s == DEFAULT_EXITS_PER_S)?;
    match vm.guest {
        Guest::Spin => writeln!(f, " guest=spin"),
        Guest::Idle => writeln!(f, " guest=idle"),
        Guest::Hold => writeln!(f, " guest=hold"),
        Guest::Periodic { period_ns, busy_ns } => {
            let (period, busy) = (time(period_ns), time(busy_ns));
            writeln!(f, " guest=periodic period={period} busy={busy}")
        }
    }
}
