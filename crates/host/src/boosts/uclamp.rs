// SPDX-License-Identifier: GPL-2.0-only
//! What guests ask for, without paracord's scheduler: utilisation clamps of their vCPUs' threads.
//!
//! The kernel's own scheduler takes them (`uclamp.min`, `uclamp.max`). What a thread had is in a journal before it
//! gets others, so whoever outlives the daemon can give it back. Like the actuator, whose thread this runs
//! on, nothing here allocates, waits or logs.
//!
//! ```text
//! an entry of the journal, behind its head (see journal_file.rs):
//!   1  thread start, clock ticks since boot      2  min | max << 32 that the thread had; ~0: none of its own
//!   3  min | max << 32 as given                  4  the same as given before that
//! ```
//! Two are noted as given: the daemon may die between the note and the change.

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
/// A clamp that a thread did not ask for.
const NONE: u32 = u32::MAX;

/// A pair of clamps, least and most.
type Pair = (u32, u32);

/// A thread whose clamps are its guest's.
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

    /// What the host lets the guest ask for.
    fn host(&self) -> pc_clamp {
        let or = |value, otherwise| if value == NONE { otherwise } else { value };
        pc_clamp { min: or(self.had.0, 0), max: or(self.had.1, PC_CAPACITY) }
    }

    /// The thread has its own again, unless somebody else has changed them since.
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

/// What thread `tid` asked the kernel for. A real-time thread that did not ask shows the highest least.
fn asked(tid: u32) -> io::Result<Pair> {
    let (min, max) = sched::util_clamps(tid)?;
    if (min, max) == (0, 0) {
        // Said by a kernel without clamps, which refuses this; for others it changes nothing.
        sched::set_util_clamps(tid, Util::Keep, Util::To(0))?;
    }
    let no_min = min == 0 || (min == PC_CAPACITY && sched::get(tid)?.is_realtime());
    Ok((if no_min { NONE } else { min }, if max == PC_CAPACITY { NONE } else { max }))
}

/// The journal, and the clamps in force by vCPU index.
#[derive(Debug)]
pub struct Uclamps {
    journal: Option<JournalFile<WORDS>>,
    held: Vec<Option<Uclamp>>,
    count: usize,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The thread's clamps are what the guest asks for.
    InForce,
    /// The guest asks for nothing: the thread has its own.
    Nothing,
    /// The thread has ended.
    Gone,
}

impl Uclamps {
    /// None in force; the journal is the file at [`keep`]'s path. Without one nothing is changed.
    pub fn open(path: &Path, proc_root: &Path) -> Result<Uclamps, JournalError> {
        let journal = JournalFile::open(path, proc_root, MAGIC)?;
        Ok(Uclamps { journal, held: vec![None; ENTRIES as usize], count: 0 })
    }

    /// How many threads have their guests' clamps.
    pub fn count(&self) -> usize {
        self.count
    }

    /// vCPU `index`, whose thread is alive, asks for `request` and at most `limit`.
    ///
    /// # Errors
    /// What the system calls return: EOPNOTSUPP on kernels without clamps.
    pub fn ask(
        &mut self,
        index: u32,
        thread: Thread,
        request: u32,
        limit: u32,
    ) -> io::Result<Asked> {
        let Some(journal) = &self.journal else { return Ok(Asked::Nothing) };
        let Some(slot) = self.held.get_mut(index as usize) else { return Ok(Asked::Nothing) };
        // A thread of an earlier run that has not got its own back yet (leftovers.rs).
        if slot.is_none() && journal.is_armed(index) {
            return Ok(Asked::Nothing);
        }
        // An earlier thread's.
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
                // As before: with clamps of the guest's, or with its own.
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

    /// The thread of vCPU `index` has its own clamps again. The caller knows that it lives.
    ///
    /// # Errors
    /// What the system calls return; the journal's entry stays, for whoever tries again.
    pub fn release(&mut self, index: u32) -> io::Result<()> {
        let held = self.held.get(index as usize).copied().flatten();
        held.map_or(Ok(Restored::Gone), |held| held.restore())?;
        self.forget(index);
        Ok(())
    }

    /// The thread of vCPU `index` has ended.
    pub fn forget(&mut self, index: u32) {
        // An entry without one is a thread's of an earlier run, which keeps it (leftovers.rs).
        let held = self.held.get_mut(index as usize).and_then(Option::take);
        if let Some((journal, _)) = self.journal.as_ref().zip(held) {
            self.count -= 1;
            journal.disarm(index);
        }
    }

    /// Whether this thread has clamps as vCPU `index`.
    pub fn is_of(&self, index: u32, thread: Thread) -> bool {
        self.held.get(index as usize).copied().flatten().is_some_and(|held| held.thread == thread)
    }
}

/// Keeps this boot's journal, or makes an empty one.
///
/// # Errors
/// [`JournalError`].
pub fn keep(path: &Path, proc_root: &Path) -> Result<(), JournalError> {
    JournalFile::<WORDS>::keep(path, proc_root, MAGIC).map(drop)
}

/// The journal by itself: for those who restore.
#[derive(Debug)]
pub struct UclampJournal(JournalFile<WORDS>);

impl UclampJournal {
    /// Opens it; `None` when there is none, or one of an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path, proc_root: &Path) -> Result<Option<UclampJournal>, JournalError> {
        Ok(JournalFile::open(path, proc_root, MAGIC)?.map(UclampJournal))
    }

    /// Entry `index`'s thread, if it is armed.
    pub fn armed(&self, index: u32) -> Option<Armed> {
        self.0.armed(index)
    }

    /// Whether no thread has clamps of its guest's: nothing is left to restore.
    pub fn is_clear(&self) -> bool {
        self.0.is_clear()
    }

    /// Gives the thread of entry `index`, if it is armed, its own clamps. Nobody else may use that entry meanwhile.
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

/// Gives every thread of the journal its own clamps. Nobody else may use it meanwhile.
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
    use std::sync::mpsc::channel;

    /// A thread that lives as long as the closure runs.
    fn with_thread(body: impl FnOnce(Thread)) {
        let (tell, told) = channel();
        let (end, wait) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = wait.recv();
        });
        let tid = told.recv().unwrap();
        let start_ticks = proc::thread_start_ticks(Path::new("/proc"), tid).unwrap();
        body(Thread { tid, start_ticks });
        drop(end);
        thread.join().unwrap();
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
            // A kernel without them: nothing is held, and the error says so.
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
            // The daemon dies with a request in force.
            uclamps.ask(3, thread, 100, 200).unwrap();
            drop(uclamps);
            let mut report = RestoreReport::default();
            restore_all(&path, Path::new("/proc"), &mut report).unwrap();
            assert_eq!((now(), report.clamps), ((0, 600), 1));
            std::fs::remove_file(path).unwrap();
        });
    }

    /// What it had stands nowhere else.
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
