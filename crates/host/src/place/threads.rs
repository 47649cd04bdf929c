// SPDX-License-Identifier: GPL-2.0-only
//! Checks, places and restores single threads.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use paracord_sys::affinity::{self, CpuMask};
use paracord_sys::proc::{self, Cpuset, ProcError};

use super::journal::{Entry, PlaceJournal};
use crate::config::Who;
use crate::log_limit::UserLog;

/// The thread of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// Index of the vCPU in the sensor, which is also the index of its journal entry.
    pub index: u32,
    /// KVM vcpu_id.
    pub vcpu_id: u32,
    /// Thread ID.
    pub tid: u32,
    /// Start time of the thread, in clock ticks since boot. It distinguishes the thread from a
    /// later one with the same ID.
    pub start_ticks: u64,
    /// Host CPU on which the thread ran last.
    pub cpu: u32,
}

impl VcpuThread {
    /// Whether `other` is the same thread of the same vCPU, whatever CPU it ran on.
    pub fn is(&self, other: &VcpuThread) -> bool {
        let who = |one: &VcpuThread| (one.index, one.vcpu_id, one.tid, one.start_ticks);
        who(self) == who(other)
    }
}

/// The vCPUs that a VM has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmThreads {
    /// Process ID of the VM, and the start time of the process.
    pub process: (u32, u64),
    /// Name of the VM, as in the sections of the configuration.
    pub name: String,
    /// User that the VM runs as.
    pub uid: u32,
    /// Control group of the VM.
    pub cgroup: Option<String>,
    /// UUID of the VM.
    pub uuid: Option<String>,
    /// Name of the VMM's process.
    pub vmm: String,
    /// The limit on log lines about the VMs of this user.
    pub log: UserLog,
    /// The threads, in order of vcpu_id.
    pub threads: Vec<VcpuThread>,
}

impl VmThreads {
    /// The properties by which sections of the configuration select VMs.
    pub fn who(&self) -> Who<'_> {
        Who {
            name: &self.name,
            uid: Some(self.uid),
            cgroup: self.cgroup.as_deref(),
            uuid: self.uuid.as_deref(),
            vmm: Some(&self.vmm),
        }
    }
}

/// Why a thread was not placed.
#[derive(Debug)]
pub(super) enum Failed {
    /// The thread has ended, which is not a failure.
    Gone,
    /// The reason, one line.
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

/// Changes the affinity of threads, and keeps a journal.
#[derive(Debug)]
pub(super) struct Affinity {
    pub journal: Arc<PlaceJournal>,
    pub proc_root: PathBuf,
    /// Root of the file system: `/`.
    pub root: PathBuf,
}

impl Affinity {
    /// The cpuset of the thread.
    pub fn cpuset(&self, tid: u32) -> Result<Option<Cpuset>, Failed> {
        Ok(proc::cpuset(&self.proc_root, &self.root.join("sys/fs/cgroup"), tid)?)
    }

    /// CPUs that the thread may run on now.
    pub fn now(&self, tid: u32) -> Option<CpuMask> {
        proc::allowed_cpus(&self.proc_root, tid).ok()
    }

    /// Binds a thread to `cpus`. If the thread is already placed, it will still get back the
    /// affinity from before the first placement.
    pub fn give(&self, thread: VcpuThread, cpus: &CpuMask) -> Result<(), Failed> {
        // Restore the thread before it is placed again, so that its entry always records the
        // affinity from before the first placement.
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
        // Check again: if the thread ended between the first check and the change, another thread
        // may have its ID by now. That other thread gets back the affinity that was read above.
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
        // The cpuset has changed since it was read, or a CPU went offline.
        let _ = affinity::set(thread.tid, &before);
        self.journal.disarm(thread.index);
        Err(Failed::Refused(format!("the kernel leaves it only CPUs {now} of {cpus}")))
    }

    /// Restores the affinity of a thread, if the thread still has the affinity that its placement
    /// gave it. Does nothing if the thread has no entry.
    pub fn give_back(&self, index: u32) -> Result<(), Failed> {
        self.journal.restore(index, &self.proc_root)?;
        Ok(())
    }
}
