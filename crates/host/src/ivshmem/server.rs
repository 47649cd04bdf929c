// SPDX-License-Identifier: GPL-2.0-only
//! A socket for each region, and the VMs that have connected to these sockets.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paracord_abi::RegionLayout;
use paracord_sys::peer::has_unread;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::net::sockopt::socket_peercred;
use tracing::{debug, warn};

use super::protocol;
use super::vectors::Vectors;
use crate::log_limit::LogLimit;
use crate::regions::file_identity::FileIdentity;
use crate::regions::region_file::{check_name, prepare_directory, prepare_region_directory};
use crate::regions::region_io::read_header;

/// Maximum number of sockets. Each takes up a file descriptor.
const REGIONS_MAX: usize = 1024;
/// Pause after each connection and each batch of changes in the region directory. So a client that
/// reconnects in a loop is served at most once in this time.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of reads from the inotify descriptor after one wakeup. If events are left, they
/// wake the thread again.
const DRAIN_MAX: usize = 16;
/// Maximum number of descriptors in unread messages to the clients of one user. A client whose
/// descriptors would exceed this number is not served, unless the user has no unread messages. The
/// kernel keeps these descriptors open, and counts them against its limit for the daemon's user
/// (`too_many_unix_fds()`), which is usually 1024.
const UNREAD_MAX: usize = 2 * (1 + Vectors::MAX as usize);
/// Longest time until the server notices that a directory was recreated or has become usable.
const RENEW_EVERY: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The connected VMs, by the names of their regions.
#[derive(Debug, Default)]
pub struct Connected(Mutex<BTreeMap<String, Client>>);

#[derive(Debug)]
struct Client {
    /// The region that the client was sent.
    region: FileIdentity,
    /// Stays open, because QEMU may not have read everything that it was sent.
    stream: UnixStream,
    vectors: Arc<Vectors>,
}

