// SPDX-License-Identifier: GPL-2.0-only
//! The run directory: one paracord at a time, and what it must clean up.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::floors;
use crate::imports;
use crate::journal::{Journal, JournalError, RestoreReport};
use crate::place::PlaceJournal;

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
pub fn floors_path(run_dir: &Path) -> PathBuf {
    run_dir.join("clamps")
}

/// Makes the journals of a new run, all empty: that of boosts, of clamps and of placements.
///
/// # Errors
/// [`JournalError`].
pub fn create_journals(run_dir: &Path, proc_root: &Path) -> Result<Journal, JournalError> {
    floors::create(&floors_path(run_dir), proc_root)?;
    PlaceJournal::create(run_dir, proc_root)?;
    Journal::create(&journal_path(run_dir), proc_root)
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
    /// and removes its journal. `None` when there was nothing left.
    ///
    /// # Errors
    /// [`RunDirError`].
    pub fn clean_up(&self, proc_root: &Path) -> Result<Option<RestoreReport>, RunDirError> {
        let path = journal_path(&self.path);
        let mut report =
            Journal::open(&path, proc_root)?.map(|journal| journal.restore_all(proc_root));
        if floors_path(&self.path).exists() {
            let report = report.get_or_insert_default();
            floors::restore_all(&floors_path(&self.path), proc_root, report)?;
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
    let _ = std::fs::remove_file(floors_path(run_dir));
    let _ = std::fs::remove_file(PlaceJournal::path(run_dir));
}

/// Restores what an earlier run left behind (`paracord restore`, systemd's ExecStopPost).
///
/// # Errors
/// [`RunDirError::AlreadyRunning`] when paracord runs, and others.
pub fn restore(run_dir: &Path, proc_root: &Path) -> Result<RestoreReport, RunDirError> {
    let journals = [journal_path(run_dir), floors_path(run_dir), PlaceJournal::path(run_dir)];
    if !journals.iter().any(|file| file.exists()) && !imports::exist(run_dir) {
        return Ok(RestoreReport::default());
    }
    Ok(RunDir::lock(run_dir)?.clean_up(proc_root)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
