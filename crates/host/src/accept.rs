// SPDX-License-Identifier: GPL-2.0-only
//! Clients that cannot be accepted: their listener stays readable, so a loop that waits for it would never wait.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// After a client that could not be accepted: no file descriptor is left, or no memory.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts a client. `None` when there is none, or none can be had: then after a pause.
pub(crate) fn accept<Client, Address>(result: io::Result<(Client, Address)>) -> Option<Client> {
    match result {
        Ok((client, _)) => Some(client),
        Err(error) => {
            let is_over =
                [ErrorKind::WouldBlock, ErrorKind::Interrupted, ErrorKind::ConnectionAborted];
            if !is_over.contains(&error.kind()) {
                std::thread::sleep(PAUSE);
            }
            None
        }
    }
}
