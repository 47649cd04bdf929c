// SPDX-License-Identifier: GPL-2.0-only
//! The server of the control socket: one thread, non-blocking sockets, and limits on everything
//! that clients can use.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::access::Access;
use super::protocol::{ErrorCode, Request, Response};
use crate::accept::accept;
use crate::command_error::CommandError;
use crate::handle::DaemonHandle;
use crate::recent::Recent;
use crate::wake::{eventfd, wake};

/// Maximum number of clients at a time. Further clients are refused with `busy`.
const CLIENTS_MAX: usize = 32;
/// Maximum number of clients of one user other than root, so that one user cannot lock the others
/// out.
const CLIENTS_PER_USER_MAX: usize = 8;
/// Longest line from a client. A request takes up at most a few hundred bytes, so a line longer
/// than this limit is not a request.
const REQUEST_MAX_BYTES: usize = 16 * 1024;
/// A client that neither sends a request nor reads its answer for this long is disconnected.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Why the socket could not be served.
#[derive(Debug, thiserror::Error)]
#[error("control socket {path}: {reason}")]
pub struct ServerError {
    path: PathBuf,
    reason: String,
}

/// Ends a running [`Server`].
#[derive(Clone, Debug)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Makes the server remove its socket and return.
    pub fn stop(&self) {
        wake(&self.0);
    }
}

/// A bound control socket.
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    access: Access,
    handle: DaemonHandle,
    stop: Stop,
    clients: VecDeque<Connection>,
    status: Recent<serde_json::Value>,
}

struct Connection {
    stream: UnixStream,
    uid: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    last_progress: Instant,
    /// Whether the server takes no more requests from this client. If so, the server closes the
    /// connection as soon as the output is written.
    closing: bool,
}

impl Server {
    /// Binds `path` with mode 0660 and the group of `access`, or with mode 0600 if `access` has no
    /// group. If a dead daemon has left a socket at `path`, the new socket replaces it. Any other
    /// file at `path` is not touched.
    ///
    /// # Errors
    /// [`ServerError`] names the path and what to do.
    pub fn bind(path: &Path, access: Access, handle: DaemonHandle) -> Result<Server, ServerError> {
        let fail = |reason: String| ServerError { path: path.to_owned(), reason };
        match std::fs::symlink_metadata(path) {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(fail("is not a socket; remove it or set control.socket".into()));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(fail(
                    "another paracord serves it; `paracord stop` ends that one".into(),
                ));
            }
            Ok(_) => std::fs::remove_file(path).map_err(|e| fail(e.to_string()))?,
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(|e| fail(e.to_string()))?;
        let mode = if access.group.is_some() { 0o660 } else { 0o600 };
        std::os::unix::fs::chown(path, None, access.group)
            .and_then(|()| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)))
            .and_then(|()| listener.set_nonblocking(true))
            .map_err(|e| fail(e.to_string()))?;
        let stop = eventfd().map_err(|e| fail(e.to_string()))?;
        Ok(Server {
            path: path.to_owned(),
            listener,
            access,
            handle,
            stop: Stop(Arc::new(stop)),
            clients: VecDeque::new(),
            status: Recent::default(),
        })
    }

    /// Returns a handle with which another thread can end the server.
    pub fn stopper(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves until [`Stop::stop`], then removes the socket.
    pub fn run(mut self) {
        loop {
            // If two requests arrived together, the second one is already in memory and no longer
            // in the socket, so poll(2) does not report it. In this case, do not sleep.
            let waiting = self.clients.iter().any(Connection::has_request);
            let timeout = Timespec { tv_sec: i64::from(!waiting), tv_nsec: 0 };
            let mut fds = vec![
                PollFd::new(&*self.stop.0, PollFlags::IN),
                PollFd::new(&self.listener, PollFlags::IN),
            ];
            fds.extend(self.clients.iter().map(|c| PollFd::new(&c.stream, c.interest())));
            let _ = poll(&mut fds, Some(&timeout));
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                let _ = std::fs::remove_file(&self.path);
                return;
            }
            // From index 2 on, `ready` is about the clients, in the order of the queue. Each client
            // moves to the back of the queue.
            for &is_ready in &ready[2..] {
                let Some(mut client) = self.clients.pop_front() else { break };
                if is_ready || client.has_request() {
                    self.advance(&mut client);
                }
                if !client.finished() {
                    self.clients.push_back(client);
                }
            }
            if ready[1] {
                self.accept();
            }
        }
    }

    fn accept(&mut self) {
        let Some(stream) = accept(self.listener.accept()) else { return };
        let (allowed, uid) = self.access.check(stream.as_fd()).unwrap_or((false, u32::MAX));
        let of_user = self.clients.iter().filter(|c| c.uid == uid).count();
        let refusal = if !allowed {
            Some(Response::error(
                ErrorCode::Denied,
                "only root and members of the control group may use paracord's control socket",
            ))
        } else if self.clients.len() >= CLIENTS_MAX || uid != 0 && of_user >= CLIENTS_PER_USER_MAX {
            Some(Response::error(ErrorCode::Busy, "too many clients; close some and try again"))
        } else {
            None
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut client = Connection {
            stream,
            uid,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            last_progress: Instant::now(),
            closing: false,
        };
        if let Some(response) = refusal {
            // The buffer of a new socket has room for one line, so the line is written immediately
            // or not at all.
            client.answer(&response);
            client.write();
            return;
        }
        self.clients.push_back(client);
    }

    /// Reads from a client, answers at most one request, and writes the answer. Clients take turns,
    /// because each gets at most one answer per call.
    fn advance(&mut self, client: &mut Connection) {
        client.write();
        if !client.output.is_empty() || client.closing {
            return;
        }
        client.read();
        if let Some(line) = client.next_line() {
            let response = self.respond(client.uid, &line);
            client.answer(&response);
            client.write();
        } else if client.input.len() >= REQUEST_MAX_BYTES {
            client.answer(&Response::error(
                ErrorCode::BadRequest,
                format!("a request is one line of at most {REQUEST_MAX_BYTES} bytes"),
            ));
            client.closing = true;
            client.write();
        }
    }

    fn respond(&self, uid: u32, line: &[u8]) -> Response {
        let request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(e) => return Response::error(ErrorCode::BadRequest, format!("not a request: {e}")),
        };
        match request {
            Request::Status {} => self.status(),
            Request::ClampSet { ref target, .. } if !self.access.may_clamp(uid, target) => {
                Response::error(
                    ErrorCode::Denied,
                    "only root may clamp threads and control groups; members of the control group may clamp VMs",
                )
            }
            request => answer(self.handle.request(request)),
        }
    }

    fn status(&self) -> Response {
        let take = || Ok(serde_json::to_value(self.handle.snapshot()?).unwrap_or_default());
        answer(self.status.get(take))
    }
}

