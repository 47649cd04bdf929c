// SPDX-License-Identifier: GPL-2.0-only
//! A blocking client of the control socket, with a time limit.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paracord_sys::peer::peer_pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::protocol::{Failure, PROTOCOL_VERSION, Request, Response};

/// Longest wait for an answer. The daemon answers within milliseconds, and its own time limit for
/// an answer is 5 s.
const ANSWER_MAX: Duration = Duration::from_secs(8);
/// Longest wait for the end of the daemon, in seconds. Before the daemon ends, it may have to
/// restore thousands of threads, and to wait until one of its own threads has finished a long
/// write.
const END_MAX_S: i64 = 30;
/// Longest response. 4096 vCPUs need about 8 MB.
const RESPONSE_MAX_BYTES: u64 = 64 << 20;

/// Why a request got no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens on the socket.
    #[error("no daemon at {}: start it with `paracord run` or `systemctl start paracord`", .0.display())]
    NotRunning(PathBuf),
    /// The caller may not use the socket.
    #[error("not allowed to use {}: run as root or join the group of that socket", .0.display())]
    Denied(PathBuf),
    /// The daemon refused the request.
    #[error("{}", .0.message)]
    Refused(Failure),
    /// The daemon did not answer, or the answer was not a valid response.
    #[error("daemon at {}: {reason}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError::NotRunning`], [`ClientError::Denied`] or [`ClientError::Broken`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(path).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                ClientError::NotRunning(path.to_owned())
            }
            ErrorKind::PermissionDenied => ClientError::Denied(path.to_owned()),
            _ => broken(path, &e),
        })?;
        stream
            .set_read_timeout(Some(ANSWER_MAX))
            .and_then(|()| stream.set_write_timeout(Some(ANSWER_MAX)))
            .map_err(|e| broken(path, &e))?;
        Ok(Client { path: path.to_owned(), stream: BufReader::new(stream) })
    }

    /// Stops the daemon and waits until its process has ended, because the daemon restores threads
    /// until then. If the caller cannot see the daemon's process, for example from another PID
    /// namespace, waits until the connection is closed instead.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub fn stop(mut self) -> Result<(), ClientError> {
        // The process that listens is the daemon. Open its pidfd before it answers: after the
        // answer, its pid may belong to another process.
        let daemon = peer_pid(self.stream.get_ref())
            .ok()
            .flatten()
            .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.ask(&Request::Stop {})?;
        let ends = match &daemon {
            Some(process) => PollFd::new(process, PollFlags::IN),
            None => PollFd::new(self.stream.get_ref(), PollFlags::IN),
        };
        let limit = Timespec { tv_sec: END_MAX_S, tv_nsec: 0 };
        match poll(&mut [ends], Some(&limit)) {
            Ok(0) => Err(ClientError::Broken {
                path: self.path,
                reason: format!("has not ended within {END_MAX_S} s of its stop"),
            }),
            Ok(_) => Ok(()),
            Err(e) => Err(broken(&self.path, &e.into())),
        }
    }

    /// Sends `request` and waits for its result.
    ///
    /// # Errors
    /// Any [`ClientError`].
    pub fn ask(&mut self, request: &Request) -> Result<serde_json::Value, ClientError> {
        let mut line = serde_json::to_vec(request).map_err(|e| broken(&self.path, &e.into()))?;
        line.push(b'\n');
        // A daemon that refuses the connection sends an answer, and closes the connection before it
        // has read the request. The answer is then more useful than the error of the write (EPIPE).
        let sent = self.stream.get_mut().write_all(&line);
        let mut answer = String::new();
        let read = self.stream.by_ref().take(RESPONSE_MAX_BYTES).read_line(&mut answer);
        if answer.is_empty() {
            let error = sent.and(read.map(drop)).err();
            return Err(match error {
                Some(e) => broken(&self.path, &e),
                None => ClientError::Broken {
                    path: self.path.clone(),
                    reason: "closed the connection without an answer".into(),
                },
            });
        }
        let response: Response =
            serde_json::from_str(&answer).map_err(|e| ClientError::Broken {
                path: self.path.clone(),
                reason: format!("answered something that is not protocol {PROTOCOL_VERSION}: {e}"),
            })?;
        match response {
            Response { protocol, .. } if protocol != PROTOCOL_VERSION => Err(ClientError::Broken {
                path: self.path.clone(),
                reason: format!(
                    "speaks protocol {protocol}, this command {PROTOCOL_VERSION}: use the same version of both"
                ),
            }),
            Response { error: Some(failure), .. } => Err(ClientError::Refused(failure)),
            Response { result, .. } => Ok(result.unwrap_or_default()),
        }
    }
}

fn broken(path: &Path, e: &std::io::Error) -> ClientError {
    let reason = match e.kind() {
        // A socket that has reached its time limit reports one of these two errors.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let limit = ANSWER_MAX.as_secs();
            format!("no answer within {limit} s: the host is overloaded, or the daemon hangs")
        }
        _ => e.to_string(),
    };
    ClientError::Broken { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_late_is_called_so() {
        let late = std::io::Error::from(ErrorKind::WouldBlock);
        let said = broken(Path::new("/run/x"), &late).to_string();
        assert_eq!(
            said,
            "daemon at /run/x: no answer within 8 s: the host is overloaded, or the daemon hangs"
        );
    }
}
