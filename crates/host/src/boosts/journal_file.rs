// SPDX-License-Identifier: GPL-2.0-only
//! The file of a journal. It contains entries of equal size, and outlives the process that writes
//! it.
//!
//! The file lies in the run directory. The daemon maps and writes it. The supervisor also maps it,
//! and reads it when the daemon is gone. Entry n belongs to vCPU index n.
//!
//! ```text
//! word 0  magic          1,2  boot id          3  entries         4..63  0
//! then the entries:
//!   word 0  head: stored last; 0 means that there is no entry
//!   word 1  start time of the thread, clock ticks since boot
//! ```

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use paracord_sys::mapping::SharedWords;
use paracord_sys::proc;

const HEADER_WORDS: usize = 64;
const ARMED: u64 = 1;

/// Number of entries of a journal: one per vCPU index of the sensor (`PC_VCPUS_MAX`).
pub const ENTRIES: u32 = 4096;

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
#[error("journal {}: {reason}", path.display())]
pub struct JournalError {
    path: PathBuf,
    reason: String,
}

/// A thread that has an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    /// Index of the entry.
    pub index: u32,
    /// Thread ID.
    pub tid: u32,
    /// Start time of the thread, clock ticks since boot.
    pub start_ticks: u64,
}

/// A journal with entries of `WORDS` words, including the head.
#[derive(Debug)]
pub struct JournalFile<const WORDS: usize> {
    words: SharedWords,
}

impl<const WORDS: usize> JournalFile<WORDS> {
    const TOTAL_WORDS: usize = HEADER_WORDS + ENTRIES as usize * WORDS;

    /// Creates an empty journal with mode 0600. If there is a file at `path`, the journal replaces
    /// it.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn create(path: &Path, proc_root: &Path, magic: u64) -> Result<Self, JournalError> {
        let fail = |reason: &dyn ToString| JournalError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let boot = boot_words(proc_root).map_err(|e| fail(&e))?;
        let bytes = Self::TOTAL_WORDS * size_of::<u64>();
        let new = path.with_extension("new");
        let write = || -> io::Result<SharedWords> {
            let _ = std::fs::remove_file(&new);
            let file = File::options().read(true).write(true).create_new(true).open(&new)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            // Reserve the space now: a full disk must not cause a SIGBUS later.
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
            let words = SharedWords::map(file, Self::TOTAL_WORDS)?;
            words[1].store(boot[0], Ordering::Relaxed);
            words[2].store(boot[1], Ordering::Relaxed);
            words[3].store(u64::from(ENTRIES), Ordering::Relaxed);
            words[0].store(magic, Ordering::Release);
            std::fs::rename(&new, path)?;
            Ok(words)
        };
        write().map(|words| JournalFile { words }).map_err(|e| fail(&e))
    }

    /// Opens the journal with all its entries, so that a thread that could not be restored keeps
    /// its entry. If there is no journal, or if the journal is from an earlier boot, creates an
    /// empty one.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn keep(path: &Path, proc_root: &Path, magic: u64) -> Result<Self, JournalError> {
        match Self::open(path, proc_root, magic)? {
            Some(kept) => Ok(kept),
            None => Self::create(path, proc_root, magic),
        }
    }

    /// Opens a journal. Returns `None` if there is none, or if it is from an earlier boot.
    ///
    /// # Errors
    /// [`JournalError`] if the file cannot be read or is not a journal.
    pub fn open(path: &Path, proc_root: &Path, magic: u64) -> Result<Option<Self>, JournalError> {
        let fail = |reason: &dyn ToString| JournalError {
            path: path.to_owned(),
            reason: reason.to_string(),
        };
        let file = match File::options().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(&error)),
        };
        let words = SharedWords::map(file, Self::TOTAL_WORDS).map_err(|e| {
            let short = e.kind() == io::ErrorKind::UnexpectedEof;
            if short { fail(&"too short; remove it") } else { fail(&e) }
        })?;
        let word = |n: usize| words[n].load(Ordering::Acquire);
        if word(0) != magic || word(3) != u64::from(ENTRIES) {
            return Err(fail(&"not a journal of this version; remove it"));
        }
        let boot = boot_words(proc_root).map_err(|e| fail(&e))?;
        Ok(([word(1), word(2)] == boot).then_some(JournalFile { words }))
    }

    fn slot(&self, index: u32) -> &[AtomicU64] {
        let at = HEADER_WORDS + index as usize * WORDS;
        &self.words[at..at + WORDS]
    }

    /// Writes and arms entry `index` (below [`ENTRIES`]) for thread `tid`. `words` follow the head
    /// in the entry. The caller may change the thread only afterwards.
    ///
    /// An entry that is armed for another thread is the only record of the attributes that the
    /// other thread had. So check [`is_armed`](Self::is_armed) first.
    pub fn arm(&self, index: u32, tid: u32, words: impl IntoIterator<Item = u64>) {
        let slot = self.slot(index);
        for (cell, word) in slot[1..].iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
        }
        // Pairs with the acquire in `entry`.
        slot[0].store(ARMED | u64::from(tid) << 32, Ordering::Release);
    }

    /// Clears entry `index`, whose thread is restored or gone.
    pub fn disarm(&self, index: u32) {
        self.slot(index)[0].store(0, Ordering::Release);
    }

    /// Whether entry `index` is armed.
    pub fn is_armed(&self, index: u32) -> bool {
        self.slot(index)[0].load(Ordering::Acquire) as u32 == ARMED as u32
    }

    /// Whether no entry is armed.
    pub fn is_clear(&self) -> bool {
        (0..ENTRIES).all(|index| !self.is_armed(index))
    }

    /// The thread of entry `index`, if the entry is armed.
    pub fn armed(&self, index: u32) -> Option<Armed> {
        let (tid, words) = self.entry(index)?;
        Some(Armed { index, tid, start_ticks: words[1] })
    }

    /// The tid of entry `index` and all words of the entry, if it is armed.
    pub fn entry(&self, index: u32) -> Option<(u32, [u64; WORDS])> {
        let slot = self.slot(index);
        // Pairs with the release in `arm`.
        let head = slot[0].load(Ordering::Acquire);
        let words = || std::array::from_fn(|n| slot[n].load(Ordering::Relaxed));
        (head as u32 == ARMED as u32).then(|| ((head >> 32) as u32, words()))
    }
}

/// The boot ID as two words.
fn boot_words(proc_root: &Path) -> Result<[u64; 2], String> {
    let id = proc::boot_id(proc_root).map_err(|e| e.to_string())?;
    let digits: String = id.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| format!("boot id {id:?}"))?;
    Ok([number as u64, (number >> 64) as u64])
}
