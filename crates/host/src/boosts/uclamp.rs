// SPDX-License-Identifier: GPL-2.0-only
//! Performance requests of guests while paracord's scheduler is not in force: they become
//! utilisation clamps of vCPU threads.
//!
//! The kernel's own scheduler follows these clamps (`uclamp.min`, `uclamp.max`). The clamps that a
//! thread had are written to a journal before the thread gets others, so that a process that
//! outlives the daemon can restore them. [`Uclamps`] runs on the actuator's thread: like the
//! actuator, it neither allocates nor waits nor logs once it is open.
//!
//! ```text
//! an entry of the journal, behind its head (see journal_file.rs):
//!   1  start time of the thread, clock ticks since boot
//!   2  min | max << 32 that the thread had; u32::MAX in place of a clamp that it had not set
//!   3  min | max << 32 as given
//!   4  min | max << 32 as given before that
//! ```
//! An entry contains the last two pairs of clamps that were given, because the daemon may die
//! between the write of the entry and the change of the thread.

use std::io;
use std::path::Path;

use paracord_policy::perf::guest_clamp;
use paracord_policy::{PC_CAPACITY, pc_clamp};
use paracord_sys::proc;
use paracord_sys::sched::{self, Util};

use crate::boosts::journal::{ENTRIES, RestoreReport, Restored};
use crate::boosts::journal_file::{Armed, JournalError, JournalFile};
use crate::boosts::thread::Thread;

/// "PCFLOR" and the layout's version.
const MAGIC: u64 = 0x524f_4c46_4350_0001;
const WORDS: usize = 5;
/// Stands for a clamp that the thread did not set.
const NONE: u32 = u32::MAX;

/// A pair of clamps: minimum and maximum.
type Pair = (u32, u32);

/// A thread that has the clamps that its guest requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Uclamp {
    thread: Thread,
    had: Pair,
    given: Pair,
    given_before: Pair,
}

fn word((low, high): Pair) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn pair(word: u64) -> Pair {
    (word as u32, (word >> 32) as u32)
}

impl Uclamp {
    fn words(&self) -> [u64; WORDS - 1] {
        let Uclamp { thread, had, given, given_before } = *self;
        [thread.start_ticks, word(had), word(given), word(given_before)]
    }

    fn from_words(tid: u32, words: [u64; WORDS]) -> Uclamp {
        Uclamp {
            thread: Thread { tid, start_ticks: words[1] },
            had: pair(words[2]),
            given: pair(words[3]),
            given_before: pair(words[4]),
        }
    }

    /// The clamps that the host has set: the bounds for the requests of the guest.
    fn host(&self) -> pc_clamp {
        let or = |value, otherwise| if value == NONE { otherwise } else { value };
        pc_clamp { min: or(self.had.0, 0), max: or(self.had.1, PC_CAPACITY) }
    }

    /// Restores the thread's own clamps, unless somebody else has changed them since.
    fn restore(&self) -> io::Result<Restored> {
        let now = match sched::util_clamps(self.thread.tid) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Restored::Gone),
            now => now?,
        };
        if now != self.given && now != self.given_before {
            return Ok(Restored::NotOurs);
        }
        let back = |value| if value == NONE { Util::Reset } else { Util::To(value) };
        match sched::set_util_clamps(self.thread.tid, back(self.had.0), back(self.had.1)) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(Restored::Gone),
            result => result.map(|()| Restored::Done),
        }
    }
}

/// Returns the clamps that thread `tid` has set. The kernel reports the highest value as the
/// minimum of a real-time thread that has set none.
fn asked(tid: u32) -> io::Result<Pair> {
    let (min, max) = sched::util_clamps(tid)?;
    if (min, max) == (0, 0) {
        // A kernel without clamps reports this pair too, but refuses the following call. On other
        // kernels this call changes nothing.
        sched::set_util_clamps(tid, Util::Keep, Util::To(0))?;
    }
    let no_min = min == 0 || (min == PC_CAPACITY && sched::get(tid)?.is_realtime());
    Ok((if no_min { NONE } else { min }, if max == PC_CAPACITY { NONE } else { max }))
}

/// The journal, and the clamps in force, by vCPU index.
#[derive(Debug)]
pub struct Uclamps {
    journal: Option<JournalFile<WORDS>>,
    held: Vec<Option<Uclamp>>,
    count: usize,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The thread has the clamps that the guest requests.
    InForce,
    /// The thread has its own clamps: the guest's request does not change them, or the journal
    /// cannot record a change.
    Nothing,
    /// The thread has ended.
    Gone,
}

impl Uclamps {
    /// Opens the journal that [`keep`] has created at `path`. No clamps are in force yet. If there
    /// is no journal, requests are ignored.
    pub fn open(path: &Path, proc_root: &Path) -> Result<Uclamps, JournalError> {
        let journal = JournalFile::open(path, proc_root, MAGIC)?;
        Ok(Uclamps { journal, held: vec![None; ENTRIES as usize], count: 0 })
    }

