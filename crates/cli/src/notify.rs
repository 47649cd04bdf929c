// SPDX-License-Identifier: GPL-2.0-only
//! Tells systemd that the daemon is ready (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `READY=1` to the socket that the environment names, if it names one.
pub fn ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.into_encoded_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(String::from_utf8_lossy(&path).as_ref()),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        // Nobody to tell is not this process' trouble.
        let _ = socket.send_to_addr(b"READY=1", &address);
    }
}
