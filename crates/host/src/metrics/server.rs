// SPDX-License-Identifier: GPL-2.0-only
//! Serves metrics over HTTP, on a loopback port or a unix socket, and writes them to a textfile.
//!
//! Each scraper is answered in a thread of its own. A slow scraper is dropped after [`CLIENT_MAX`].
//! Until then, it delays neither the daemon nor other scrapers.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::{debug, warn};

use super::families::{encode, encode_textfile};
use crate::accept::accept;
use crate::config::Metrics;
use crate::handle::DaemonHandle;
use crate::recent::Recent;
use crate::stop_thread::StopThread;

/// Time limit for one scraper, from its connection to the end of the answer.
const CLIENT_MAX: Duration = Duration::from_secs(2);
/// Maximum number of scrapers that one listener answers at the same time. Further scrapers are
/// turned away.
const CLIENTS_MAX: usize = 16;
/// Stack size of each thread that answers a scraper. The stack is small, because it is part of the
/// daemon's locked memory.
const STACK_BYTES: usize = 128 * 1024;
/// Time limit for the answer to a scraper that is turned away. The limit can be short: nothing was
/// sent to such a scraper before, so its socket buffer has room for the answer.
const BUSY_MAX: Duration = Duration::from_millis(20);
const BUSY: &str = "too many scrapers; try again\n";
/// Maximum length of the request line and the headers together. Real scrapers send fewer bytes.
const REQUEST_MAX_BYTES: usize = 8 * 1024;

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("metrics.{key} = {place}: {error}")]
pub struct MetricsError {
    key: &'static str,
    place: String,
    error: io::Error,
}

/// The metrics server. It ends when this value is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    _thread: StopThread,
}

struct Serving {
    handle: DaemonHandle,
    tcp: Option<TcpListener>,
    unix: Option<(UnixListener, PathBuf)>,
    textfile: Option<(PathBuf, Duration)>,
    /// The metrics that the last scraper got, and the time when they were collected.
    last: Arc<Last>,
    tcp_clients: Clients,
    unix_clients: Clients,
}

type Last = Recent<Arc<str>>;

/// The reference count is one more than the number of scrapers that are being answered.
type Clients = Arc<()>;

impl MetricsServer {
    /// Opens the destinations in `config` and serves them. Returns `None` if `config` has no
    /// destination. The unix socket belongs to `group`.
    ///
    /// # Errors
    /// [`MetricsError`], which names the key whose address or path cannot be used.
    pub fn start(
        config: &Metrics,
        group: Option<u32>,
        handle: DaemonHandle,
    ) -> Result<Option<MetricsServer>, MetricsError> {
        if config.listen.is_none() && config.socket.is_none() && config.textfile.is_none() {
            return Ok(None);
        }
        let fail = |key, place: String| move |error| MetricsError { key, place, error };
        let tcp = match config.listen {
            None => None,
            Some(address) => Some(
                TcpListener::bind(address)
                    .and_then(|l| l.set_nonblocking(true).map(|()| l))
                    .map_err(fail("listen", address.to_string()))?,
            ),
        };
        let unix = match &config.socket {
            None => None,
            Some(path) => Some((
                bind_unix(path, group).map_err(fail("socket", path.display().to_string()))?,
                path.clone(),
            )),
        };
        let interval = Duration::from_secs(config.textfile_interval_s.into());
        let serving = Serving {
            handle,
            tcp,
            unix,
            textfile: config.textfile.clone().map(|path| (path, interval)),
            last: Arc::default(),
            tcp_clients: Clients::default(),
            unix_clients: Clients::default(),
        };
        let thread = StopThread::start("paracord-metrics".into(), move |stop| serving.run(stop))
            .map_err(fail("listen", String::new()))?;
        Ok(Some(MetricsServer { _thread: thread }))
    }
}

