// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The process at the other end of a unix socket: its ID, its supplementary groups, and whether it
//! has read what it was sent.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Linux's limit on the number of groups of a process (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// Supplementary groups that the peer had when it connected the unix socket (`SO_PEERGROUPS`, Linux
/// 4.13). Unlike /proc/PID/status, the result does not depend on a process ID that may have been
/// reused.
///
/// # Errors
/// The error of getsockopt(2).
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let fd = socket.as_fd().as_raw_fd();
    let mut groups = vec![0u32; 64];
    loop {
        let mut bytes = libc::socklen_t::try_from(groups.len() * size_of::<u32>())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: `fd` is open for the whole call, because it is borrowed from `socket`. `groups`
        // has `bytes` writable bytes, and any bit pattern is a valid u32. The kernel writes at most
        // `bytes` and stores the length into `bytes`, a live local.
        let rc = unsafe {
            libc::getsockopt(
                fd,
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let needed = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<u32>();
        if rc == 0 {
            groups.truncate(needed);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE)
            || needed <= groups.len()
            || needed > GROUPS_MAX
        {
            return Err(error);
        }
        groups.resize(needed, 0);
    }
}

/// Whether the kernel still keeps bytes, or file descriptors, that were sent on the unix socket and
/// that the peer has not read (`SIOCOUTQ`). They are dropped when the peer ends.
///
/// # Errors
/// The error of ioctl(2).
pub fn has_unread(socket: impl AsFd) -> io::Result<bool> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for the whole call, because it is borrowed from `socket`.
    // TIOCOUTQ, which is the same number as SIOCOUTQ, stores an int into `bytes`, a live local.
    let rc =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ as _, &raw mut bytes) };
    if rc == 0 { Ok(bytes != 0) } else { Err(io::Error::last_os_error()) }
}

/// ID of the process that was the peer of the unix socket when it called connect(2) or listen(2)
/// (`SO_PEERCRED`).
///
/// `None` if that process has no ID in the PID namespace of this process. In this case, the kernel
/// reports 0, which rustix's own function treats as an ID.
///
/// # Errors
/// The error of getsockopt(2).
pub fn peer_pid(socket: impl AsFd) -> io::Result<Option<u32>> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut bytes = libc::socklen_t::try_from(size_of::<libc::ucred>())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the descriptor is open for the whole call. `peer` has `bytes` writable bytes, and any
    // bit pattern is a valid ucred. The kernel writes at most `bytes`.
    let rc = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u32::try_from(peer.pid).ok().filter(|&pid| pid != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_seen_by_the_peer() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(peer_pid(&a).unwrap(), Some(std::process::id()));
    }

    #[test]
    fn own_groups_are_seen_by_the_peer() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut seen = peer_groups(&a).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).unwrap();
        let mut own: Vec<u32> = line.split_whitespace().map(|g| g.parse().unwrap()).collect();
        seen.sort_unstable();
        own.sort_unstable();
        assert_eq!(seen, own);
    }
}