    /// Number of threads that have clamps that their guests requested.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Handles a performance request of the guest for vCPU `index`, whose thread is alive: at least
    /// `request`, and at most `limit` (0: no limit).
    ///
    /// # Errors
    /// Errors of the system calls, for example EOPNOTSUPP on kernels without clamps.
    pub fn ask(
        &mut self,
        index: u32,
        thread: Thread,
        request: u32,
        limit: u32,
    ) -> io::Result<Asked> {
        let Some(journal) = &self.journal else { return Ok(Asked::Nothing) };
        let Some(slot) = self.held.get_mut(index as usize) else { return Ok(Asked::Nothing) };
        // If the entry is armed although no clamps are held, it belongs to a thread of an earlier
        // run, whose clamps are not restored yet (leftovers.rs).
        if slot.is_none() && journal.is_armed(index) {
            return Ok(Asked::Nothing);
        }
        // If the slot holds the clamps of another thread, that thread has ended.
        if slot.is_some_and(|held| held.thread != thread) {
            journal.disarm(index);
            *slot = None;
            self.count -= 1;
        }
        let (had, given_before) = match slot {
            Some(held) => (held.had, held.given),
            None => match asked(thread.tid) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(Asked::Gone),
                had => {
                    let had = had?;
                    (had, had)
                }
            },
        };
        let mut clamps = Uclamp { thread, had, given: had, given_before };
        let host = clamps.host();
        let wanted = guest_clamp(host, request, limit);
        if wanted == host {
            return self.release(index).map(|()| Asked::Nothing);
        }
        clamps.given = (wanted.min, wanted.max);
        journal.arm(index, thread.tid, clamps.words());
        match sched::set_util_clamps(thread.tid, Util::To(wanted.min), Util::To(wanted.max)) {
            Ok(()) => {
                self.count += usize::from(slot.is_none());
                *slot = Some(clamps);
                Ok(Asked::InForce)
            }
            Err(error) => {
                // The thread still has its earlier clamps: those of an earlier request, or its own.
                match slot {
                    Some(held) => journal.arm(index, thread.tid, held.words()),
                    None => journal.disarm(index),
                }
                match error.raw_os_error() {
                    Some(libc::ESRCH) => Ok(Asked::Gone),
                    _ => Err(error),
                }
            }
        }
    }

    /// Gives the thread of vCPU `index` its own clamps back. The caller must know that the thread
    /// is alive.
    ///
    /// # Errors
    /// Errors of the system calls. In this case the journal entry stays, for a later attempt.
    pub fn release(&mut self, index: u32) -> io::Result<()> {
        let held = self.held.get(index as usize).copied().flatten();
        held.map_or(Ok(Restored::Gone), |held| held.restore())?;
        self.forget(index);
        Ok(())
    }

    /// Forgets the thread of vCPU `index`, which has ended.
    pub fn forget(&mut self, index: u32) {
        // If nothing is held here, an armed entry belongs to a thread of an earlier run, and stays
        // (leftovers.rs).
        let held = self.held.get_mut(index as usize).and_then(Option::take);
        if let Some((journal, _)) = self.journal.as_ref().zip(held) {
            self.count -= 1;
            journal.disarm(index);
        }
    }

    /// Whether `thread` has clamps that were requested for vCPU `index`.
    pub fn is_of(&self, index: u32, thread: Thread) -> bool {
        self.held.get(index as usize).copied().flatten().is_some_and(|held| held.thread == thread)
    }
}

/// Keeps the journal with its entries. If there is none, or if it is of an earlier boot, creates an
/// empty one.
///
/// # Errors
/// [`JournalError`].
pub fn keep(path: &Path, proc_root: &Path) -> Result<(), JournalError> {
    JournalFile::<WORDS>::keep(path, proc_root, MAGIC).map(drop)
}

/// The journal alone, for code that restores clamps.
#[derive(Debug)]
pub struct UclampJournal(JournalFile<WORDS>);

impl UclampJournal {
    /// Opens the journal. Returns `None` if there is none, or if it is of an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, proc_root: &Path) -> Result<Option<UclampJournal>, JournalError> {
        Ok(JournalFile::open(path, proc_root, MAGIC)?.map(UclampJournal))
    }

    /// The thread of entry `index`, if the entry is armed.
    pub fn armed(&self, index: u32) -> Option<Armed> {
        self.0.armed(index)
    }

    /// Whether no entry is armed, so that nothing is left to restore.
    pub fn is_clear(&self) -> bool {
        self.0.is_clear()
    }

    /// Gives the thread of entry `index` its own clamps back, if the entry is armed. Nothing else
    /// may use the entry meanwhile.
    pub fn restore(&self, index: u32, proc_root: &Path, report: &mut RestoreReport) {
        let Some((tid, words)) = self.0.entry(index) else { return };
        let clamps = Uclamp::from_words(tid, words);
        let restored = match proc::thread_start_ticks(proc_root, tid) {
            Ok(start) if start == clamps.thread.start_ticks => clamps.restore(),
            Ok(_) => Ok(Restored::Gone),
            Err(error) if error.is_gone() => Ok(Restored::Gone),
            Err(error) => Err(io::Error::other(error)),
        };
        match restored {
            Ok(Restored::Done) => report.clamps += 1,
            Ok(Restored::Gone | Restored::NotOurs) => {}
            Err(error) => return report.failed.push(format!("clamps of thread {tid}: {error}")),
        }
        self.0.disarm(index);
    }
}

