// SPDX-License-Identifier: GPL-2.0-only
//! The ring buffer from the sensor to the daemon.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{RingBuffer, RingBufferBuilder};
use paracord_policy::pc_msg;

use crate::{Error, Sensor};

/// Reads a message; `None` if there are too few bytes, which never happens if this library matches
/// the BPF object.
fn parse(bytes: &[u8]) -> Option<pc_msg> {
    if bytes.len() < size_of::<pc_msg>() {
        return None;
    }
    // SAFETY: the check above ensures that there are enough bytes. The read is unaligned, and any
    // bytes are a valid message.
    Some(unsafe { bytes.as_ptr().cast::<pc_msg>().read_unaligned() })
}

impl Sensor {
    /// Creates the consumer of the sensor's messages, which arrive in the order of the decisions.
    /// Call this function in the thread that polls the consumer. There may be only one consumer at
    /// a time.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the ring buffer cannot be mapped.
    pub fn messages<'a>(
        &self,
        mut on_message: impl FnMut(pc_msg) + 'a,
    ) -> Result<RingBuffer<'a>, Error> {
        let callback = move |bytes: &[u8]| {
            if let Some(message) = parse(bytes) {
                on_message(message);
            }
            0
        };
        let ring = self.map("messages")?;
        let mut builder = RingBufferBuilder::new();
        builder.add(&ring, callback).map_err(Error::bpf("ring buffer"))?;
        builder.build().map_err(Error::bpf("ring buffer"))
    }
}

impl Sensor {
    /// A descriptor that is readable when messages wait. It is for a thread that also polls other
    /// descriptors.
    ///
    /// # Errors
    ///
    /// [`Error::Map`] if the process has no file descriptor left.
    pub fn messages_fd(&self) -> Result<OwnedFd, Error> {
        let map = self.map("messages")?;
        let fd = map.as_fd().try_clone_to_owned();
        fd.map_err(|source| Error::Map { map: "messages", source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_is_dropped() {
        assert!(parse(&[0; size_of::<pc_msg>() - 1]).is_none());
    }

    #[test]
    fn a_message_is_read_at_any_alignment() {
        let mut bytes = [0_u8; size_of::<pc_msg>() + 1];
        bytes[5] = 7; // vcpu, at offset 4 of the message
        assert_eq!(parse(&bytes[1..]).map(|message| message.vcpu), Some(7));
    }
}
