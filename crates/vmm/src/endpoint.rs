// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The endpoints of serial ports: standard input and output, a file, or a unix socket.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::error::{self, Error};

/// Reads and writes bytes. The calls do not wait, if they are made after
/// [`readable`](Self::readable) or [`writable`](Self::writable) was polled.
pub trait Endpoint {
    /// The descriptor to poll before calling [`read`](Self::read).
    fn readable(&self) -> Option<BorrowedFd<'_>>;
    /// The descriptor to poll before calling [`write`](Self::write). `None`: bytes that are written
    /// now are lost.
    fn writable(&self) -> Option<BorrowedFd<'_>>;
    /// Reads the bytes that have arrived. Returns 0 if there are none now.
    fn read(&mut self, buffer: &mut [u8]) -> usize;
    /// Writes some of `bytes`, and returns how many.
    fn write(&mut self, bytes: &[u8]) -> usize;
    /// Whether input may reach the guest only after the guest has sent something.
    fn waits_for_guest(&self) -> bool {
        false
    }
}

/// Pause after a client could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Whether the same call may succeed if it is repeated.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A file, for output only.
pub struct OutputFile(File);

impl OutputFile {
    /// Creates or overwrites the file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(path: &Path) -> Result<OutputFile, Error> {
        File::create(path).map(OutputFile).map_err(error::file(path))
    }
}

impl Endpoint for OutputFile {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn writable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
    fn read(&mut self, _: &mut [u8]) -> usize {
        0
    }
    fn write(&mut self, bytes: &[u8]) -> usize {
        match self.0.write(bytes) {
            Ok(written) => written,
            Err(error) if is_temporary(&error) => 0,
            // If the disk is full, output is lost, as on a disconnected line.
            Err(_) => bytes.len(),
        }
    }
}

/// Standard input and output. A terminal passes each key on when it is pressed, except keys that
/// send signals.
pub struct Standard {
    input: Option<OwnedFd>,
    output: io::Stdout,
    before: Option<Termios>,
}

impl Standard {
    /// Sets the terminal's mode, if standard input is a terminal.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn take() -> Result<Standard, Error> {
        let input = io::stdin().as_fd().try_clone_to_owned();
        let input = input.map_err(error::system("standard input"))?;
        let before = tcgetattr(&input).ok();
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
            tcsetattr(&input, OptionalActions::Now, &raw).map_err(error::system("terminal"))?;
        }
        Ok(Standard { input: Some(input), output: io::stdout(), before })
    }
}

impl Drop for Standard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

impl Endpoint for Standard {
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.input.as_ref().map(AsFd::as_fd)
    }
    fn writable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.output.as_fd())
    }
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(input) = &self.input else { return 0 };
        match rustix::io::read(input, buffer) {
            Ok(bytes) if bytes > 0 => bytes,
            Err(error) if is_temporary(&error.into()) => 0,
            // A terminal that no longer exists would be readable forever.
            _ => {
                self.input = None;
                0
            }
        }
    }
    fn write(&mut self, bytes: &[u8]) -> usize {
        match rustix::io::write(&self.output, bytes) {
            Ok(written) => written,
            Err(error) if is_temporary(&error.into()) => 0,
            Err(_) => bytes.len(),
        }
    }
}

/// A unix socket with one client at a time.
pub struct Socket {
    path: PathBuf,
    listener: UnixListener,
    client: Option<UnixStream>,
}

