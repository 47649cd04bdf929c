// SPDX-License-Identifier: GPL-2.0-only
//! What every boosted thread had before, in a file that outlives the daemon.
//!
//! The file lies in the run directory and is mapped by the daemon, which writes
//! it, and by the supervisor, which reads it when the daemon is gone. Entry n
//! belongs to vCPU index n. The daemon completes an entry *before* it touches the
//! thread and clears it *after* it restored the thread, so whenever the
//! daemon dies, every changed thread has an entry; an entry whose thread was not
//! changed (yet, or any more) is recognised by the thread's own attributes.
//!
//! ```text
//! word 0  magic          1,2  boot id          3  entries         4..63  0
//! then per entry 8 words:
//!   0  armed (1) | tid << 32          1  thread start, clock ticks since boot
//!   2  policy | nice << 32            3  priority | priority given by boost << 32
//!   4  flags    5  runtime or slice   6  deadline                7  period
//! ```

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use paracord_sys::mapping::SharedWords;
use paracord_sys::proc;
use paracord_sys::sched::{self, SchedAttr, policy};

use crate::actuator::Level;

/// "PCJRNL" and the layout's version.
const MAGIC: u64 = 0x4c4e_524a_4350_0001;
const HEADER_WORDS: usize = 64;
const ENTRY_WORDS: usize = 8;
const ARMED: u64 = 1;

/// Entries of a journal: one per vCPU index of the sensor (`PC_VCPUS_MAX`).
pub const ENTRIES: u32 = 4096;

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
#[error("journal {}: {reason}", path.display())]
pub struct JournalError {
    path: PathBuf,
    reason: String,
}

/// One boosted thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Thread.
    pub tid: u32,
    /// Start of the thread, clock ticks since boot: tells a reused tid.
    pub start_ticks: u64,
    /// What the thread had; what an unboost gives back.
    pub before: SchedAttr,
    /// SCHED_RR priority of a full boost; see [`priority_at`](Entry::priority_at).
    pub boost_priority: u32,
}

/// How the restoring of one thread went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It has again what it had.
    Done,
    /// It has ended.
    Gone,
    /// It is not as the boost left it: not boosted yet, or changed by somebody
    /// else since. Left alone.
    NotOurs,
}

/// What [`Journal::restore_all`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Threads restored.
    pub restored: u32,
    /// Threads that had ended.
    pub gone: u32,
    /// Threads left alone (see [`Restored::NotOurs`]).
    pub not_ours: u32,
    /// Threads that have again the clamps that they asked the kernel for (imports.rs).
    pub clamps: u32,
    /// Threads that could not be restored, with the reason.
    pub failed: Vec<String>,
}

/// The mapped file.
#[derive(Debug)]
pub struct Journal {
    words: SharedWords,
}

impl Entry {
    /// SCHED_RR priority that a boost of this level gives the thread. One entry stands for
    /// both: a boost is raised without a moment in which the journal is wrong.
    pub fn priority_at(&self, level: Level) -> u32 {
        match level {
            Level::Full => self.boost_priority,
            Level::Interrupt => self.boost_priority.saturating_sub(1).max(1),
        }
    }

    fn is_as_given(&self, now: &SchedAttr) -> bool {
        let given = [Level::Full, Level::Interrupt].map(|level| self.priority_at(level));
        now.policy == policy::RR && given.contains(&now.priority)
    }

