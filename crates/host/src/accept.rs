// SPDX-License-Identifier: GPL-2.0-only
//! Accepts clients. A listener stays readable while a client waits that cannot be accepted, so a
//! loop that polls the listener would spin.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// Pause after a client could not be accepted, for example because no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the client that was accepted, given the result of accept(2). Returns `None` if there was
/// no client, or, after [`PAUSE`], if the client could not be accepted.
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