/// Gives every thread in the journal its own clamps back. Nothing else may use the journal
/// meanwhile.
///
/// # Errors
/// [`JournalError`].
pub fn restore_all(
    path: &Path,
    proc_root: &Path,
    report: &mut RestoreReport,
) -> Result<(), JournalError> {
    let Some(journal) = UclampJournal::open(path, proc_root)? else { return Ok(()) };
    for index in 0..ENTRIES {
        journal.restore(index, proc_root, report);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::sleeper::Sleeper;

    /// Runs `body` with a thread that lives until `body` returns.
    fn with_thread(body: impl FnOnce(Thread)) {
        let sleeper = Sleeper::start();
        body(Thread { tid: sleeper.tid, start_ticks: sleeper.start_ticks() });
    }

    fn uclamps(name: &str) -> (std::path::PathBuf, Uclamps) {
        let path =
            std::env::temp_dir().join(format!("paracord-uclamps-{name}-{}", std::process::id()));
        keep(&path, Path::new("/proc")).unwrap();
        let uclamps = Uclamps::open(&path, Path::new("/proc")).unwrap();
        (path, uclamps)
    }

    fn is_supported(thread: Thread) -> bool {
        sched::set_util_clamps(thread.tid, Util::Keep, Util::To(PC_CAPACITY)).is_ok()
    }

    #[test]
    fn an_entry_is_what_was_written() {
        let clamps = Uclamp {
            thread: Thread { tid: 7, start_ticks: 99 },
            had: (NONE, 800),
            given: (300, 800),
            given_before: (NONE, 800),
        };
        let mut words = [0; WORDS];
        words[1..].copy_from_slice(&clamps.words());
        assert_eq!(Uclamp::from_words(7, words), clamps);
        assert_eq!(clamps.host(), pc_clamp { min: 0, max: 800 });
    }

    #[test]
    fn a_thread_gets_what_its_guest_asks_for_within_its_own_and_gets_its_own_back() {
        with_thread(|thread| {
            let (path, mut uclamps) = uclamps("ask");
            // On a kernel without clamps nothing is held, and the error shows why.
            if !is_supported(thread) {
                let error = uclamps.ask(3, thread, 500, 0).unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
                return assert_eq!(uclamps.count(), 0);
            }
            sched::set_util_clamps(thread.tid, Util::Keep, Util::To(600)).unwrap();
            let now = || sched::util_clamps(thread.tid).unwrap();
            assert_eq!(uclamps.ask(3, thread, 500, 0).unwrap(), Asked::InForce);
            assert_eq!(now(), (500, 600));
            assert_eq!(uclamps.ask(3, thread, 9999, 0).unwrap(), Asked::InForce);
            assert_eq!((now(), uclamps.count()), ((600, 600), 1));
            assert_eq!(uclamps.ask(3, thread, 0, 0).unwrap(), Asked::Nothing);
            assert_eq!((now(), uclamps.count()), ((0, 600), 0));
            // The daemon dies while a request is in force: the drop of `uclamps` stands in for its
            // death.
            uclamps.ask(3, thread, 100, 200).unwrap();
            drop(uclamps);
            let mut report = RestoreReport::default();
            restore_all(&path, Path::new("/proc"), &mut report).unwrap();
            assert_eq!((now(), report.clamps), ((0, 600), 1));
            std::fs::remove_file(path).unwrap();
        });
    }

    /// Such an entry is the only record of the clamps that the earlier thread had.
    #[test]
    fn the_entry_of_a_thread_of_an_earlier_run_is_neither_used_nor_forgotten() {
        with_thread(|thread| {
            let (path, mut uclamps) = uclamps("earlier");
            let other = Thread { tid: 4_000_000, start_ticks: 99 };
            let clamps = Uclamp { thread: other, had: (0, 0), given: (1, 1), given_before: (1, 1) };
            let journal = uclamps.journal.as_ref().unwrap();
            journal.arm(3, other.tid, clamps.words());
            let entry = journal.entry(3);
            assert_eq!(uclamps.ask(3, thread, 500, 0).unwrap(), Asked::Nothing);
            uclamps.release(3).unwrap();
            uclamps.forget(3);
            assert_eq!((uclamps.journal.as_ref().unwrap().entry(3), uclamps.count()), (entry, 0));
            std::fs::remove_file(path).unwrap();
        });
    }

    #[test]
    fn what_somebody_else_has_set_meanwhile_stays() {
        with_thread(|thread| {
            let (path, mut uclamps) = uclamps("others");
            if is_supported(thread) {
                uclamps.ask(0, thread, 500, 0).unwrap();
                sched::set_util_clamps(thread.tid, Util::To(77), Util::Keep).unwrap();
                uclamps.release(0).unwrap();
                assert_eq!(sched::util_clamps(thread.tid).unwrap().0, 77);
            }
            std::fs::remove_file(path).unwrap();
        });
    }
}
