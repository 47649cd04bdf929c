// SPDX-License-Identifier: GPL-2.0-only
//! Reads the lines that declare a machine, groups, tasks, VMs and interrupts. [`super::check`]
//! checks the values against each other.

use super::lines::{Key, Keys, first_word, unknown};
use super::names::Names;
use super::value::{int, quota, quoted};
use super::{Group, Guest, Irq, Policy, Task, Vm, limits, phases};
use crate::machine::{Costs, Machine};

/// The value without `exits=`.
pub(super) const DEFAULT_EXITS_PER_S: u32 = 1000;
/// The words for [`Guest`]s.
const GUESTS: [&str; 4] = ["spin", "idle", "periodic", "hold"];
/// The words for [`Policy`]s.
const POLICIES: [&str; 5] = ["other", "batch", "idle", "fifo", "rr"];

const MACHINE: &[Key] = &[
    Key("cpus", "cpus=8"),
    Key("smt", "smt=2"),
    Key("caches", "caches=2"),
    Key("nodes", "nodes=1"),
    Key("capacity", "capacity=1024*4,400*4"),
    Key("hz", "hz=250"),
    Key("switch", "switch=1us"),
    Key("migrate", "migrate=5us"),
    Key("ipi", "ipi=1us"),
    Key("exit", "exit=1us"),
];

/// Reads `machine cpus=8 smt=2 …`.
pub(super) fn machine(rest: &str) -> Result<Machine, String> {
    let keys = Keys::read(rest, MACHINE)?;
    let Some(cpus) = keys.int("cpus", &limits::CPUS)? else {
        return Err("cpus is missing; write for example machine cpus=8".to_owned());
    };
    let cpus = usize::try_from(cpus).unwrap_or(1);
    let capacities = match keys.word("capacity") {
        Some(word) => capacities(word)?,
        None => vec![1024; cpus],
    };
    let costs = Costs::default();
    Ok(Machine {
        cpus,
        smt: keys.count("smt", &limits::CPUS, 1)?,
        caches: keys.count("caches", &limits::CPUS, 1)?,
        nodes: keys.count("nodes", &limits::CPUS, 1)?,
        capacities,
        hz: keys.count("hz", &limits::HZ, 250)?,
        costs: Costs {
            switch_ns: keys.time("switch")?.unwrap_or(costs.switch_ns),
            migrate_ns: keys.time("migrate")?.unwrap_or(costs.migrate_ns),
            ipi_ns: keys.time("ipi")?.unwrap_or(costs.ipi_ns),
            exit_ns: keys.time("exit")?.unwrap_or(costs.exit_ns),
        },
    })
}

/// Reads `1024*4,400*4`: for each run of CPUs, the capacity and the number of CPUs.
fn capacities(word: &str) -> Result<Vec<u32>, String> {
    let mut all = Vec::new();
    for run in word.split(',') {
        let (capacity, count) = run.split_once('*').unwrap_or((run, "1"));
        let capacity = int("capacity", capacity, &limits::CAPACITY)?;
        let count = int("CPUs of a capacity", count, &limits::CPUS)?;
        let (capacity, count) = (u32::try_from(capacity), usize::try_from(count));
        all.extend(std::iter::repeat_n(capacity.unwrap_or(1), count.unwrap_or(1)));
        // A word of 100,000 bytes could describe 50 million CPUs.
        if all.len() > crate::machine::CPUS_MAX {
            let most = crate::machine::CPUS_MAX;
            return Err(format!("capacity names more than {most} CPUs; write one per CPU"));
        }
    }
    Ok(all)
}

const GROUP: &[Key] = &[
    Key("weight", "weight=100"),
    Key("quota", "quota=30ms/100ms"),
    Key("burst", "burst=10ms"),
    Key("idle", "idle"),
];

/// Reads `group web/a weight=100 …`.
pub(super) fn group(rest: &str, index: usize, names: &Names) -> Result<Group, String> {
    let (path, rest) = first_word("group", rest, "group web")?;
    let keys = Keys::read(rest, GROUP)?;
    let burst_ns = keys.time("burst")?;
    let limit = match keys.word("quota") {
        Some(word) => quota(word, burst_ns).map_err(|e| format!("group {path}: {e}"))?,
        None if burst_ns.is_some() => {
            return Err("burst without a quota; write for example quota=30ms/100ms too".to_owned());
        }
        None => None,
    };
    Ok(Group {
        path: path.to_owned(),
        parent: names.parent(index)?,
        weight: keys.count("weight", &limits::WEIGHT, 100)?,
        quota: limit,
        idle: keys.flag("idle"),
    })
}

const TASK: &[Key] = &[
    Key("count", "count=2"),
    Key("group", "group=web"),
    Key("policy", "policy=batch"),
    Key("prio", "prio=50"),
    Key("nice", "nice=5"),
    Key("cookie", "cookie=1"),
    Key("cpus", "cpus=0-1"),
    Key("start", "start=1s"),
    Key("template", "template"),
];

