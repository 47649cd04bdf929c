// SPDX-License-Identifier: GPL-2.0-only
//! Clamps of threads, control groups and VMs: how much performance they may request
//! (`paracord clamp`).
//!
//! These are paracord's own clamps. The kernel's frequency governor uses the largest clamp of a
//! CPU's tasks, whereas paracord adds up the requests of the tasks (docs/clamps.md). For the
//! kernel's clamps, see [`crate::scheduler::imports`].

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use paracord_policy::{PC_CAPACITY, pc_clamp};
use paracord_sensor::{ClampOf, Clamps as Found, Error as SensorError, Sensor};
use paracord_sys::proc;
use serde::{Deserialize, Serialize};

use crate::command_error::CommandError;
use crate::vms::Vms;

const CGROUPS: &str = "/sys/fs/cgroup";

/// Bounds of the performance that may be requested, 0..=1024. 1024 is the largest CPU at its
/// highest frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clamp {
    /// Smallest request while the thread is runnable.
    pub min: u32,
    /// Largest request.
    pub max: u32,
}

impl Clamp {
    /// The clamps of a target for which none were set.
    pub const NONE: Clamp = Clamp { min: 0, max: PC_CAPACITY };

    /// Checks the bounds.
    ///
    /// # Errors
    /// One line that names the mistake.
    pub fn check(self) -> Result<Clamp, CommandError> {
        let Clamp { min, max } = self;
        let wrong = match (min, max) {
            (_, max) if max > PC_CAPACITY => {
                format!("max {max} is not allowed: 0 to {PC_CAPACITY}")
            }
            (min, max) if min > max => format!("min {min} is above max {max}"),
            _ => return Ok(self),
        };
        Err(CommandError::Invalid(wrong))
    }
}

impl From<pc_clamp> for Clamp {
    fn from(c: pc_clamp) -> Clamp {
        Clamp { min: c.min, max: c.max }
    }
}

impl From<Clamp> for pc_clamp {
    fn from(c: Clamp) -> pc_clamp {
        pc_clamp { min: c.min, max: c.max }
    }
}

/// The target of clamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClampTarget {
    /// One thread, by its thread ID.
    Task(u32),
    /// All threads of a process. Threads that it starts later inherit the clamps of the thread that
    /// starts them.
    Process(u32),
    /// A control group: bounds for everything in it.
    Cgroup(PathBuf),
    /// All vCPUs of a VM, including later ones. The VM is given by name, uuid or process ID.
    Vm(String),
}

/// The answer to an order or a query about clamps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClampReport {
    /// The target.
    pub target: ClampTarget,
    /// The clamps as they were set.
    pub own: Clamp,
    /// The clamps in force, within the clamps of the groups above. For a thread, they are as of
    /// when the thread was last enqueued. If the target has several threads, they are those of the
    /// first thread.
    pub effective: Clamp,
}

/// An order or a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClampOrder {
    /// Set clamps.
    Set(ClampTarget, Clamp),
    /// Report clamps.
    Get(ClampTarget),
    /// Report all clamps that were set and whose target still exists.
    List,
}

/// The clamps that were set since the daemon started. Used by the daemon's main thread.
#[derive(Debug, Default)]
pub struct Clamps {
    set: Vec<Set>,
}

/// The clamps of one target.
#[derive(Debug)]
struct Set {
    target: ClampTarget,
    clamp: Clamp,
    members: Members,
}

/// The threads or groups that a target stands for now. The number beside a thread is the start time
/// of the thread, which distinguishes it from a later thread with the same ID. The number beside a
/// group is 0.
type Members = Vec<(Member, u64)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Task(u32),
    Group(u64),
}

impl From<Member> for ClampOf {
    fn from(member: Member) -> ClampOf {
        match member {
            Member::Task(tid) => ClampOf::Task(tid),
            Member::Group(id) => ClampOf::Group(id),
        }
    }
}

