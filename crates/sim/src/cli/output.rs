// SPDX-License-Identifier: GPL-2.0-only
//! Files that are written completely or not at all, and printing to standard output, where a closed
//! pipe is not an error.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::exit::Failure;

/// A file that is being written. It is opened before a run begins, so that a bad path is noticed
/// before the run.
pub struct Output {
    path: PathBuf,
    /// The file is written here until it is complete. `None`: a device or pipe, which is written
    /// directly.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

fn failed(path: &Path, e: &std::io::Error) -> Failure {
    let shown = path.display().to_string();
    Failure::new(format!("{}: cannot be written: {e}", shown.escape_debug()))
}

impl Output {
    /// Opens the file.
    ///
    /// # Errors
    /// The path and the error of the system.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let regular = fs::metadata(path).map_or(true, |meta| meta.is_file());
        let temporary = regular.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(".part");
            PathBuf::from(name)
        });
        let at = temporary.as_deref().unwrap_or(path);
        let file = match &temporary {
            Some(at) => File::create(at),
            None => File::options().write(true).open(path),
        };
        let file = file.map_err(|e| failed(if regular { path } else { at }, &e))?;
        Ok(Self { path: path.to_owned(), temporary, file: BufWriter::new(file) })
    }

    /// Opens a file in a directory. Makes the directory if it does not exist.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_in(directory: &Path, name: &str) -> Result<Self, Failure> {
        fs::create_dir_all(directory).map_err(|e| failed(directory, &e))?;
        Self::create(&directory.join(name))
    }

    /// Writes a text as the whole file.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn write_whole(mut self, text: &str) -> Result<(), Failure> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|e| failed(&self.path, &e))?;
        self.finish()
    }

    /// Completes the file.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.file.flush();
        let renamed = flushed.and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        renamed.map_err(|e| failed(&self.path, &e))?;
        self.temporary = None;
        Ok(())
    }

    /// The failure that a write error is reported as.
    pub fn failure(&self, e: &std::io::Error) -> Failure {
        failed(&self.path, e)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Prints `text`. It is not an error if the reader has gone away (`paracord-sim … | head`).
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {e}")))
        }
        _ => Ok(()),
    }
}
