// SPDX-License-Identifier: GPL-2.0-only
//! Changes at a given time: reading and writing their lines, and checking whether each change is
//! possible at its time.

use super::declare::{cpu, policy, policy_text};
use super::error::{Flaw, Part, at};
use super::limits;
use super::lines::{Key, Keys, first_word, unknown};
use super::names::Names;
use super::value::{self, duration, time, within};
use super::{Change, Mix, Timed, attributes};
use crate::machine::CpuSet;

const GROUP: &[Key] = &[
    Key("weight", "weight=100"),
    Key("quota", "quota=30ms/100ms"),
    Key("burst", "burst=10ms"),
    Key("idle", "idle=yes"),
];
const TASK: &[Key] = &[
    Key("nice", "nice=5"),
    Key("policy", "policy=batch"),
    Key("prio", "prio=50"),
    Key("cpus", "cpus=0-1"),
    Key("group", "group=web"),
];
const TARGETS: [&str; 4] = ["group", "task", "offline", "online"];

/// Reads `at T group|task NAME key=value …` or `at T offline|online CPU`. Each key is one change.
pub(super) fn read(rest: &str, names: &Names) -> Result<Vec<Timed>, String> {
    const EXAMPLE: &str = "at 2s group web weight=100";
    let (when, rest) = first_word("at", rest, EXAMPLE)?;
    let at_ns = duration(when)?;
    let (target, rest) = first_word("at", rest, EXAMPLE)?;
    let changes = match target {
        "group" => group(rest, names)?,
        "task" => task(rest, names)?,
        "offline" => vec![Change::Offline(one_cpu(rest, "offline 1")?)],
        "online" => vec![Change::Online(one_cpu(rest, "online 1")?)],
        word => return Err(unknown("change", word, TARGETS.into_iter())),
    };
    if changes.is_empty() {
        return Err(format!("{target} without a change; write for example {EXAMPLE}"));
    }
    Ok(changes.into_iter().map(|change| Timed { at_ns, change }).collect())
}

fn one_cpu(rest: &str, example: &str) -> Result<usize, String> {
    cpu(super::lines::one_word("the CPU", rest, example)?)
}

fn group(rest: &str, names: &Names) -> Result<Vec<Change>, String> {
    let (path, rest) = first_word("group", rest, "at 2s group web weight=100")?;
    let group = names.groups.find(path)?;
    let keys = Keys::read(rest, GROUP)?;
    let burst_ns = keys.time("burst")?;
    if burst_ns.is_some() && !keys.flag("quota") {
        return Err("burst without a quota; write for example quota=30ms/100ms too".to_owned());
    }
    let mut changes = Vec::new();
    for (key, word) in keys.iter() {
        changes.push(match key {
            "weight" => Change::GroupWeight(group, keys.count(key, &limits::WEIGHT, 100)?),
            "quota" => Change::GroupQuota(group, value::quota(word, burst_ns)?),
            "idle" => match word {
                "yes" => Change::GroupIdle(group, true),
                "no" => Change::GroupIdle(group, false),
                _ => return Err(unknown("value of idle", word, ["yes", "no"].into_iter())),
            },
            _ => continue,
        });
    }
    Ok(changes)
}

fn task(rest: &str, names: &Names) -> Result<Vec<Change>, String> {
    let (name, rest) = first_word("task", rest, "at 2s task hog nice=5")?;
    let task = names.tasks.find(name)?;
    let keys = Keys::read(rest, TASK)?;
    let policy = policy(&keys)?;
    let mut changes = Vec::new();
    for (key, word) in keys.iter() {
        changes.push(match (key, policy) {
            ("nice", _) => Change::TaskNice(task, keys.count(key, &limits::NICE, 0)?),
            ("policy", Some(policy)) => Change::TaskPolicy(task, policy),
            ("cpus", _) => Change::TaskCpus(task, value::cpus(word)?),
            ("group", _) => Change::TaskGroup(task, names.group(word)?),
            _ => continue,
        });
    }
    Ok(changes)
}