impl Clamps {
    /// Carries out an order.
    ///
    /// # Errors
    /// [`CommandError`]: one line that explains what to do.
    pub fn carry_out(
        &mut self,
        order: ClampOrder,
        sensor: &Sensor,
        vms: &Vms,
        proc_root: &Path,
    ) -> Result<Vec<ClampReport>, CommandError> {
        match order {
            ClampOrder::Set(target, clamp) => {
                let clamp = clamp.check()?;
                let members = members(&target, sensor, vms, proc_root)?;
                let report = apply(sensor, &target, &members, Some(clamp))?;
                self.set.retain(|other| other.target != target);
                if clamp != Clamp::NONE {
                    self.set.push(Set { target, clamp, members });
                }
                Ok(vec![report])
            }
            ClampOrder::Get(target) => {
                let members = members(&target, sensor, vms, proc_root)?;
                Ok(vec![apply(sensor, &target, &members, None)?])
            }
            ClampOrder::List => {
                // Keep the clamps of a VM while exactly one VM has that name, because vCPUs come
                // and go. Keep them also while one of the threads exists, because another VM may
                // have got the same name.
                self.set.retain_mut(|one| {
                    let is_called = matches!(one.target, ClampTarget::Vm(_))
                        && members(&one.target, sensor, vms, proc_root).is_ok();
                    is_called || one.still_exists(proc_root)
                });
                let mut reports = Vec::new();
                for one in &self.set {
                    reports.extend(apply(sensor, &one.target, &one.members, None));
                }
                Ok(reports)
            }
        }
    }

    /// Sets the clamps that a thread has requested from the kernel. Returns false if the scheduler
    /// has no such thread.
    pub fn take_over(&mut self, tid: u32, start: u64, clamp: Clamp, sensor: &Sensor) -> bool {
        let target = ClampTarget::Task(tid);
        let one = Member::Task(tid);
        if !matches!(look(sensor, one, Some(clamp)), Ok(Some(_))) {
            return false;
        }
        self.set.retain(|other| other.target != target);
        self.set.push(Set { target, clamp, members: vec![(one, start)] });
        true
    }

    /// Undoes [`Clamps::take_over`], unless other clamps were set in the meantime.
    pub fn hand_back(&mut self, tid: u32, clamp: Clamp, sensor: &Sensor) {
        let one = Member::Task(tid);
        let is_taken = |found: Found| Clamp::from(found.own) == clamp;
        if look(sensor, one, None).is_ok_and(|found| found.is_none_or(is_taken)) {
            let _ = look(sensor, one, Some(Clamp::NONE));
            self.set.retain(|one| one.target != ClampTarget::Task(tid));
        }
    }

    /// Sets the clamps of each VM for the vCPUs that have appeared since the clamps were set.
    pub fn follow_vms(&mut self, sensor: &Sensor, vms: &Vms, proc_root: &Path) {
        for one in &mut self.set {
            if !matches!(one.target, ClampTarget::Vm(_)) {
                continue;
            }
            let Ok(now) = members(&one.target, sensor, vms, proc_root) else { continue };
            for new in now.iter().filter(|new| !one.members.contains(new)) {
                let _ = look(sensor, new.0, Some(one.clamp));
            }
            one.members = now;
        }
    }

    /// Sets all clamps again. To be called after the scheduler was started again, because it then
    /// knows no clamps.
    pub fn set_again(&mut self, sensor: &Sensor, proc_root: &Path) {
        // Keep the clamps of all VMs, because vCPUs come and go.
        self.set.retain_mut(|one| {
            one.still_exists(proc_root) || matches!(one.target, ClampTarget::Vm(_))
        });
        for one in &self.set {
            for (member, _) in &one.members {
                let _ = look(sensor, *member, Some(one.clamp));
            }
        }
    }
}

impl Set {
    /// Forgets threads that have ended. Returns false if no thread or group is left.
    fn still_exists(&mut self, proc_root: &Path) -> bool {
        self.members.retain(|one| still(one, proc_root));
        !self.members.is_empty()
    }
}

fn invalid(line: impl Into<String>) -> CommandError {
    CommandError::Invalid(line.into())
}

fn look(sensor: &Sensor, of: Member, set: Option<Clamp>) -> Result<Option<Found>, SensorError> {
    match set {
        Some(clamp) => sensor.set_clamp(of.into(), clamp.into()),
        None => sensor.clamps(of.into()),
    }
}

fn apply(
    sensor: &Sensor,
    target: &ClampTarget,
    members: &Members,
    set: Option<Clamp>,
) -> Result<ClampReport, CommandError> {
    let mut first = None;
    for (one, _) in members {
        let found = look(sensor, *one, set).map_err(|e| invalid(e.to_string()))?;
        first = first.or(found);
    }
    let found = first.ok_or_else(|| nobody(target))?;
    let target = target.clone();
    Ok(ClampReport { target, own: found.own.into(), effective: found.effective.into() })
}

