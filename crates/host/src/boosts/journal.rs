// SPDX-License-Identifier: GPL-2.0-only
//! The scheduling attributes that threads had before their boosts, in a file that outlives the
//! daemon ([`crate::boosts::journal_file`]).
//!
//! The daemon completes an entry *before* it changes the thread, and clears the entry *after* it
//! has restored the thread. Whenever the daemon dies, every changed thread therefore has an entry.
//! An entry does not prove that its thread is changed: perhaps the daemon has not changed the
//! thread yet, or has restored it already. The current attributes of the thread show whether it is
//! changed.
//!
//! ```text
//! per entry 8 words:
//!   0  armed (1) | tid << 32          1  thread start, clock ticks since boot
//!   2  policy | nice << 32            3  priority | priority given by boost << 32
//!   4  flags    5  slice              6  process               7  process start, clock ticks
//! ```
//!
//! Earlier versions wrote 0 into words 6 and 7.

use std::fmt;
use std::io;
use std::path::Path;

use paracord_sys::proc;
use paracord_sys::sched::{self, FLAG_RESET_ON_FORK, SchedAttr, policy};

use crate::boosts::journal_file::{Armed, JournalFile};
use crate::boosts::thread::{Level, Process, Thread};

pub use crate::boosts::journal_file::{ENTRIES, JournalError};

/// "PCJRNL" and the layout's version.
const MAGIC: u64 = 0x4c4e_524a_4350_0001;
const ENTRY_WORDS: usize = 8;

/// The entry of one boosted thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The thread.
    pub thread: Thread,
    /// The process of the thread.
    pub process: Process,
    /// The attributes that the thread had before the boost. An unboost restores them. Their
    /// scheduling policy is never SCHED_DEADLINE, because the actuator does not boost deadline
    /// threads.
    pub before: SchedAttr,
    /// SCHED_RR priority of a full boost; see [`priority_at`](Entry::priority_at).
    pub boost_priority: u32,
}

/// Result of the attempt to restore one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The thread has its earlier attributes again.
    Done,
    /// The thread has ended.
    Gone,
    /// The thread was not restored, because it does not have the attributes of the boost. Either
    /// the daemon had not changed the thread yet, or the daemon had already restored it, or
    /// somebody else has changed it since.
    NotOurs,
}

/// The result of [`Journal::restore_all`] and of the functions that restore clamps and placements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Threads restored.
    pub restored: u32,
    /// Threads that had ended.
    pub gone: u32,
    /// Threads that were not restored (see [`Restored::NotOurs`]).
    pub not_ours: u32,
    /// Threads whose own kernel clamps were restored (uclamp.rs, imports.rs).
    pub clamps: u32,
    /// Threads that got back the CPU affinity that they had before their placement.
    pub placements: u32,
    /// The threads that could not be restored: one line per thread, with the reason.
    pub failed: Vec<String>,
}

impl fmt::Display for RestoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestoreReport { restored, gone, not_ours, clamps, placements, failed: _ } = self;
        write!(f, "{restored} restored, {gone} gone, {not_ours} no longer as they were changed")?;
        write!(f, "; clamps given back: {clamps}, CPUs given back: {placements}")
    }
}

/// The journal of boosts, a mapped file.
#[derive(Debug)]
pub struct Journal {
    file: JournalFile<ENTRY_WORDS>,
}

impl Entry {
    /// SCHED_RR priority that a boost of this level gives the thread. One entry covers both levels,
    /// so the journal stays correct while a boost is raised.
    pub fn priority_at(&self, level: Level) -> u32 {
        match level {
            Level::Full => self.boost_priority,
            Level::Interrupt => self.boost_priority.saturating_sub(1).max(1),
        }
    }

    /// Whether `now` contains the attributes of the boost. The owner of a real-time thread may
    /// lower the thread's priority. With RLIMIT_RTPRIO, the owner may also change SCHED_RR to
    /// SCHED_FIFO. But the owner may not clear the flag RESET_ON_FORK
    /// (user_check_sched_setscheduler()).
    fn is_as_given(&self, now: &SchedAttr) -> bool {
        matches!(now.policy, policy::RR | policy::FIFO)
            && now.priority <= self.boost_priority
            && now.flags & FLAG_RESET_ON_FORK != 0
    }

