// SPDX-License-Identifier: GPL-2.0-only
//! One thread at a time: checked, given its CPUs, and given back what it had.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use paracord_sys::affinity::{self, CpuMask};
use paracord_sys::proc::{self, Cpuset, ProcError};

use super::journal::{Entry, PlaceJournal};
use crate::config::Who;

/// A vCPU's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// Index of the vCPU in the sensor, which is that of its journal entry.
    pub index: u32,
    /// KVM vcpu_id.
    pub vcpu_id: u32,
    /// Thread.
    pub tid: u32,
    /// Its start, clock ticks since boot: another thread may have its number by now.
    pub start_ticks: u64,
    /// Host CPU on which it ran last.
    pub cpu: u32,
}

impl VcpuThread {
    /// Whether `other` is the same thread of the same vCPU, on whatever CPU it ran.
    pub fn is(&self, other: &VcpuThread) -> bool {
        let who = |one: &VcpuThread| (one.index, one.vcpu_id, one.tid, one.start_ticks);
        who(self) == who(other)
    }
}

/// The vCPUs that a VM has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmThreads {
    /// Its process, and when that started.
    pub process: (u32, u64),
    /// Name, as in the configuration's sections.
    pub name: String,
    /// User that it runs as.
    pub uid: u32,
    /// Its control group.
    pub cgroup: Option<String>,
    /// By vcpu_id.
    pub threads: Vec<VcpuThread>,
}

impl VmThreads {
    /// What the sections of the configuration are matched with.
    pub fn who(&self) -> Who<'_> {
        Who { name: &self.name, uid: Some(self.uid), cgroup: self.cgroup.as_deref() }
    }
}

/// Why a thread was not placed.
#[derive(Debug)]
pub(super) enum Failed {
    /// It has ended, which is no failure.
    Gone,
    /// One line.
    Refused(String),
}

impl From<ProcError> for Failed {
    fn from(error: ProcError) -> Failed {
        if error.is_gone() { Failed::Gone } else { Failed::Refused(error.to_string()) }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        match error.raw_os_error() {
            Some(libc::ESRCH) => Failed::Gone,
            _ => Failed::Refused(error.to_string()),
        }
    }
}

/// Changes threads' CPUs, with a journal.
#[derive(Debug)]
pub(super) struct Affinity {
    pub journal: Arc<PlaceJournal>,
    pub proc_root: PathBuf,
    /// `/`.
    pub root: PathBuf,
}

impl Affinity {
    /// What the thread's control group leaves to it.
    pub fn cpuset(&self, tid: u32) -> Result<Option<Cpuset>, Failed> {
        Ok(proc::cpuset(&self.proc_root, &self.root.join("sys/fs/cgroup"), tid)?)
    }

    /// What the thread may run on now.
    pub fn now(&self, tid: u32) -> Option<CpuMask> {
        proc::allowed_cpus(&self.proc_root, tid).ok()
    }

    /// Gives a thread these CPUs; what it had before an earlier placement stays what it gets back.
    pub fn give(&self, thread: VcpuThread, cpus: &CpuMask) -> Result<(), Failed> {
        // Between two placements the thread is as it was before the first: each moment has an entry that fits.
        self.give_back(thread.index)?;
        let start_ticks = proc::thread_start_ticks(&self.proc_root, thread.tid)?;
        if start_ticks != thread.start_ticks {
            return Err(Failed::Gone);
        }
        let had = proc::allowed_cpus(&self.proc_root, thread.tid)?;
        let cpuset = self.cpuset(thread.tid)?;
        let had_all = cpuset.is_some_and(|set| set.cpus.is_subset(&had));
        let before = if had_all { CpuMask::ALL } else { had };
        let entry = Entry { tid: thread.tid, start_ticks, before, given: *cpus };
        self.journal.arm(thread.index, &entry);
        if let Err(error) = affinity::set(thread.tid, cpus) {
            self.journal.disarm(thread.index);
            return Err(error.into());
        }
        // It ended between the look and the call, and its number may be another thread's by now: that one gets back what
        // the look saw.
        let still = proc::thread_start_ticks(&self.proc_root, thread.tid).ok();
        if still != Some(thread.start_ticks) {
            let _ = affinity::set(thread.tid, &before);
            self.journal.disarm(thread.index);
            return Err(Failed::Gone);
        }
        let now = proc::allowed_cpus(&self.proc_root, thread.tid)?;
        if now == *cpus {
            return Ok(());
        }
        // The cpuset has changed since it was looked at, or a CPU went offline.
        let _ = affinity::set(thread.tid, &before);
        self.journal.disarm(thread.index);
        Err(Failed::Refused(format!("the kernel leaves it only CPUs {now} of {cpus}")))
    }

    /// Gives a thread back what it had, if it still has what it was given. No entry: nothing to do.
    pub fn give_back(&self, index: u32) -> Result<(), Failed> {
        self.journal.restore(index, &self.proc_root)?;
        Ok(())
    }
}