fn nobody(target: &ClampTarget) -> CommandError {
    invalid(match target {
        ClampTarget::Task(tid) => {
            format!("thread {tid} is gone, or paracord's scheduler has no part in it (real-time)")
        }
        ClampTarget::Process(pid) => format!("process {pid} is gone"),
        ClampTarget::Vm(name) => format!("VM {name:?} has no vCPU now"),
        ClampTarget::Cgroup(path) => format!(
            "{} has no cpu controller: echo +cpu > {}/cgroup.subtree_control, or clamp the group above",
            path.display(),
            path.parent().unwrap_or(Path::new(CGROUPS)).display()
        ),
    })
}

fn still(one: &(Member, u64), proc_root: &Path) -> bool {
    match one {
        (Member::Task(tid), start) => {
            proc::thread_start_ticks(proc_root, *tid).is_ok_and(|now| now == *start)
        }
        // IDs of groups are not reused.
        (Member::Group(_), _) => true,
    }
}

/// The threads or groups that a target stands for now.
fn members(
    target: &ClampTarget,
    sensor: &Sensor,
    vms: &Vms,
    proc_root: &Path,
) -> Result<Members, CommandError> {
    let tasks = |tids: Vec<u32>| -> Members {
        let start = |tid| proc::thread_start_ticks(proc_root, tid).ok();
        tids.into_iter().filter_map(|tid| Some((Member::Task(tid), start(tid)?))).collect()
    };
    let found = match target {
        ClampTarget::Task(tid) => tasks(vec![*tid]),
        ClampTarget::Process(pid) => tasks(threads(proc_root, *pid).unwrap_or_default()),
        ClampTarget::Cgroup(path) => vec![(Member::Group(group_id(path)?), 0)],
        ClampTarget::Vm(name) => {
            let vm = vms.find(name)?;
            let tid = |index: &u32| sensor.vcpus().get(*index).map(|vcpu| vcpu.tid());
            tasks(vm.vcpus.keys().filter_map(tid).collect())
        }
    };
    if found.is_empty() { Err(nobody(target)) } else { Ok(found) }
}

fn threads(proc_root: &Path, pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(proc_root.join(pid.to_string()).join("task"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect())
}

/// The ID of a control group, which is the inode number of its directory. A relative path starts at
/// `CGROUPS`. Paths outside this directory are not looked at, because users who may send orders
/// could otherwise find out which files exist.
fn group_id(path: &Path) -> Result<u64, CommandError> {
    let fail = |reason: &str| invalid(format!("{}: {reason}", path.display()));
    let full = Path::new(CGROUPS).join(path);
    let leaves = full.components().any(|part| part == Component::ParentDir);
    if leaves || !full.starts_with(CGROUPS) {
        return Err(fail(&format!("not a control group: give a directory below {CGROUPS}")));
    }
    // Only the user root can make symbolic links in this directory tree, so the path is not checked
    // for them.
    if !full.join("cgroup.procs").exists() {
        return Err(fail("there is no such control group"));
    }
    Ok(fs::metadata(&full).map_err(|e| fail(&e.to_string()))?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamps_are_in_order_and_on_the_scale() {
        let refusal = |min, max| Clamp { min, max }.check().unwrap_err().to_string();
        assert_eq!(refusal(0, 1025), "max 1025 is not allowed: 0 to 1024");
        assert_eq!(refusal(300, 200), "min 300 is above max 200");
        assert!(Clamp { min: 200, max: 200 }.check().is_ok());
        assert!(Clamp::NONE.check().is_ok());
    }

    #[test]
    fn only_directories_of_control_groups_have_a_number() {
        let refusal = |path: &str| group_id(Path::new(path)).unwrap_err().to_string();
        // The error is the same whether the path exists or not.
        for path in
            ["/etc", "/no/such/file", "../../etc", "a/../../../etc", "/sys/fs/cgroup/../../etc"]
        {
            let want = format!("{path}: not a control group: give a directory below {CGROUPS}");
            assert_eq!(refusal(path), want);
        }
        assert_eq!(refusal("no-such-group"), "no-such-group: there is no such control group");
    }
}