/// Opens a unix socket at `path`. Replaces the socket of a daemon that has died, but never any
/// other file.
fn bind_unix(path: &Path, group: Option<u32>) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("is not a socket; remove it or name another path")),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    std::os::unix::fs::lchown(path, None, group)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o660))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Serving {
    fn run(self, stop: &OwnedFd) {
        let mut next_textfile = Instant::now();
        let mut textfile_failed = false;
        loop {
            let due = self.textfile.as_ref().filter(|_| Instant::now() >= next_textfile);
            if let Some((path, interval)) = due {
                next_textfile = Instant::now() + *interval;
                let written = self.write_textfile(path);
                // Warn only when writing begins to fail, not at every interval.
                if let (Err(e), false) = (&written, textfile_failed) {
                    warn!("metrics.textfile = {}: {e}", path.display());
                }
                textfile_failed = written.is_err();
            }
            let wait = match &self.textfile {
                None => Duration::from_secs(3600),
                Some(_) => next_textfile.saturating_duration_since(Instant::now()),
            };
            let timeout = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
            fds.extend(self.tcp.as_ref().map(|l| PollFd::new(l, PollFlags::IN)));
            fds.extend(self.unix.as_ref().map(|(l, _)| PollFd::new(l, PollFlags::IN)));
            let _ = poll(&mut fds, Some(&timeout));
            let stopped = !fds[0].revents().is_empty();
            drop(fds);
            if stopped {
                break;
            }
            if let Some(stream) = self.tcp.as_ref().and_then(|l| accept(l.accept())) {
                self.serve(stream, &self.tcp_clients);
            }
            if let Some(stream) = self.unix.as_ref().and_then(|(l, _)| accept(l.accept())) {
                self.serve(stream, &self.unix_clients);
            }
        }
        if let Some((_, path)) = &self.unix {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Answers a scraper in a thread of its own.
    fn serve(&self, stream: impl Client + Send + 'static, clients: &Clients) {
        let client = Arc::clone(clients);
        if Arc::strong_count(clients) > CLIENTS_MAX + 1 {
            let _ = respond(stream, Instant::now() + BUSY_MAX, "503 Service Unavailable", BUSY);
            return;
        }
        let (handle, last) = (self.handle.clone(), Arc::clone(&self.last));
        let thread =
            std::thread::Builder::new().name("paracord-scrape".into()).stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || {
            let _ = answer(&handle, &last, stream);
            drop(client);
        });
        if let Err(error) = spawned {
            debug!("a scraper gets no thread: {error}");
        }
    }

    /// Writes the metrics to a new file and renames it to `path`, so that readers always find a
    /// complete file.
    fn write_textfile(&self, path: &Path) -> io::Result<()> {
        let text = text(&self.handle, encode_textfile)?;
        let unfinished = path.with_extension("prom.new");
        // Other users may be able to write to the directory. So an existing file, which may be a
        // symbolic link, is removed and never written to.
        match std::fs::remove_file(&unfinished) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&unfinished, path)
    }
}

type Format = fn(crate::snapshot::Snapshot) -> Result<String, std::fmt::Error>;

fn text(handle: &DaemonHandle, format: Format) -> io::Result<String> {
    let snapshot = handle.snapshot().map_err(io::Error::other)?;
    format(snapshot).map_err(io::Error::other)
}

fn answer(handle: &DaemonHandle, last: &Last, mut stream: impl Client) -> io::Result<()> {
    let deadline = Instant::now() + CLIENT_MAX;
    let mut request = Vec::new();
    let mut buffer = [0u8; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        stream.limit(deadline)?;
        let n = stream.read(&mut buffer)?;
        if n == 0 || request.len() + n > REQUEST_MAX_BYTES {
            return Ok(());
        }
        request.extend_from_slice(&buffer[..n]);
    }
    let found = request.starts_with(b"GET /metrics ");
    match found.then(|| last.get(|| text(handle, encode).map(Arc::from))) {
        None => respond(stream, deadline, "404 Not Found", "only GET /metrics\n"),
        Some(Ok(text)) => respond(stream, deadline, "200 OK", &text),
        Some(Err(e)) => respond(stream, deadline, "503 Service Unavailable", &format!("{e}\n")),
    }
}

