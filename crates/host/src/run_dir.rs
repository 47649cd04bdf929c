// SPDX-License-Identifier: GPL-2.0-only
//! The run directory: one paracord at a time, and what it must clean up.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::boosts::journal::{Journal, JournalError, RestoreReport};
use crate::boosts::uclamp::{self, UclampJournal};
use crate::place::PlaceJournal;
use crate::scheduler::imports;

/// How long to wait for an earlier daemon that is just restoring its threads.
const HANDOVER: Duration = Duration::from_secs(3);

/// Why the run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Another one runs.
    #[error(
        "paracord is already running (process {pid}): `paracord stop` ends it, `paracord reload` has it read its configuration anew"
    )]
    AlreadyRunning {
        /// Its supervisor, as it wrote into the lock file.
        pid: String,
    },
    /// Others could change what lies there.
    #[error("{}: must belong to root and be writable by root only", .0.display())]
    Unsafe(PathBuf),
    /// The system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Where the journal lies.
pub fn journal_path(run_dir: &Path) -> PathBuf {
    run_dir.join("journal")
}

/// Where the journal of clamps lies.
pub fn uclamp_path(run_dir: &Path) -> PathBuf {
    run_dir.join("clamps")
}

/// Makes the journals of a new run: that of boosts, of clamps and of placements. Those that [`RunDir::clean_up`] has
/// left stay, with their entries: nothing else tells what those threads had (leftovers.rs).
///
/// # Errors
/// [`JournalError`].
pub fn keep_journals(run_dir: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
    uclamp::keep(&uclamp_path(run_dir), proc_root)?;
    PlaceJournal::keep(run_dir, proc_root)?;
    Journal::keep(&journal_path(run_dir), proc_root)
}

/// Whether no journal has an entry, so that all may be removed. One that cannot be read may have some.
pub fn journals_are_clear(run_dir: &Path, proc_root: &Path) -> bool {
    fn all<J>(opened: Result<Option<J>, JournalError>, is_clear: fn(&J) -> bool) -> bool {
        opened.is_ok_and(|journal| journal.as_ref().is_none_or(is_clear))
    }
    all(Journal::open(&journal_path(run_dir), proc_root), Journal::is_clear)
        && all(UclampJournal::open(&uclamp_path(run_dir), proc_root), UclampJournal::is_clear)
        && all(PlaceJournal::open(run_dir, proc_root), PlaceJournal::is_clear)
}

/// The run directory, locked: as long as this or a duplicate of its file lives, no other paracord runs.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    lock: File,
}

