// SPDX-License-Identifier: GPL-2.0-only
//! While paracord's scheduler is not active, performance requests of guests become utilisation
//! clamps of vCPU threads.
//!
//! The kernel's own scheduler follows these clamps (`uclamp.min`, `uclamp.max`). Before a thread
//! gets new clamps, its own clamps are written to a journal, so that a process that outlives the
//! daemon can restore them. [`Uclamps`] runs on the actuator's thread: after [`Uclamps::open`], it
//! neither allocates nor waits nor logs, like the actuator.
//!
//! ```text
//! an entry of the journal, after its head (see journal_file.rs):
//!   1  start time of the thread, clock ticks since boot
//!   2  own clamps: min | max << 32; u32::MAX for a clamp that the thread had not set
//!   3  clamps that the daemon set last: min | max << 32
//!   4  clamps that the daemon had set before those: min | max << 32
//! ```
//! An entry contains the last two pairs of clamps that the daemon set, because the daemon may die
//! after it has written the entry and before it has changed the thread.

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

/// A thread whose clamps come from a request of its guest.
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

    /// The clamps that the host has set for the thread. They bound the guest's requests.
    fn host(&self) -> pc_clamp {
        let or = |value, otherwise| if value == NONE { otherwise } else { value };
        pc_clamp { min: or(self.had.0, 0), max: or(self.had.1, PC_CAPACITY) }
    }

    /// Restores the thread's own clamps, unless somebody else has changed the thread's clamps
    /// since.
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

/// Returns the clamps that thread `tid` has set. For a real-time thread that has set no minimum,
/// the kernel reports the highest value as the minimum.
fn asked(tid: u32) -> io::Result<Pair> {
    let (min, max) = sched::util_clamps(tid)?;
    if (min, max) == (0, 0) {
        // A kernel without clamps also reports this pair, but refuses the following call. On a
        // kernel with clamps, the call changes nothing.
        sched::set_util_clamps(tid, Util::Keep, Util::To(0))?;
    }
    let no_min = min == 0 || (min == PC_CAPACITY && sched::get(tid)?.is_realtime());
    Ok((if no_min { NONE } else { min }, if max == PC_CAPACITY { NONE } else { max }))
}

/// The journal, and the clamps that come from guests' requests. Both are indexed by vCPU index.
#[derive(Debug)]
pub struct Uclamps {
    journal: Option<JournalFile<WORDS>>,
    held: Vec<Option<Uclamp>>,
    count: usize,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The thread has the clamps that the guest requested.
    InForce,
    /// The thread has its own clamps, because the guest's request does not change them or because
    /// the journal cannot record a change.
    Nothing,
    /// The thread has ended.
    Gone,
}

impl Uclamps {
    /// Opens the journal that [`keep`] has created at `path`. At first, no thread has clamps from a
    /// guest's request. If there is no journal, requests are ignored.
    pub fn open(path: &Path, proc_root: &Path) -> Result<Uclamps, JournalError> {
        let journal = JournalFile::open(path, proc_root, MAGIC)?;
        Ok(Uclamps { journal, held: vec![None; ENTRIES as usize], count: 0 })
    }

    /// Number of threads whose clamps come from requests of their guests.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Handles a guest's performance request for vCPU `index`, whose thread is alive. The guest
    /// asks for at least `request` and at most `limit` (0: no limit).
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
        // If the entry is armed although `slot` is empty, the entry belongs to a thread of an
        // earlier run whose clamps have not been restored yet (leftovers.rs).
        if slot.is_none() && journal.is_armed(index) {
            return Ok(Asked::Nothing);
        }
        // If `slot` holds the clamps of another thread, that thread has ended.
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
    /// Errors of the system calls. If a call fails, the journal entry stays for a later attempt.
    pub fn release(&mut self, index: u32) -> io::Result<()> {
        let held = self.held.get(index as usize).copied().flatten();
        held.map_or(Ok(Restored::Gone), |held| held.restore())?;
        self.forget(index);
        Ok(())
    }

    /// Forgets the thread of vCPU `index`. The thread must have ended.
    pub fn forget(&mut self, index: u32) {
        // If no clamps are held for this index, an armed entry belongs to a thread of an earlier
        // run. Such an entry stays (leftovers.rs).
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

/// Keeps an existing journal with its entries. If there is no journal, or if the journal is from an
/// earlier boot, creates an empty one.
///
/// # Errors
/// [`JournalError`].
pub fn keep(path: &Path, proc_root: &Path) -> Result<(), JournalError> {
    JournalFile::<WORDS>::keep(path, proc_root, MAGIC).map(drop)
}

/// Only the journal, without the clamps that [`Uclamps`] holds. For code that restores clamps.
#[derive(Debug)]
pub struct UclampJournal(JournalFile<WORDS>);

impl UclampJournal {
    /// Opens the journal. Returns `None` if there is none, or if it is from an earlier boot.
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
#[path = "uclamp_tests.rs"]
mod tests;
