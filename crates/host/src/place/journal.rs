// SPDX-License-Identifier: GPL-2.0-only
//! A journal of the affinity that every placed thread had before its placement. The journal is a
//! file that outlives the daemon ([`crate::boosts::journal_file`]).
//!
//! As in the [journal of boosts](crate::boosts::journal), the daemon completes an entry before it
//! changes the thread, and clears the entry after it has restored the thread.
//!
//! ```text
//! per entry 34 words:
//!   0  armed (1) | tid << 32          1  start of the thread, clock ticks since boot
//!   2..18  affinity before            18..34  affinity that the placement gave
//! ```

use std::io;
use std::path::{Path, PathBuf};

use paracord_sys::affinity::{self, CpuMask, WORDS};
use paracord_sys::proc::{self, ProcError};

use crate::boosts::journal::{RestoreReport, Restored};
use crate::boosts::journal_file::{Armed, ENTRIES, JournalError, JournalFile};

/// "PCPLACE" and the version of the layout.
const MAGIC: u64 = 0x4543_414c_5043_5001;
const ENTRY_WORDS: usize = 2 + 2 * WORDS;
const BEFORE: usize = 2;
const GIVEN: usize = BEFORE + WORDS;

/// One placed thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Thread ID.
    pub tid: u32,
    /// Start time of the thread, in clock ticks since boot. It distinguishes the thread from a
    /// later one with the same ID.
    pub start_ticks: u64,
    /// The affinity that the thread gets back. It is [`CpuMask::ALL`] if the thread had all CPUs of
    /// its cpuset. With this mask, the restored thread follows later changes of the cpuset.
    pub before: CpuMask,
    /// The affinity that the placement gave the thread.
    pub given: CpuMask,
}

impl Entry {
    /// Restores the affinity of the thread, if the thread still has the affinity that the placement
    /// gave it.
    ///
    /// # Errors
    /// The errors of the system calls.
    pub fn restore(&self, proc_root: &Path) -> io::Result<Restored> {
        let gone = |error: ProcError| match error.is_gone() {
            true => Ok(Restored::Gone),
            false => Err(io::Error::other(error)),
        };
        match proc::thread_start_ticks(proc_root, self.tid) {
            Ok(start) if start == self.start_ticks => {}
            Ok(_) => return Ok(Restored::Gone),
            Err(error) => return gone(error),
        }
        match proc::allowed_cpus(proc_root, self.tid) {
            Ok(now) if now == self.given => {}
            Ok(_) => return Ok(Restored::NotOurs),
            Err(error) => return gone(error),
        }
        match affinity::set(self.tid, &self.before) {
            Ok(()) => Ok(Restored::Done),
            Err(error) => match error.raw_os_error() {
                Some(libc::ESRCH) => Ok(Restored::Gone),
                // The cpuset no longer contains any CPU of `before`. The closest replacement is the
                // whole cpuset.
                Some(libc::EINVAL) => {
                    affinity::set(self.tid, &CpuMask::ALL).map(|()| Restored::Done)
                }
                _ => Err(error),
            },
        }
    }
}

/// The mapped journal file.
#[derive(Debug)]
pub struct PlaceJournal {
    file: JournalFile<ENTRY_WORDS>,
}

impl PlaceJournal {
    /// Path of the journal file.
    pub fn path(run_dir: &Path) -> PathBuf {
        run_dir.join("placements")
    }

