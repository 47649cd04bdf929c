// SPDX-License-Identifier: GPL-2.0-only
//! Tells systemd that the daemon is ready (sd_notify(3)).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// For a manager that does not take the message.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends `READY=1` and a line about the daemon's state to the socket that the environment names, if it names one. A
/// daemon that was started anew, or has found what it waited for, says it again: systemd takes the line.
pub fn ready(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.into_encoded_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(String::from_utf8_lossy(&path).as_ref()),
    };
    if let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) {
        // A manager that hangs does not keep the daemon from its work.
        let _ = socket.set_write_timeout(Some(PATIENCE));
        // Nobody to tell is not this process' trouble.
        let _ = socket.send_to_addr(format!("READY=1\nSTATUS={state}").as_bytes(), &address);
    }
}