impl RunDir {
    /// Makes the directory if need be and locks it.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn lock(path: &Path) -> Result<RunDir, RunDirError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| RunDirError::Io { path, source }
        };
        std::fs::create_dir_all(path).map_err(fail(path))?;
        let meta = std::fs::metadata(path).map_err(fail(path))?;
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(RunDirError::Unsafe(path.to_owned()));
        }
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(fail(path))?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&file)
            .map_err(fail(&file))?;
        let start = Instant::now();
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(fail(&file)(error.into()));
            }
            if start.elapsed() > HANDOVER {
                let mut pid = String::new();
                let _ = lock.read_to_string(&mut pid);
                return Err(RunDirError::AlreadyRunning { pid: pid.trim().to_owned() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let write = |lock: &mut File| -> io::Result<()> {
            lock.set_len(0)?;
            lock.rewind()?;
            writeln!(lock, "{}", std::process::id())
        };
        write(&mut lock).map_err(fail(&file))?;
        Ok(RunDir { path: path.to_owned(), lock })
    }

    /// A duplicate of the lock's file for a child: the lock holds until both are closed.
    ///
    /// # Errors
    /// When there is no file descriptor left.
    pub fn share_lock(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Restores the threads of an earlier daemon that could not do it itself,
    /// and removes its journals if it could restore all. `None` when there was nothing left.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn clean_up(&self, proc_root: &Path) -> Result<Option<RestoreReport>, RunDirError> {
        let path = journal_path(&self.path);
        let mut report =
            Journal::open(&path, proc_root)?.map(|journal| journal.restore_all(proc_root));
        if uclamp_path(&self.path).exists() {
            let report = report.get_or_insert_default();
            uclamp::restore_all(&uclamp_path(&self.path), proc_root, report)?;
        }
        if let Some(placements) = PlaceJournal::open(&self.path, proc_root)? {
            placements.restore_all(proc_root, report.get_or_insert_default());
        }
        // A thread that could not be restored keeps its entry for the next try.
        if report.as_ref().is_none_or(|report| report.failed.is_empty()) {
            remove_journal(&self.path);
        }
        if imports::exist(&self.path) {
            imports::give_back(&self.path, proc_root, report.get_or_insert_default());
        }
        Ok(report)
    }
}

/// Removes the journal; all its threads were restored.
pub fn remove_journal(run_dir: &Path) {
    let _ = std::fs::remove_file(journal_path(run_dir));
    let _ = std::fs::remove_file(uclamp_path(run_dir));
    let _ = std::fs::remove_file(PlaceJournal::path(run_dir));
}

/// Restores what an earlier run left behind (`paracord restore`, systemd's ExecStopPost).
///
/// # Errors
/// [`RunDirError::AlreadyRunning`] when paracord runs, and others.
pub fn restore(run_dir: &Path, proc_root: &Path) -> Result<RestoreReport, RunDirError> {
    let journals = [journal_path(run_dir), uclamp_path(run_dir), PlaceJournal::path(run_dir)];
    if !journals.iter().any(|file| file.exists()) && !imports::exist(run_dir) {
        return Ok(RestoreReport::default());
    }
    Ok(RunDir::lock(run_dir)?.clean_up(proc_root)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boosts::journal;
    use crate::place;
    use paracord_sys::affinity::CpuMask;
    use paracord_sys::sched::SchedAttr;

    #[test]
    fn only_one_runs_and_a_child_keeps_the_lock() {
        let path = std::env::temp_dir().join(format!("paracord-run-{}", std::process::id()));
        let first = RunDir::lock(&path).unwrap();
        let child = first.share_lock().unwrap();
        drop(first);
        let error = RunDir::lock(&path).unwrap_err().to_string();
        let own = std::process::id().to_string();
        assert!(
            error.starts_with("paracord is already running") && error.contains(&own),
            "{error}"
        );
        drop(child);
        let again = RunDir::lock(&path).unwrap();
        assert_eq!(again.clean_up(Path::new("/proc")).unwrap(), None);
        std::fs::remove_dir_all(path).unwrap();
    }

    /// A thread that cannot be looked at: its journals' entries outlive the clean-up and the start of the next daemon.
    #[test]
    fn what_could_not_be_restored_is_there_for_the_next_run_and_the_one_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let proc_root = dir.path().join("proc");
        let put = |path: &str, text: &str| {
            let path = proc_root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/kernel/random/boot_id", "01234567-89ab-cdef-0123-456789abcdef\n");
        put("4000000/task/4000000/stat", "no stat at all");
        let run_dir = RunDir::lock(&dir.path().join("run")).unwrap();
        let path = dir.path().join("run");
        let (tid, start_ticks, before) = (4_000_000, 99, SchedAttr::default());
        let boost = journal::Entry { tid, start_ticks, before, boost_priority: 8 };
        let cpus = CpuMask::ALL;
        let place = place::Entry { tid, start_ticks, before: cpus, given: cpus };
        keep_journals(&path, &proc_root).unwrap().arm(3, &boost);
        let placements = PlaceJournal::open(&path, &proc_root).unwrap().unwrap();
        placements.arm(5, &place);
        for _ in 0..2 {
            let report = run_dir.clean_up(&proc_root).unwrap().unwrap();
            assert_eq!(report.failed.len(), 2, "{report:?}");
            let journal = keep_journals(&path, &proc_root).unwrap();
            assert_eq!(journal.entry(3), Some(boost));
            let placements = PlaceJournal::open(&path, &proc_root).unwrap().unwrap();
            assert_eq!(placements.entry(5), Some(place));
        }
        // Either one alone is a reason to keep all.
        keep_journals(&path, &proc_root).unwrap().disarm(3);
        assert!(!journals_are_clear(&path, &proc_root));
        std::fs::remove_dir_all(proc_root.join("4000000")).unwrap();
        assert_eq!(run_dir.clean_up(&proc_root).unwrap().unwrap().gone, 1);
        assert!(!PlaceJournal::path(&path).exists() && journals_are_clear(&path, &proc_root));
    }
}