    /// Creates an empty journal in the run directory, with mode 0600. Replaces an existing file.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn create(run_dir: &Path, proc_root: &Path) -> Result<PlaceJournal, JournalError> {
        let file = JournalFile::create(&Self::path(run_dir), proc_root, MAGIC)?;
        Ok(PlaceJournal { file })
    }

    /// Opens the journal in the run directory and keeps its entries. If there is no journal from
    /// this boot, creates an empty one.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn keep(run_dir: &Path, proc_root: &Path) -> Result<PlaceJournal, JournalError> {
        let file = JournalFile::keep(&Self::path(run_dir), proc_root, MAGIC)?;
        Ok(PlaceJournal { file })
    }

    /// Opens the journal in the run directory. Returns `None` if there is no journal, or if the
    /// journal is from an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`] if the file cannot be read or is not a journal.
    pub fn open(run_dir: &Path, proc_root: &Path) -> Result<Option<PlaceJournal>, JournalError> {
        let file = JournalFile::open(&Self::path(run_dir), proc_root, MAGIC)?;
        Ok(file.map(|file| PlaceJournal { file }))
    }

    /// Completes entry `index`, which must be clear. The thread may be changed only after this
    /// call.
    pub fn arm(&self, index: u32, entry: &Entry) {
        let masks = entry.before.words().iter().chain(entry.given.words());
        self.file.arm(index, entry.tid, [entry.start_ticks].into_iter().chain(masks.copied()));
    }

    /// Clears entry `index`. The thread must have been restored before, or be gone.
    pub fn disarm(&self, index: u32) {
        self.file.disarm(index);
    }

    /// Entry `index`, if it is armed.
    pub fn entry(&self, index: u32) -> Option<Entry> {
        let (tid, words) = self.file.entry(index)?;
        let mask = |at: usize| CpuMask::from_words(std::array::from_fn(|n| words[at + n]));
        Some(Entry { tid, start_ticks: words[1], before: mask(BEFORE), given: mask(GIVEN) })
    }

    /// The thread of entry `index`, if the entry is armed.
    pub fn armed(&self, index: u32) -> Option<Armed> {
        self.file.armed(index)
    }

    /// Whether no thread has an entry.
    pub fn is_clear(&self) -> bool {
        self.file.is_clear()
    }

    /// Restores the thread of entry `index` and clears the entry. `None`: there is no entry.
    ///
    /// # Errors
    /// As for [`Entry::restore`]. After an error, the entry stays.
    pub fn restore(&self, index: u32, proc_root: &Path) -> io::Result<Option<Restored>> {
        let Some(entry) = self.entry(index) else { return Ok(None) };
        let restored = entry.restore(proc_root)?;
        self.disarm(index);
        Ok(Some(restored))
    }

    /// Restores all threads that have an entry. Nothing else may use the journal meanwhile.
    pub fn restore_all(&self, proc_root: &Path, report: &mut RestoreReport) {
        for index in 0..ENTRIES {
            self.restore_one(index, proc_root, report);
        }
    }

    /// Like [`restore`](Self::restore), but adds the result to a report.
    pub fn restore_one(&self, index: u32, proc_root: &Path, report: &mut RestoreReport) {
        let tid = self.armed(index).map_or(0, |armed| armed.tid);
        match self.restore(index, proc_root) {
            Ok(None) => {}
            Ok(Some(Restored::Done)) => report.placements += 1,
            Ok(Some(Restored::Gone)) => report.gone += 1,
            Ok(Some(Restored::NotOurs)) => report.not_ours += 1,
            Err(error) => report.failed.push(format!("CPUs of thread {tid}: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::sleeper::Sleeper;

    const PROC: &str = "/proc";

    fn scratch(name: &str) -> PathBuf {
        let name = format!("paracord-place-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn mask(list: &str) -> CpuMask {
        list.parse().unwrap()
    }

    #[test]
    fn entries_survive_their_writer_and_the_gone_are_forgotten() {
        let dir = scratch("survive");
        let proc = Path::new(PROC);
        assert!(PlaceJournal::open(&dir, proc).unwrap().is_none());
        let entry = Entry {
            tid: 4_000_000,
            start_ticks: 99,
            before: mask("0-3,1023"),
            given: mask("5,64"),
        };
        PlaceJournal::create(&dir, proc).unwrap().arm(ENTRIES - 1, &entry);
        let reader = PlaceJournal::open(&dir, proc).unwrap().unwrap();
        assert_eq!((reader.entry(ENTRIES - 1), reader.entry(0)), (Some(entry), None));
        let mut report = RestoreReport::default();
        reader.restore_all(proc, &mut report);
        assert_eq!(report, RestoreReport { gone: 1, ..RestoreReport::default() });
        assert_eq!(reader.entry(ENTRIES - 1), None);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_thread_has_its_cpus_again_unless_somebody_else_changed_them() {
        let dir = scratch("restore");
        let proc = Path::new(PROC);
        let journal = PlaceJournal::create(&dir, proc).unwrap();
        let sleeper = Sleeper::start();
        let before = sleeper.cpus();
        let given: CpuMask = before.iter().take(1).collect();
        let entry = Entry { tid: sleeper.tid, start_ticks: sleeper.start_ticks(), before, given };
        // This simulates a daemon that was killed before it changed the thread. The affinity of the
        // thread differs from `given`, unless there is only one CPU.
        journal.arm(0, &entry);
        let untouched = if before == given { Restored::Done } else { Restored::NotOurs };
        assert_eq!(journal.restore(0, proc).unwrap(), Some(untouched));
        assert_eq!(journal.restore(0, proc).unwrap(), None);

        journal.arm(0, &entry);
        affinity::set(sleeper.tid, &given).unwrap();
        assert_eq!(journal.restore(0, proc).unwrap(), Some(Restored::Done));
        assert_eq!(sleeper.cpus(), before);

        // A later thread with the same ID was not placed, so it is not restored.
        affinity::set(sleeper.tid, &given).unwrap();
        journal.arm(0, &Entry { start_ticks: entry.start_ticks + 1, ..entry });
        assert_eq!(journal.restore(0, proc).unwrap(), Some(Restored::Gone));
        assert_eq!(sleeper.cpus(), given);

        // The only CPU in the affinity before the placement does not exist any more.
        journal.arm(0, &Entry { before: mask("1023"), ..entry });
        assert_eq!(journal.restore(0, proc).unwrap(), Some(Restored::Done));
        assert_eq!(sleeper.cpus(), before);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