    /// If the thread still has the attributes of the boost, restores the attributes that it had
    /// before the boost. The caller must make sure that the ID in the entry still names the same
    /// thread.
    ///
    /// # Errors
    /// Errors of sched_getattr(2) and sched_setattr(2), other than ESRCH.
    pub fn restore(&self) -> io::Result<Restored> {
        self.restore_as(self.thread.tid)
    }

    /// Like [`restore`](Entry::restore), for a thread whose ID is now `tid`.
    ///
    /// # Errors
    /// As [`restore`](Entry::restore).
    pub fn restore_as(&self, tid: u32) -> io::Result<Restored> {
        let gone = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => Ok(Restored::Gone),
            _ => Err(error),
        };
        let now = match sched::get(tid) {
            Ok(now) => now,
            Err(error) => return gone(error),
        };
        if !self.is_as_given(&now) {
            return Ok(Restored::NotOurs);
        }
        match sched::set(tid, &self.before) {
            Ok(()) => Ok(Restored::Done),
            Err(error) => gone(error),
        }
    }

    /// Like [`restore`](Entry::restore), but first checks in procfs that the ID still names the
    /// same thread. A thread that is gone may have called execve(2), and then has the ID and the
    /// start time of the former thread group leader. So if the thread is gone, restores the leader
    /// of its process instead, provided that the leader has the attributes of the boost.
    ///
    /// # Errors
    /// Errors of the system calls.
    pub fn restore_checked(&self, proc_root: &Path) -> io::Result<Restored> {
        let Process { pid, start_ticks } = self.process;
        match proc::thread_start_ticks(proc_root, self.thread.tid) {
            Ok(start) if start == self.thread.start_ticks => match self.restore()? {
                // The thread has ended, or has called execve(2), since the check.
                Restored::Gone => {}
                restored => return Ok(restored),
            },
            Err(error) if !error.is_gone() => return Err(io::Error::other(error)),
            _ => {}
        }
        match proc::thread_start_ticks(proc_root, pid) {
            Ok(start) if start == start_ticks => match self.restore_as(pid)? {
                Restored::Done => Ok(Restored::Done),
                Restored::Gone | Restored::NotOurs => Ok(Restored::Gone),
            },
            Err(error) if !error.is_gone() => Err(io::Error::other(error)),
            _ => Ok(Restored::Gone),
        }
    }
}