/// Writes what [`read`] reads, without the time.
pub(super) fn text(mix: &Mix, change: &Change) -> String {
    let group = |index: usize| mix.group_path(Some(index));
    let task = |index: usize| &mix.tasks[index].name;
    match change {
        Change::GroupWeight(index, weight) => format!("group {} weight={weight}", group(*index)),
        Change::GroupQuota(index, quota) => {
            format!("group {} {}", group(*index), value::quota_text(*quota))
        }
        Change::GroupIdle(index, idle) => {
            format!("group {} idle={}", group(*index), if *idle { "yes" } else { "no" })
        }
        Change::TaskNice(index, nice) => format!("task {} nice={nice}", task(*index)),
        Change::TaskPolicy(index, policy) => {
            format!("task {} {}", task(*index), policy_text(*policy))
        }
        Change::TaskCpus(index, cpus) => format!("task {} cpus={cpus}", task(*index)),
        Change::TaskGroup(index, to) => {
            format!("task {} group={}", task(*index), mix.group_path(*to))
        }
        Change::Offline(cpu) => format!("offline {cpu}"),
        Change::Online(cpu) => format!("online {cpu}"),
    }
}

/// Whether every change is possible at its time.
pub(super) fn check(mix: &Mix) -> Result<(), Flaw> {
    let mut state = State {
        online: CpuSet::first(mix.machine.cpus),
        idle: mix.groups.iter().map(|group| group.idle).collect(),
    };
    let mut before_ns = 0;
    for (index, timed) in mix.changes.iter().enumerate() {
        let at = at(Part::Change(index));
        let (when, end) = (time(timed.at_ns), time(mix.run_ns));
        if timed.at_ns >= mix.run_ns {
            return Err(at(format!("{when} is after the end; write a time before {end}")));
        }
        if timed.at_ns < before_ns {
            return Err(at("changes are out of order; sort them by time".to_owned()));
        }
        before_ns = timed.at_ns;
        state.change(mix, &timed.change).map_err(at)?;
    }
    Ok(())
}

/// The state of the machine and its groups after the changes so far.
struct State {
    online: CpuSet,
    idle: Vec<bool>,
}

impl State {
    fn change(&mut self, mix: &Mix, change: &Change) -> Result<(), String> {
        match change {
            Change::GroupWeight(group, weight) => {
                attributes::group_index(mix, Some(*group))?;
                // kernel/sched/fair.c: sched_group_set_shares.
                if self.idle[*group] {
                    let path = &mix.groups[*group].path;
                    return Err(format!(
                        "the kernel refuses a weight for the idle group {path}; make it idle=no first"
                    ));
                }
                within("weight", i64::from(*weight), &limits::WEIGHT)
            }
            Change::GroupQuota(group, quota) => {
                attributes::group_index(mix, Some(*group))?;
                quota.map_or(Ok(()), |quota| attributes::quota(&quota))
            }
            Change::GroupIdle(group, idle) => {
                attributes::group_index(mix, Some(*group))?;
                self.idle[*group] = *idle;
                Ok(())
            }
            Change::TaskNice(task, nice) => {
                attributes::task_index(mix, *task)?;
                within("nice", i64::from(*nice), &limits::NICE)
            }
            Change::TaskPolicy(task, policy) => {
                attributes::task_index(mix, *task)?;
                attributes::policy(*policy)
            }
            Change::TaskCpus(task, cpus) => {
                attributes::task_index(mix, *task)?;
                attributes::cpus(mix, Some(cpus))
            }
            Change::TaskGroup(task, group) => {
                attributes::task_index(mix, *task)?;
                attributes::group_index(mix, *group)
            }
            Change::Offline(cpu) => {
                attributes::cpu(mix, *cpu)?;
                if !self.online.has(*cpu) {
                    return Err(format!("CPU {cpu} is offline already; bring it online first"));
                }
                if self.online.len() == 1 {
                    return Err(format!(
                        "CPU {cpu} is the last one online; bring another online first"
                    ));
                }
                self.online.remove(*cpu);
                Ok(())
            }
            Change::Online(cpu) => {
                attributes::cpu(mix, *cpu)?;
                if self.online.has(*cpu) {
                    return Err(format!("CPU {cpu} is online already; take it offline first"));
                }
                self.online.insert(*cpu);
                Ok(())
            }
        }
    }
}