fn respond(mut stream: impl Client, deadline: Instant, status: &str, body: &str) -> io::Result<()> {
    let kind = if status.starts_with("200") {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        "text/plain"
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        stream.limit(deadline)?;
        let n = stream.write(rest)?;
        rest = &rest[n..];
    }
    Ok(())
}

/// A stream whose next read or write can be limited by a deadline.
trait Client: Read + Write {
    fn limit(&self, deadline: Instant) -> io::Result<()>;
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

macro_rules! client {
    ($stream:ty) => {
        impl Client for $stream {
            fn limit(&self, deadline: Instant) -> io::Result<()> {
                let left = left(deadline)?;
                self.set_nonblocking(false)?;
                self.set_read_timeout(Some(left))?;
                self.set_write_timeout(Some(left))
            }
        }
    };
}
client!(TcpStream);
client!(UnixStream);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::handle::{Message, channel};
    use crate::snapshot::Snapshot;

    #[test]
    fn scrapes_are_answered_while_another_client_says_nothing() {
        let dir = std::env::temp_dir().join(format!("paracord-metrics-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let socket = dir.join("m.sock");
        let textfile = dir.join("paracord.prom");
        let config = Metrics {
            listen: None,
            socket: Some(socket.clone()),
            textfile: Some(textfile.clone()),
            textfile_interval_s: 1,
        };
        let (handle, messages) = channel().unwrap();
        std::thread::spawn(move || {
            loop {
                let mut fds = [PollFd::from_borrowed_fd(messages.fd(), PollFlags::IN)];
                let _ = poll(&mut fds, None);
                while let Some(message) = messages.next() {
                    if let Message::Snapshot(answer) = message {
                        let _ = answer.send(Box::new(Snapshot::default()));
                    }
                }
            }
        });
        let trap = dir.join("trap");
        std::fs::write(&trap, "mine").unwrap();
        std::os::unix::fs::symlink(&trap, dir.join("paracord.prom.new")).unwrap();
        let server = MetricsServer::start(&config, None, handle).unwrap().unwrap();
        let silent: Vec<_> = (0..8).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let begun = Instant::now();
        let get = |path: &str| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        };
        let answer = get("/metrics");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n"), "{answer}");
        assert!(get("/").starts_with("HTTP/1.1 404"));
        assert!(begun.elapsed() < CLIENT_MAX, "silent clients were waited for");
        let crowd: Vec<_> =
            (0..CLIENTS_MAX).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let refused = |mut stream: &UnixStream| {
            stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer.starts_with("HTTP/1.1 503")
        };
        let refused = crowd.iter().filter(|stream| refused(stream)).count();
        // The threads of the two earlier scrapes may not have ended yet.
        assert!((silent.len()..=silent.len() + 2).contains(&refused), "{refused}");
        assert_eq!(std::fs::read_to_string(&trap).unwrap(), "mine", "a symbolic link was followed");
        assert!(std::fs::read_to_string(&textfile).unwrap().contains("paracord_vms 0"));
        drop(silent);
        drop(server);
        assert!(!socket.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_socket_belongs_to_the_configured_group() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("m.sock");
        // Find a group of this process that is not the default group of a new file. Root may use
        // any group.
        let own = std::fs::metadata(dir.path()).unwrap().gid();
        let is_root = rustix::process::geteuid().is_root();
        let groups = rustix::process::getgroups().unwrap();
        let mut groups: Vec<u32> = groups.into_iter().map(|group| group.as_raw()).collect();
        groups.extend(is_root.then_some(own + 1));
        let group = groups.into_iter().find(|group| *group != own).unwrap_or(own);
        let config = Metrics {
            listen: None,
            socket: Some(socket.clone()),
            textfile: None,
            textfile_interval_s: 1,
        };
        let start = |group| {
            let (handle, _messages) = channel().unwrap();
            let server = MetricsServer::start(&config, group, handle).unwrap().unwrap();
            let meta = std::fs::metadata(&socket).unwrap();
            drop(server);
            (meta.gid(), meta.mode() & 0o777)
        };
        assert_eq!(start(Some(group)), (group, 0o660));
        assert_eq!(start(None), (own, 0o660));
    }
}