/// Reads `task hog count=2 … : run forever`.
pub(super) fn task(rest: &str, names: &Names) -> Result<Task, String> {
    let Some((head, program)) = rest.split_once(':') else {
        return Err("no phases; write a colon and what the task does: : run forever".to_owned());
    };
    let (name, head) = first_word("task", head, "task hog : run forever")?;
    let keys = Keys::read(head, TASK)?;
    Ok(Task {
        name: name.to_owned(),
        count: keys.count("count", &limits::COUNT, 1)?,
        group: keys.word("group").map_or(Ok(None), |path| names.group(path))?,
        policy: policy(&keys)?.unwrap_or(Policy::Other),
        nice: keys.count("nice", &limits::NICE, 0)?,
        cookie: keys.count("cookie", &limits::COOKIE, 0)?,
        cpus: keys.cpus("cpus")?,
        start_ns: keys.time("start")?.unwrap_or(0),
        template: keys.flag("template"),
        phases: phases::read(program, names)?,
    })
}

/// Reads the keys `policy` and `prio`.
pub(super) fn policy(keys: &Keys) -> Result<Option<Policy>, String> {
    let prio = keys.int("prio", &limits::PRIO)?;
    let real_time = |make: fn(u8) -> Policy, word: &str| match prio.map(u8::try_from) {
        Some(Ok(prio)) => Ok(make(prio)),
        _ => Err(format!("policy={word} lacks its priority; write policy={word} prio=50")),
    };
    let policy = match keys.word("policy") {
        None => None,
        Some("other") => Some(Policy::Other),
        Some("batch") => Some(Policy::Batch),
        Some("idle") => Some(Policy::Idle),
        Some("fifo") => Some(real_time(Policy::Fifo, "fifo")?),
        Some("rr") => Some(real_time(Policy::Rr, "rr")?),
        Some(word) => return Err(unknown("policy", word, POLICIES.into_iter())),
    };
    if prio.is_some() && !matches!(policy, Some(Policy::Fifo(_) | Policy::Rr(_))) {
        return Err("prio without a real-time policy; write policy=fifo or policy=rr too".into());
    }
    Ok(policy)
}

/// Writes what [`policy`] reads.
pub(super) fn policy_text(policy: Policy) -> String {
    match policy {
        Policy::Other => "policy=other".to_owned(),
        Policy::Batch => "policy=batch".to_owned(),
        Policy::Idle => "policy=idle".to_owned(),
        Policy::Fifo(prio) => format!("policy=fifo prio={prio}"),
        Policy::Rr(prio) => format!("policy=rr prio={prio}"),
    }
}

const VM: &[Key] = &[
    Key("count", "count=2"),
    Key("vcpus", "vcpus=2"),
    Key("group", "group=web"),
    Key("cpus", "cpus=0-1"),
    Key("exits", "exits=1000"),
    Key("guest", "guest=spin"),
    Key("period", "period=10ms"),
    Key("busy", "busy=1ms"),
];

/// Reads `vm guest count=4 vcpus=2 …`.
pub(super) fn vm(rest: &str, names: &Names) -> Result<Vm, String> {
    let (name, rest) = first_word("vm", rest, "vm guest vcpus=2")?;
    let keys = Keys::read(rest, VM)?;
    let guest = match keys.word("guest").unwrap_or("spin") {
        "spin" => Guest::Spin,
        "idle" => Guest::Idle,
        "hold" => Guest::Hold,
        "periodic" => Guest::Periodic {
            period_ns: keys.needed_time("period", "period=10ms")?,
            busy_ns: keys.needed_time("busy", "busy=1ms")?,
        },
        word => return Err(unknown("guest", word, GUESTS.into_iter())),
    };
    let periodic = matches!(guest, Guest::Periodic { .. });
    if let Some(key) = ["period", "busy"].into_iter().find(|k| !periodic && keys.flag(k)) {
        return Err(format!("{key} belongs to guest=periodic; write guest=periodic or no {key}"));
    }
    Ok(Vm {
        name: name.to_owned(),
        count: keys.count("count", &limits::COUNT, 1)?,
        vcpus: keys.count("vcpus", &limits::VCPUS, 1)?,
        group: keys.word("group").map_or(Ok(None), |path| names.group(path))?,
        cpus: keys.cpus("cpus")?,
        exits_per_s: keys.count("exits", &limits::EXITS, DEFAULT_EXITS_PER_S)?,
        guest,
    })
}

const IRQ: &[Key] = &[Key("cpu", "cpu=0"), Key("every", "every=1ms"), Key("for", "for=50us")];

/// Reads `irq cpu=0 every=1ms for=50us`.
pub(super) fn irq(rest: &str) -> Result<Irq, String> {
    let keys = Keys::read(rest, IRQ)?;
    let Some(cpu) = keys.word("cpu") else {
        return Err("cpu is missing; write for example cpu=0".to_owned());
    };
    Ok(Irq {
        cpu: self::cpu(cpu)?,
        every_ns: keys.needed_time("every", "every=1ms")?,
        for_ns: keys.needed_time("for", "for=50us")?,
    })
}

/// Reads the number of a CPU. A later check compares it with the machine.
pub(super) fn cpu(word: &str) -> Result<usize, String> {
    let last = *limits::CPUS.end() - 1;
    let cpu = int("cpu", word, &(0..=last))?;
    usize::try_from(cpu).map_err(|_| format!("{} is not a CPU", quoted(word)))
}