impl Journal {
    /// Creates an empty journal with mode 0600. If there is a file at `path`, the journal replaces
    /// it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn create(path: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
        Ok(Journal { file: JournalFile::create(path, proc_root, MAGIC)? })
    }

    /// Opens the journal with all its entries. If there is no journal, or if the journal is from an
    /// earlier boot, creates an empty one.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn keep(path: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
        Ok(Journal { file: JournalFile::keep(path, proc_root, MAGIC)? })
    }

    /// Opens a journal. Returns `None` if there is none, or if it is from an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`] if the file cannot be read or is not a journal.
    pub fn open(path: &Path, proc_root: &Path) -> Result<Option<Journal>, JournalError> {
        Ok(JournalFile::open(path, proc_root, MAGIC)?.map(|file| Journal { file }))
    }

    /// Writes and arms entry `index` (below [`ENTRIES`]), which must not be armed for another
    /// thread. The caller may change the thread only afterwards.
    pub fn arm(&self, index: u32, entry: &Entry) {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let before = &entry.before;
        let thread = &entry.thread;
        let words = [
            thread.start_ticks,
            pair(before.policy, before.nice as u32),
            pair(before.priority, entry.boost_priority),
            before.flags,
            before.runtime_ns,
            entry.process.pid.into(),
            entry.process.start_ticks,
        ];
        self.file.arm(index, thread.tid, words);
    }

    /// Clears entry `index`, whose thread is restored or gone.
    pub fn disarm(&self, index: u32) {
        self.file.disarm(index);
    }

    /// Entry `index`, if it is armed.
    pub fn entry(&self, index: u32) -> Option<Entry> {
        let (tid, words) = self.file.entry(index)?;
        Some(Entry {
            thread: Thread { tid, start_ticks: words[1] },
            process: Process { pid: words[6] as u32, start_ticks: words[7] },
            before: SchedAttr {
                policy: words[2] as u32,
                nice: (words[2] >> 32) as u32 as i32,
                priority: words[3] as u32,
                flags: words[4],
                runtime_ns: words[5],
                ..SchedAttr::default()
            },
            boost_priority: (words[3] >> 32) as u32,
        })
    }

    /// Whether entry `index` is armed.
    pub fn is_armed(&self, index: u32) -> bool {
        self.file.is_armed(index)
    }

    /// The thread of entry `index`, if the entry is armed.
    pub fn armed(&self, index: u32) -> Option<Armed> {
        self.file.armed(index)
    }

    /// Whether no thread has an entry.
    pub fn is_clear(&self) -> bool {
        self.file.is_clear()
    }

    /// Restores every thread that has an entry. The daemon must be gone: no other process may use
    /// the journal meanwhile.
    pub fn restore_all(&self, proc_root: &Path) -> RestoreReport {
        let mut report = RestoreReport::default();
        // First restore the thread group leaders that have entries of their own, because the entry
        // of a thread that is gone may also restore the leader of that thread's process.
        let is_first = |index: &u32| {
            self.entry(*index).is_some_and(|entry| entry.thread.tid == entry.process.pid)
        };
        let (first, others): (Vec<u32>, Vec<u32>) = (0..ENTRIES).partition(is_first);
        for index in first.into_iter().chain(others) {
            self.restore(index, proc_root, &mut report);
        }
        report
    }

    /// Restores the thread of entry `index`, if the entry is armed. Nothing else may use the entry
    /// meanwhile.
    pub fn restore(&self, index: u32, proc_root: &Path, report: &mut RestoreReport) {
        let Some(entry) = self.entry(index) else { return };
        match entry.restore_checked(proc_root) {
            Ok(Restored::Done) => report.restored += 1,
            Ok(Restored::Gone) => report.gone += 1,
            Ok(Restored::NotOurs) => report.not_ours += 1,
            Err(error) => {
                return report.failed.push(format!("thread {}: {error}", entry.thread.tid));
            }
        }
        self.disarm(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("paracord-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn entry() -> Entry {
        Entry {
            thread: Thread { tid: 4_000_000, start_ticks: 99 },
            process: Process { pid: 3_999_999, start_ticks: 98 },
            before: SchedAttr { nice: -5, runtime_ns: 3_000_000, flags: 1, ..SchedAttr::default() },
            boost_priority: 8,
        }
    }

    #[test]
    fn entries_survive_their_writer() {
        let dir = scratch("journal");
        let (path, proc) = (dir.join("journal"), Path::new("/proc"));
        assert!(Journal::open(&path, proc).unwrap().is_none());
        let writer = Journal::create(&path, proc).unwrap();
        writer.arm(ENTRIES - 1, &entry());
        drop(writer);
        let reader = Journal::open(&path, proc).unwrap().unwrap();
        assert_eq!(reader.entry(ENTRIES - 1), Some(entry()));
        assert_eq!(reader.entry(0), None);
        let report = reader.restore_all(proc);
        assert_eq!(report, RestoreReport { gone: 1, ..RestoreReport::default() });
        assert_eq!(reader.entry(ENTRIES - 1), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn another_boot_and_broken_files() {
        let dir = scratch("journal-bad");
        let (path, proc) = (dir.join("journal"), Path::new("/proc"));
        let other = dir.join("sys/kernel/random/boot_id");
        std::fs::create_dir_all(other.parent().unwrap()).unwrap();
        std::fs::write(&other, "01234567-89ab-cdef-0123-456789abcdef\n").unwrap();
        Journal::create(&path, &dir).unwrap();
        assert!(Journal::open(&path, proc).unwrap().is_none());
        std::fs::write(&path, "short").unwrap();
        let error = Journal::open(&path, proc).unwrap_err().to_string();
        assert!(error.contains("too short"), "{error}");
        std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
        let error = Journal::open(&path, proc).unwrap_err().to_string();
        assert!(error.contains("not a journal"), "{error}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
