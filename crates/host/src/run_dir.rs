// SPDX-License-Identifier: GPL-2.0-only
//! The run directory: a lock that admits one paracord at a time, and the cleanup after an earlier
//! run.

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

/// How long to wait for an earlier daemon that is still restoring its threads.
const HANDOVER: Duration = Duration::from_secs(3);

/// Why the run directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Another paracord runs.
    #[error(
        "paracord is already running (process {pid}): `paracord stop` ends it, `paracord reload` has it read its configuration anew"
    )]
    AlreadyRunning {
        /// Pid of the other paracord's supervisor, from the lock file.
        pid: String,
    },
    /// Other users could change files in the directory.
    #[error("{}: must belong to root and be writable by root only", .0.display())]
    Unsafe(PathBuf),
    /// A system call failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error of the call.
        source: io::Error,
    },
    /// A journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Path of the journal of boosts.
pub fn journal_path(run_dir: &Path) -> PathBuf {
    run_dir.join("journal")
}

/// Path of the journal of clamps.
pub fn uclamp_path(run_dir: &Path) -> PathBuf {
    run_dir.join("clamps")
}

/// Creates the journals of boosts, clamps and placements for a new run. Returns the journal of
/// boosts.
///
/// A journal that [`RunDir::clean_up`] has not removed keeps its entries, because nothing else
/// records the attributes that its threads had before (leftovers.rs).
///
/// # Errors
/// [`JournalError`].
pub fn keep_journals(run_dir: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
    uclamp::keep(&uclamp_path(run_dir), proc_root)?;
    PlaceJournal::keep(run_dir, proc_root)?;
    Journal::keep(&journal_path(run_dir), proc_root)
}

/// Whether no journal has an entry, so that all journals may be removed. False if a journal cannot
/// be read, because it may have entries.
pub fn journals_are_clear(run_dir: &Path, proc_root: &Path) -> bool {
    fn all<J>(opened: Result<Option<J>, JournalError>, is_clear: fn(&J) -> bool) -> bool {
        opened.is_ok_and(|journal| journal.as_ref().is_none_or(is_clear))
    }
    all(Journal::open(&journal_path(run_dir), proc_root), Journal::is_clear)
        && all(UclampJournal::open(&uclamp_path(run_dir), proc_root), UclampJournal::is_clear)
        && all(PlaceJournal::open(run_dir, proc_root), PlaceJournal::is_clear)
}

/// The locked run directory. No other paracord runs as long as this value or a duplicate of its
/// lock file exists.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    lock: File,
}

impl RunDir {
    /// Creates the directory if it does not exist, and locks it.
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
        // A process that lists a directory can delay changes to the directory. So other users may
        // not list this directory, but they can still reach files in it by name.
        std::fs::set_permissions(path, Permissions::from_mode(0o711)).map_err(fail(path))?;
        let file = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&file)
            .map_err(fail(&file))?;
        // Anyone who can open the file can lock it, so only its owner may open it.
        lock.set_permissions(Permissions::from_mode(0o600)).map_err(fail(&file))?;
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

    /// Duplicates the lock file for a child process. The lock is held until both files are closed.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub fn share_lock(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Restores the threads that an earlier daemon could not restore itself, and removes the
    /// journals if all these threads are restored. Returns `None` if the earlier run left nothing.
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

/// Removes the journals. The caller must have made sure that all their threads are restored.
pub fn remove_journal(run_dir: &Path) {
    let _ = std::fs::remove_file(journal_path(run_dir));
    let _ = std::fs::remove_file(uclamp_path(run_dir));
    let _ = std::fs::remove_file(PlaceJournal::path(run_dir));
}

/// Restores the threads that an earlier run left changed (`paracord restore`, systemd's
/// ExecStopPost).
///
/// # Errors
/// [`RunDirError::AlreadyRunning`] if paracord runs, or another [`RunDirError`].
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
    use crate::boosts::thread::{Process, Thread};
    use crate::place;
    use paracord_sys::affinity::CpuMask;
    use paracord_sys::sched::SchedAttr;

    #[test]
    fn only_one_runs_and_a_child_keeps_the_lock() {
        let path = std::env::temp_dir().join(format!("paracord-run-{}", std::process::id()));
        let first = RunDir::lock(&path).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("lock"))), (0o711, 0o600));
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

    /// If the `stat` file of a thread cannot be parsed, the journal entries of the thread survive
    /// the cleanup and the start of the next daemon.
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
        let (thread, process) = (Thread { tid, start_ticks }, Process { pid: tid, start_ticks });
        let boost = journal::Entry { thread, process, before, boost_priority: 8 };
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
        // An entry in a single journal is a reason to keep all journals.
        keep_journals(&path, &proc_root).unwrap().disarm(3);
        assert!(!journals_are_clear(&path, &proc_root));
        std::fs::remove_dir_all(proc_root.join("4000000")).unwrap();
        assert_eq!(run_dir.clean_up(&proc_root).unwrap().unwrap().gone, 1);
        assert!(!PlaceJournal::path(&path).exists() && journals_are_clear(&path, &proc_root));
    }
}