impl Socket {
    /// Listens at `path`, for this user only. Replaces a socket at which no process listens any
    /// more.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Content`].
    pub fn listen(path: &Path) -> Result<Socket, Error> {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if is_socket {
            if UnixStream::connect(path).is_ok() {
                let reason = "another process listens at this path: use another path".to_owned();
                return Err(Error::Content { path: path.to_owned(), reason });
            }
            std::fs::remove_file(path).map_err(error::file(path))?;
        }
        let listener = UnixListener::bind(path).map_err(error::file(path))?;
        let socket = Socket { path: path.to_owned(), listener, client: None };
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(error::file(path))?;
        socket.listener.set_nonblocking(true).map_err(error::file(path))?;
        Ok(socket)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Endpoint for Socket {
    /// The listener, as long as no client is connected. Further clients wait.
    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.client.as_ref().map_or(self.listener.as_fd(), AsFd::as_fd))
    }
    fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.client.as_ref().map(AsFd::as_fd)
    }
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let Some(client) = &mut self.client else {
            self.client = match self.listener.accept() {
                Ok((client, _)) => Some(client),
                // The client waits in the queue, so the listener stays readable until a file
                // descriptor is free for the client.
                Err(error) if !is_temporary(&error) => {
                    std::thread::sleep(ACCEPT_PAUSE);
                    None
                }
                Err(_) => None,
            };
            if self.client.as_ref().is_some_and(|client| client.set_nonblocking(true).is_err()) {
                self.client = None;
            }
            return 0;
        };
        match client.read(buffer) {
            Ok(bytes) if bytes > 0 => bytes,
            Err(error) if is_temporary(&error) => 0,
            _ => {
                self.client = None;
                0
            }
        }
    }
    fn write(&mut self, bytes: &[u8]) -> usize {
        let Some(client) = &mut self.client else { return bytes.len() };
        match client.write(bytes) {
            Ok(written) => written,
            Err(error) if is_temporary(&error) => 0,
            Err(_) => {
                self.client = None;
                bytes.len()
            }
        }
    }
    /// A client may connect before the guest's program starts. The guest's terminal would then echo
    /// what the client sends.
    fn waits_for_guest(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("paracord-vmm-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_socket_serves_one_client_after_the_other_and_is_removed() {
        let path = path("socket");
        let mut socket = Socket::listen(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Socket::listen(&path).is_err(), "another instance listens at this path");
        let mut buffer = [0; 16];
        // The second instance connected to find out whether a process listens, so it was a client.
        for _ in 0..2 {
            socket.read(&mut buffer);
        }
        assert!(socket.writable().is_none());
        assert_eq!(socket.write(b"lost"), 4);
        for word in [b"one", b"two"] {
            let mut client = UnixStream::connect(&path).unwrap();
            assert_eq!(socket.read(&mut buffer), 0);
            client.write_all(word).unwrap();
            assert_eq!((socket.read(&mut buffer), &buffer[..3]), (3, &word[..]));
            assert_eq!(socket.write(b"hi"), 2);
            client.read_exact(&mut buffer[..2]).unwrap();
            drop(client);
            assert_eq!(socket.read(&mut buffer), 0);
            assert!(socket.writable().is_none());
        }
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_a_killed_vm_left_is_replaced() {
        let path = path("stale");
        drop(UnixListener::bind(&path).unwrap());
        drop(Socket::listen(&path).unwrap());
        std::fs::write(&path, "a file").unwrap();
        assert!(Socket::listen(&path).is_err(), "a file that is not a socket is not replaced");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_terminal_that_is_gone_is_not_waited_for() {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut terminal =
            Standard { input: Some(slave.into()), output: io::stdout(), before: None };
        rustix::io::write(&master, b"key\n").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(terminal.read(&mut buffer), 4);
        assert!(terminal.readable().is_some());
        drop(master);
        assert_eq!(terminal.read(&mut buffer), 0);
        assert!(terminal.readable().is_none(), "poll(2) would always return at once");
    }

    #[test]
    fn a_file_is_written_anew() {
        let path = path("file");
        std::fs::write(&path, "old content").unwrap();
        assert_eq!(OutputFile::create(&path).unwrap().write(b"new"), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        std::fs::remove_file(&path).unwrap();
        assert!(OutputFile::create(Path::new("/nonexistent/x")).is_err());
    }
}