    /// Gives the thread back what it had, if it still is as the boost left it.
    /// The caller made sure that `tid` still is the same thread.
    ///
    /// # Errors
    /// What sched_setattr(2) returns, other than ESRCH.
    pub fn restore(&self) -> io::Result<Restored> {
        let gone = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => Ok(Restored::Gone),
            _ => Err(error),
        };
        let now = match sched::get(self.tid) {
            Ok(now) => now,
            Err(error) => return gone(error),
        };
        if !self.is_as_given(&now) {
            return Ok(Restored::NotOurs);
        }
        match sched::set(self.tid, &self.before) {
            Ok(()) => Ok(Restored::Done),
            Err(error) => gone(error),
        }
    }

    /// As [`restore`](Entry::restore), after a look into procfs whether `tid` still is the
    /// same thread.
    ///
    /// # Errors
    /// What the system calls return.
    pub fn restore_checked(&self, proc_root: &Path) -> io::Result<Restored> {
        match proc::thread_start_ticks(proc_root, self.tid) {
            Ok(start) if start == self.start_ticks => self.restore(),
            Ok(_) => Ok(Restored::Gone),
            Err(error) if error.is_gone() => Ok(Restored::Gone),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

impl Journal {
    /// Makes an empty journal, mode 0600, in place of what lies there.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn create(path: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
        let fail = |reason: &dyn ToString| JournalError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let boot = boot_words(proc_root).map_err(|e| fail(&e))?;
        let bytes = Self::total_words() * size_of::<u64>();
        let new = path.with_extension("new");
        let write = || -> io::Result<SharedWords> {
            let _ = std::fs::remove_file(&new);
            let file = File::options().read(true).write(true).create_new(true).open(&new)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            // Reserved now: a full disk must not surface as SIGBUS later.
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
            let words = SharedWords::map(file, Self::total_words())?;
            words[1].store(boot[0], Ordering::Relaxed);
            words[2].store(boot[1], Ordering::Relaxed);
            words[3].store(u64::from(ENTRIES), Ordering::Relaxed);
            words[0].store(MAGIC, Ordering::Release);
            std::fs::rename(&new, path)?;
            Ok(words)
        };
        write().map(|words| Journal { words }).map_err(|e| fail(&e))
    }

    /// Opens a journal; `None` when there is none, or one of an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`] when the file cannot be read or is no journal.
    pub fn open(path: &Path, proc_root: &Path) -> Result<Option<Journal>, JournalError> {
        let fail = |reason: &dyn ToString| JournalError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(&error)),
        };
        let words = SharedWords::map(file, Self::total_words()).map_err(|e| {
            let short = e.kind() == io::ErrorKind::UnexpectedEof;
            if short { fail(&"too short; remove it") } else { fail(&e) }
        })?;
        let word = |n: usize| words[n].load(Ordering::Acquire);
        if word(0) != MAGIC || word(3) != u64::from(ENTRIES) {
            return Err(fail(&"not a journal of this version; remove it"));
        }
        let boot = boot_words(proc_root).map_err(|e| fail(&e))?;
        Ok(([word(1), word(2)] == boot).then_some(Journal { words }))
    }

    fn total_words() -> usize {
        HEADER_WORDS + ENTRIES as usize * ENTRY_WORDS
    }

    fn slot(&self, index: u32) -> &[AtomicU64] {
        let at = HEADER_WORDS + index as usize * ENTRY_WORDS;
        &self.words[at..at + ENTRY_WORDS]
    }

    /// Completes entry `index` (below [`ENTRIES`]); the thread may be touched afterwards.
    pub fn arm(&self, index: u32, entry: &Entry) {
        let slot = self.slot(index);
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let before = &entry.before;
        slot[1].store(entry.start_ticks, Ordering::Relaxed);
        slot[2].store(pair(before.policy, before.nice as u32), Ordering::Relaxed);
        slot[3].store(pair(before.priority, entry.boost_priority), Ordering::Relaxed);
        slot[4].store(before.flags, Ordering::Relaxed);
        slot[5].store(before.runtime_ns, Ordering::Relaxed);
        slot[6].store(before.deadline_ns, Ordering::Relaxed);
        slot[7].store(before.period_ns, Ordering::Relaxed);
        // Pairs with the acquire in `entry`.
        slot[0].store(ARMED | u64::from(entry.tid) << 32, Ordering::Release);
    }

    /// Clears entry `index`; the thread was restored before, or is gone.
    pub fn disarm(&self, index: u32) {
        self.slot(index)[0].store(0, Ordering::Release);
    }

    /// Entry `index`, if it is armed.
    pub fn entry(&self, index: u32) -> Option<Entry> {
        let slot = self.slot(index);
        // Pairs with the release in `arm`.
        let head = slot[0].load(Ordering::Acquire);
        if head as u32 != ARMED as u32 {
            return None;
        }
        let word = |n: usize| slot[n].load(Ordering::Relaxed);
        Some(Entry {
            tid: (head >> 32) as u32,
            start_ticks: word(1),
            before: SchedAttr {
                policy: word(2) as u32,
                nice: (word(2) >> 32) as u32 as i32,
                priority: word(3) as u32,
                flags: word(4),
                runtime_ns: word(5),
                deadline_ns: word(6),
                period_ns: word(7),
            },
            boost_priority: (word(3) >> 32) as u32,
        })
    }

    /// Restores every thread that has an entry. Nobody else may use the
    /// journal meanwhile: the daemon is gone.
    pub fn restore_all(&self, proc_root: &Path) -> RestoreReport {
        let mut report = RestoreReport::default();
        for index in 0..ENTRIES {
            let Some(entry) = self.entry(index) else { continue };
            match entry.restore_checked(proc_root) {
                Ok(Restored::Done) => report.restored += 1,
                Ok(Restored::Gone) => report.gone += 1,
                Ok(Restored::NotOurs) => report.not_ours += 1,
                Err(error) => {
                    report.failed.push(format!("thread {}: {error}", entry.tid));
                    continue;
                }
            }
            self.disarm(index);
        }
        report
    }
}

/// The boot's identity as two words.
fn boot_words(proc_root: &Path) -> Result<[u64; 2], String> {
    let id = proc::boot_id(proc_root).map_err(|e| e.to_string())?;
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| format!("boot id {id:?}"))?;
    Ok([number as u64, (number >> 64) as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("paracord-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn entry() -> Entry {
        Entry {
            tid: 4_000_000,
            start_ticks: 99,
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