fn answer(result: Result<serde_json::Value, CommandError>) -> Response {
    let error = match result {
        Ok(result) => return Response::ok(result),
        Err(error) => error,
    };
    let code = match error {
        CommandError::NoSuchVm(_) => ErrorCode::NoSuchVm,
        CommandError::Invalid(_) => ErrorCode::Invalid,
        CommandError::NoAnswer => ErrorCode::NoAnswer,
    };
    Response::error(code, error.to_string())
}

impl Connection {
    /// The events to wait for. A client must take its answer before the server reads the client's
    /// next request.
    fn interest(&self) -> PollFlags {
        if !self.output.is_empty() { PollFlags::OUT } else { PollFlags::IN }
    }

    fn finished(&self) -> bool {
        self.closing && self.output.is_empty() || self.last_progress.elapsed() > IDLE_MAX
    }

    fn read(&mut self) {
        let mut buffer = [0u8; 4096];
        while self.input.len() < REQUEST_MAX_BYTES && !self.input.contains(&b'\n') {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.closing = true;
                    return;
                }
                Ok(n) => {
                    self.input.extend_from_slice(&buffer[..n]);
                    self.last_progress = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.closing |= e.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    fn has_request(&self) -> bool {
        self.output.is_empty() && self.input.contains(&b'\n')
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.input.iter().position(|&b| b == b'\n')?;
        let rest = self.input.split_off(end + 1);
        Some(std::mem::replace(&mut self.input, rest))
    }

    fn answer(&mut self, response: &Response) {
        self.output = serde_json::to_vec(response).unwrap_or_default();
        self.output.push(b'\n');
        self.written = 0;
    }

    fn write(&mut self) {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(n) if n > 0 => {
                    self.written += n;
                    self.last_progress = Instant::now();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Ok(_) | Err(_) => {
                    self.closing = true;
                    break;
                }
            }
        }
        self.output.clear();
        self.written = 0;
    }
}
