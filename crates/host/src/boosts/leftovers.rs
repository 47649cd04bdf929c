// SPDX-License-Identifier: GPL-2.0-only
//! Threads that an earlier run of the daemon changed, and that could not be restored so far.
//!
//! The journal entries of these threads are the only record of the attributes that the threads had
//! before. The entries stay in the journals, next to the entries of this run, and the daemon keeps
//! trying to restore the threads. Meanwhile this run does not overwrite these entries. Until the
//! thread of such an entry is restored or gone, a vCPU that gets the same index is restricted. The
//! restriction depends on the journal that contains the entry: the actuator rt does not boost this
//! vCPU, or the vCPU is not placed, or its performance requests are ignored. So a thread that
//! cannot be restored affects only one vCPU, and does not keep the daemon from running.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{info, warn};

use crate::boosts::journal::{ENTRIES, Journal, JournalError, RestoreReport};
use crate::boosts::journal_file::Armed;
use crate::boosts::uclamp::UclampJournal;
use crate::place::PlaceJournal;
use crate::run_dir::uclamp_path;

/// The threads that still have to be restored. Used by the daemon's main thread.
#[derive(Debug)]
pub struct Leftovers {
    proc_root: PathBuf,
    boosts: Arc<Journal>,
    clamps: Option<UclampJournal>,
    places: Option<PlaceJournal>,
    boosted: Vec<Armed>,
    clamped: Vec<Armed>,
    placed: Vec<Armed>,
    /// The errors of the last attempt to restore the threads.
    failed: Vec<String>,
}

impl Leftovers {
    /// Finds the threads that have entries now, and tries to restore them. To be called before this
    /// run writes its first entry.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn find(
        run_dir: &Path,
        boosts: Arc<Journal>,
        proc_root: &Path,
    ) -> Result<Leftovers, JournalError> {
        let clamps = UclampJournal::open(&uclamp_path(run_dir), proc_root)?;
        let places = PlaceJournal::open(run_dir, proc_root)?;
        let all = |armed: &dyn Fn(u32) -> Option<Armed>| (0..ENTRIES).filter_map(armed).collect();
        let boosted: Vec<Armed> = all(&|index| boosts.armed(index));
        let clamped: Vec<Armed> = all(&|index| clamps.as_ref()?.armed(index));
        let placed: Vec<Armed> = all(&|index| places.as_ref()?.armed(index));
        let proc_root = proc_root.to_owned();
        let failed = Vec::new();
        let mut found =
            Leftovers { proc_root, boosts, clamps, places, boosted, clamped, placed, failed };
        found.retry();
        if let Some(line) = found.line() {
            warn!("{line}");
        }
        Ok(found)
    }

    /// Tries again to restore the threads that are left.
    pub fn retry(&mut self) {
        if self.is_empty() {
            return;
        }
        let mut report = RestoreReport::default();
        let proc_root = &self.proc_root;
        let (boosts, clamps, places) = (&self.boosts, &self.clamps, &self.places);
        settle(
            &mut self.boosted,
            |index| boosts.armed(index),
            |index| boosts.restore(index, proc_root, &mut report),
        );
        if let Some(journal) = clamps {
            settle(
                &mut self.clamped,
                |index| journal.armed(index),
                |index| journal.restore(index, proc_root, &mut report),
            );
        }
        if let Some(journal) = places {
            settle(
                &mut self.placed,
                |index| journal.armed(index),
                |index| journal.restore_one(index, proc_root, &mut report),
            );
        }
        self.failed = report.failed;
        if self.is_empty() {
            info!("all threads of an earlier run are restored or gone");
        }
    }

    fn is_empty(&self) -> bool {
        self.boosted.is_empty() && self.clamped.is_empty() && self.placed.is_empty()
    }

    /// Describes in one line the changes that could not be undone; `None` if there are none.
    pub fn line(&self) -> Option<String> {
        let first = self.failed.first()?;
        let count = self.failed.len();
        Some(format!(
            "{count} changes of threads by an earlier run cannot be undone, which is tried again: {first}"
        ))
    }
}

/// Tries to restore the threads in `left` whose entries are unchanged. An entry that now names
/// another thread belongs to this run, and is not touched. Threads that could not be restored stay
/// in `left`.
fn settle(
    left: &mut Vec<Armed>,
    armed: impl Fn(u32) -> Option<Armed>,
    mut restore: impl FnMut(u32),
) {
    left.retain(|one| {
        if armed(one.index) == Some(*one) {
            restore(one.index);
        }
        armed(one.index) == Some(*one)
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boosts::journal::Entry;
    use crate::boosts::thread::{Process, Thread};
    use crate::{place, run_dir};
    use paracord_sys::affinity::CpuMask;
    use paracord_sys::sched::SchedAttr;

    #[test]
    fn a_thread_of_an_earlier_run_is_tried_again_until_it_is_gone_and_one_of_this_run_is_not() {
        let root = tempfile::tempdir().unwrap();
        let (dir, proc_root) = (root.path().join("run"), root.path().join("proc"));
        let put = |path: &str, text: &str| {
            let path = proc_root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        std::fs::create_dir(&dir).unwrap();
        put("sys/kernel/random/boot_id", "01234567-89ab-cdef-0123-456789abcdef\n");
        put("4000000/task/4000000/stat", "no stat at all");
        let boost = |tid| Entry {
            thread: Thread { tid, start_ticks: 99 },
            process: Process { pid: tid, start_ticks: 99 },
            before: SchedAttr::default(),
            boost_priority: 8,
        };
        let place =
            |tid| place::Entry { tid, start_ticks: 99, before: CpuMask::ALL, given: CpuMask::ALL };
        let journal = Arc::new(run_dir::keep_journals(&dir, &proc_root).unwrap());
        journal.arm(3, &boost(4_000_000));
        let places = PlaceJournal::open(&dir, &proc_root).unwrap().unwrap();
        places.arm(7, &place(4_000_000));
        let mut left = Leftovers::find(&dir, Arc::clone(&journal), &proc_root).unwrap();
        let line = left.line().unwrap();
        assert!(line.starts_with("2 changes") && line.contains("thread 4000000"), "{line}");
        // Entries of this run: one at another index, and one in the place of a settled entry.
        // `retry` must not touch them.
        journal.arm(4, &boost(4_000_001));
        places.disarm(7);
        places.arm(7, &place(4_000_001));
        left.retry();
        assert_eq!(journal.entry(3), Some(boost(4_000_000)));
        assert_eq!(places.entry(7), Some(place(4_000_001)));
        std::fs::remove_dir_all(proc_root.join("4000000")).unwrap();
        left.retry();
        assert_eq!((journal.entry(3), left.line()), (None, None));
        assert_eq!(journal.entry(4), Some(boost(4_000_001)));
    }
}
