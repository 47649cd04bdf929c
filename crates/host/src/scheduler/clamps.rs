// SPDX-License-Identifier: GPL-2.0-only
//! Clamps limit how much performance threads, control groups and VMs may request
//! (`paracord clamp`).
//!
//! These are paracord's own clamps. The kernel's frequency governor uses the largest clamp of a
//! CPU's tasks, whereas paracord adds up the requests of the tasks (docs/clamps.md). For the
//! kernel's clamps, see [`crate::scheduler::imports`].

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use paracord_sensor::{ClampOf, Clamps as Found, Error as SensorError, Sensor};
use paracord_sys::proc;

use crate::command_error::CommandError;
use crate::scheduler::clamp_order::{Clamp, ClampOrder, ClampReport, ClampTarget};
use crate::vms::Vms;

const CGROUPS: &str = "/sys/fs/cgroup";

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
    /// If the target is a VM, the user of this VM. Another user can give a VM the same name later,
    /// and that VM must not get these clamps.
    user: Option<u32>,
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
                    let user = user_of(&target, vms);
                    self.set.push(Set { target, clamp, members, user });
                }
                Ok(vec![report])
            }
            ClampOrder::Get(target) => {
                let members = members(&target, sensor, vms, proc_root)?;
                Ok(vec![apply(sensor, &target, &members, None)?])
            }
            ClampOrder::List => {
                // Keep the clamps of a VM while exactly one VM has its name, because vCPUs come and
                // go. Also keep the clamps while one of their threads exists, because another VM
                // may have got the same name.
                self.set.retain_mut(|one| {
                    let is_called = one.user.is_some()
                        && one.user == user_of(&one.target, vms)
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

    /// Makes `clamp`, which a thread has requested from the kernel, paracord's clamp of the thread.
    /// Returns false if the scheduler has no such thread.
    pub fn take_over(&mut self, tid: u32, start: u64, clamp: Clamp, sensor: &Sensor) -> bool {
        let target = ClampTarget::Task(tid);
        let one = Member::Task(tid);
        if !matches!(look(sensor, one, Some(clamp)), Ok(Some(_))) {
            return false;
        }
        self.set.retain(|other| other.target != target);
        self.set.push(Set { target, clamp, members: vec![(one, start)], user: None });
        true
    }

    /// Forgets the clamps of single threads that have ended. Programs can start and end any number
    /// of clamped threads.
    pub fn forget_ended(&mut self, proc_root: &Path) {
        self.set.retain_mut(|one| {
            !matches!(one.target, ClampTarget::Task(_)) || one.still_exists(proc_root)
        });
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
            if one.user.is_none() || one.user != user_of(&one.target, vms) {
                continue;
            }
            let Ok(now) = members(&one.target, sensor, vms, proc_root) else { continue };
            for new in now.iter().filter(|new| !one.members.contains(new)) {
                let _ = look(sensor, new.0, Some(one.clamp));
            }
            one.members = now;
        }
    }

    /// Sets all clamps again. Call this function after each start of the scheduler, because the
    /// scheduler starts without clamps.
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

/// The user of the VM that a target names. `None`: there is no such VM, or the target is no VM.
fn user_of(target: &ClampTarget, vms: &Vms) -> Option<u32> {
    match target {
        ClampTarget::Vm(name) => vms.find(name).ok().map(|vm| vm.identity.uid),
        _ => None,
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
/// `CGROUPS`. Paths outside this directory are refused without a look at the file system.
/// Otherwise, users who may send orders could find out which files exist.
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
    fn clamps_of_threads_that_have_ended_are_forgotten() {
        let (proc_root, own) = (Path::new("/proc"), std::process::id());
        let start = proc::thread_start_ticks(proc_root, own).unwrap();
        let one = |target, start| {
            let members = vec![(Member::Task(own), start)];
            Set { target, clamp: Clamp::NONE, members, user: None }
        };
        let mut clamps = Clamps::default();
        clamps.set.push(one(ClampTarget::Task(own), start));
        // An earlier thread with the same ID.
        clamps.set.push(one(ClampTarget::Task(own), start + 1));
        clamps.set.push(one(ClampTarget::Vm("web".into()), start + 1));
        clamps.forget_ended(proc_root);
        let left: Vec<_> = clamps.set.iter().map(|one| &one.target).collect();
        assert_eq!(left, [&ClampTarget::Task(own), &ClampTarget::Vm("web".into())]);
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
