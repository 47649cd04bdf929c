// SPDX-License-Identifier: GPL-2.0-only
//! Clients that cannot be accepted. The listener of such a client stays readable, so a loop that
//! polls the listener would spin.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// Pause after a client that could not be accepted because no file descriptor or no memory is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts a client. Returns `None` if there is no client, and, after [`PAUSE`], if the client
/// cannot be accepted.
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
