// SPDX-License-Identifier: GPL-2.0-only
//! Accepts clients. If a waiting client cannot be accepted, the listener stays readable. Without a
//! pause, a loop that polls the listener would then spin.

use std::io::{self, ErrorKind};
use std::time::Duration;

/// Length of the pause if a client cannot be accepted, for example because no file descriptor is
/// left.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the client that was accepted, given the result of accept(2). Returns `None` if there was
/// no client. If the client could not be accepted, sleeps for [`PAUSE`] and then returns `None`.
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