impl Connected {
    /// The vectors of the VM to which the server has sent exactly this region, and not an earlier
    /// or later region with the same name.
    pub fn vectors(&self, name: &str, region: FileIdentity) -> Option<Arc<Vectors>> {
        let connected = self.lock();
        let client = connected.get(name).filter(|client| client.region == region)?;
        Some(Arc::clone(&client.vectors))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Socket {
    listener: UnixListener,
    owner: u32,
}

/// A client that may not have read everything that it was sent.
struct Unread {
    owner: u32,
    stream: UnixStream,
    descriptors: usize,
}

/// The two directories that are served now. Either directory may be removed and recreated.
struct Watched {
    directory: FileIdentity,
    region_dir: FileIdentity,
    changes: OwnedFd,
}

/// The state of the server's thread.
pub struct Server {
    directory: PathBuf,
    region_dir: PathBuf,
    connected: Arc<Connected>,
    /// `None` while the directories cannot be watched. The server tries again at intervals.
    watched: Option<Watched>,
    /// Why the directories cannot be watched, as last logged.
    unwatched: Option<String>,
    sockets: BTreeMap<String, Socket>,
    unread: Vec<Unread>,
    log: LogLimit,
}

/// A source that poll(2) has found ready.
enum Ready {
    Stop,
    Changes,
    Socket(String),
    Client(String),
}

impl Server {
    /// Creates a server whose sockets appear in `directory`, for regions in `region_dir`.
    pub fn new(directory: &Path, region_dir: &Path, connected: Arc<Connected>) -> Server {
        let mut server = Server {
            directory: directory.to_owned(),
            region_dir: region_dir.to_owned(),
            connected,
            watched: None,
            unwatched: None,
            sockets: BTreeMap::new(),
            unread: Vec::new(),
            log: LogLimit::default(),
        };
        server.renew();
        server
    }

    /// Starts serving the directories that exist now, unless they are served already.
    fn renew(&mut self) {
        let is_at = |path: &Path, identity| identity_of(path).is_ok_and(|now| now == identity);
        let still = self.watched.as_ref().is_some_and(|watched| {
            is_at(&self.directory, watched.directory) && is_at(&self.region_dir, watched.region_dir)
        });
        if still {
            return;
        }
        self.close();
        match watch(&self.directory, &self.region_dir) {
            Ok(watched) => {
                self.watched = Some(watched);
                self.unwatched = None;
                self.look();
            }
            Err(error) => {
                self.watched = None;
                let line = format!("guests have no interrupts for samples: {error}");
                // Log each reason once, and not after each try.
                if self.unwatched.as_ref() != Some(&line) {
                    warn!("{line}");
                    self.unwatched = Some(line);
                }
            }
        }
    }

    fn close(&mut self) {
        for name in std::mem::take(&mut self.sockets).keys() {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }

    /// Serves until `stop` is readable.
    pub fn run(&mut self, stop: &OwnedFd) {
        loop {
            for ready in self.wait(stop) {
                match ready {
                    Ready::Stop => return,
                    Ready::Changes => {
                        // Limit the reads, because the owner of a region can cause an endless
                        // stream of changes.
                        let changes = self.watched.as_ref().map(|watched| &watched.changes);
                        let read = |fd| rustix::io::read(fd, &mut [0; 4096]).is_ok();
                        for _ in 0..DRAIN_MAX {
                            if !changes.is_some_and(read) {
                                break;
                            }
                        }
                        self.look();
                        std::thread::sleep(PAUSE);
                    }
                    Ready::Socket(region) => {
                        if let Err(error) = self.accept(&region) {
                            self.warn(&format!("region {region}: no interrupts: {error}"));
                        }
                        std::thread::sleep(PAUSE);
                    }
                    // A client sends nothing, so a client whose stream is readable is gone.
                    Ready::Client(region) => drop(self.connected.lock().remove(&region)),
                }
            }
            self.renew();
        }
    }

    fn wait(&self, stop: &OwnedFd) -> Vec<Ready> {
        let clients: Vec<(String, UnixStream)> = {
            let connected = self.connected.lock();
            let copy = |(region, client): (&String, &Client)| {
                Some((region.clone(), client.stream.try_clone().ok()?))
            };
            connected.iter().filter_map(copy).collect()
        };
        let mut fds = vec![(PollFd::new(stop, PollFlags::IN), Ready::Stop)];
        if let Some(watched) = &self.watched {
            fds.push((PollFd::new(&watched.changes, PollFlags::IN), Ready::Changes));
        }
        // First handle the clients that are gone, because the next client of the same region may
        // already be waiting.
        for (region, stream) in &clients {
            fds.push((PollFd::new(stream, PollFlags::IN), Ready::Client(region.clone())));
        }
        for (region, socket) in &self.sockets {
            let fd = PollFd::new(&socket.listener, PollFlags::IN);
            fds.push((fd, Ready::Socket(region.clone())));
        }
        let (mut fds, what): (Vec<_>, Vec<_>) = fds.into_iter().unzip();
        if poll(&mut fds, Some(&RENEW_EVERY)).is_err() {
            return Vec::new();
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        what.into_iter().zip(ready).filter_map(|(what, ready)| ready.then_some(what)).collect()
    }

    /// Adapts the sockets to regions that have come or gone.
    fn look(&mut self) {
        let mut regions = BTreeMap::new();
        for entry in fs::read_dir(&self.region_dir).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(meta) = fs::symlink_metadata(entry.path()) else { continue };
            if check_name(&name).is_ok() && meta.is_file() {
                regions.insert(name, meta);
            }
        }
        let gone = |name: &String, socket: &Socket| {
            regions.get(name).is_none_or(|meta| meta.uid() != socket.owner)
        };
        let directory = &self.directory;
        self.sockets.retain(|name, socket| {
            let stays = !gone(name, socket);
            if !stays {
                let _ = fs::remove_file(directory.join(name));
                let _ = fs::remove_file(directory.join(format!(".{name}")));
            }
            stays
        });
        for (name, meta) in regions {
            if self.sockets.contains_key(&name) || self.sockets.len() >= REGIONS_MAX {
                continue;
            }
            match self.listen(&name, &meta) {
                Ok(socket) => drop(self.sockets.insert(name, socket)),
                Err(error) => self.warn(&format!("region {name}: no socket: {error}")),
            }
        }
    }

    fn listen(&self, name: &str, region: &fs::Metadata) -> io::Result<Socket> {
        let path = self.directory.join(name);
        // Remove the socket that a killed daemon may have left behind.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        chown(&path, Some(region.uid()), Some(region.gid()))?;
        Ok(Socket { listener, owner: region.uid() })
    }

    fn accept(&mut self, region: &str) -> io::Result<()> {
        let Some(socket) = self.sockets.get(region) else { return Ok(()) };
        let (stream, _) = socket.listener.accept()?;
        let peer = socket_peercred(&stream)?;
        let user = peer.uid.as_raw();
        if user != socket.owner && user != 0 {
            let owner = socket.owner;
            return Err(io::Error::other(format!("user {user} asks, it belongs to user {owner}")));
        }
        let memory = open(&self.region_dir.join(region))?;
        let meta = memory.metadata()?;
        check_owner(&meta, socket)?;
        let header = read_header(&memory)?;
        let layout = RegionLayout::check(&header, meta.len()).map_err(io::Error::other)?;
        let vectors = Arc::new(Vectors::new(layout.slot_count)?);
        let (owner, descriptors) = (socket.owner, 1 + vectors.0.len());
        self.unread.retain(|client| has_unread(&client.stream).unwrap_or(false));
        let of_owner = self.unread.iter().filter(|client| client.owner == owner);
        let unread: usize = of_owner.map(|client| client.descriptors).sum();
        if unread != 0 && unread + descriptors > UNREAD_MAX {
            return Err(io::Error::other(format!(
                "clients of user {owner} have not read {unread} descriptors that they were sent"
            )));
        }
        self.unread.push(Unread { owner, stream: stream.try_clone()?, descriptors });
        protocol::welcome(&stream, &memory, &vectors)?;
        debug!(region, pid = peer.pid.as_raw_nonzero().get(), "a VM has its vectors");
        self.connected
            .lock()
            .insert(region.to_owned(), Client { region: FileIdentity::of(&meta), stream, vectors });
        Ok(())
    }

    fn warn(&mut self, line: &str) {
        if self.log.allow() {
            warn!("{line}");
        }
    }
}

fn open(region: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(region)
}

/// Checks that a client of `socket` may get this region. The region must have the same owner as
/// when the socket was created. By now, a region of another user may exist under the same name.
fn check_owner(region: &fs::Metadata, socket: &Socket) -> io::Result<()> {
    if region.is_file() && region.uid() == socket.owner {
        return Ok(());
    }
    Err(io::Error::other("the region is not its socket's any more"))
}

fn identity_of(path: &Path) -> io::Result<FileIdentity> {
    Ok(FileIdentity::of(&fs::symlink_metadata(path)?))
}

fn watch(directory: &Path, region_dir: &Path) -> io::Result<Watched> {
    prepare_region_directory(region_dir).map_err(io::Error::other)?;
    prepare_directory(directory).map_err(io::Error::other)?;
    // Other users may look up names in the directory but may not list it, because a process that
    // lists a directory can delay changes to the directory.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o711))?;
    let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let is_of = (identity_of(directory)?, identity_of(region_dir)?);
    // Also watch changes of attributes, because a region that gets another owner gets another
    // socket.
    let events =
        WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE | WatchFlags::ATTRIB;
    inotify::add_watch(&changes, region_dir, events)?;
    Ok(Watched { directory: is_of.0, region_dir: is_of.1, changes })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
        // This fails if the directory still contains notes about the vectors of VMs (kept.rs).
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
