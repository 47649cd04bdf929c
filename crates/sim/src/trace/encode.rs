// SPDX-License-Identifier: GPL-2.0-only
//! Encodes Perfetto's packets (protos/perfetto/trace in github.com/google/perfetto). A message is a
//! sequence of fields. A field begins with a varint of `number << 3 | wire type`. Its value
//! follows: a varint, eight bytes, or a length and that many bytes.

use std::io::{self, Write};

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Numbers of fields.
mod field {
    /// `Trace`.
    pub const PACKET: u32 = 1;
    /// `TracePacket`.
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `TrackDescriptor`.
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PARENT_UUID: u32 = 5;
    pub const CHILD_ORDERING: u32 = 11;
    pub const SIBLING_ORDER_RANK: u32 = 12;
    /// `TrackEvent`.
    pub const TYPE: u32 = 9;
    pub const TRACK_UUID: u32 = 11;
    pub const EVENT_NAME: u32 = 23;
    pub const FLOW_IDS: u32 = 47;
    pub const TERMINATING_FLOW_IDS: u32 = 48;
}

/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`.
const EXPLICIT: u64 = 3;
/// The sequence of all packets. No packet refers to another one.
const SEQUENCE: u64 = 1;

/// `TrackEvent.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
}

/// The end of an arrow between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The event has no arrow.
    None,
    /// An arrow begins here.
    From(u64),
    /// An arrow ends here.
    To(u64),
}

/// Writes packets. After an error, nothing more is written, and [`Self::close`] returns the error.
pub struct Encoder<W: Write> {
    out: W,
    written: io::Result<()>,
    next_uuid: u64,
    next_flow: u64,
    /// The packet that is being made, and the message in it.
    packet: Vec<u8>,
    inner: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    /// Makes an empty trace.
    pub fn new(out: W) -> Self {
        let (packet, inner) = (Vec::new(), Vec::new());
        Self { out, written: Ok(()), next_uuid: 1, next_flow: 1, packet, inner }
    }

    /// Adds a track below another one (0: none). `rank` is its position among its siblings.
    pub fn track(&mut self, name: &str, parent: u64, rank: u64) -> u64 {
        let uuid = self.next_uuid;
        self.next_uuid += 1;
        self.packet.clear();
        self.inner.clear();
        varint_field(&mut self.inner, field::UUID, uuid);
        bytes_field(&mut self.inner, field::NAME, name.as_bytes());
        if parent != 0 {
            varint_field(&mut self.inner, field::PARENT_UUID, parent);
        }
        varint_field(&mut self.inner, field::CHILD_ORDERING, EXPLICIT);
        varint_field(&mut self.inner, field::SIBLING_ORDER_RANK, rank);
        bytes_field(&mut self.packet, field::TRACK_DESCRIPTOR, &self.inner);
        self.write_packet();
        uuid
    }

    /// Adds an event to a track. The end of a slice has no name.
    pub fn event(&mut self, now_ns: u64, track: u64, what: Type, name: &str, flow: Flow) {
        self.packet.clear();
        self.inner.clear();
        varint_field(&mut self.inner, field::TYPE, what as u64);
        varint_field(&mut self.inner, field::TRACK_UUID, track);
        if !name.is_empty() {
            bytes_field(&mut self.inner, field::EVENT_NAME, name.as_bytes());
        }
        match flow {
            Flow::None => {}
            Flow::From(id) => fixed64_field(&mut self.inner, field::FLOW_IDS, id),
            Flow::To(id) => fixed64_field(&mut self.inner, field::TERMINATING_FLOW_IDS, id),
        }
        varint_field(&mut self.packet, field::TIMESTAMP, now_ns);
        varint_field(&mut self.packet, field::SEQUENCE, SEQUENCE);
        bytes_field(&mut self.packet, field::TRACK_EVENT, &self.inner);
        self.write_packet();
    }

    /// The number for a new arrow.
    pub fn flow(&mut self) -> u64 {
        let flow = self.next_flow;
        self.next_flow += 1;
        flow
    }

    fn write_packet(&mut self) {
        if self.written.is_ok() {
            self.inner.clear();
            bytes_field(&mut self.inner, field::PACKET, &self.packet);
            self.written = self.out.write_all(&self.inner);
        }
    }

    /// Ends the trace. The result says whether an error occurred.
    pub fn close(mut self) -> (W, io::Result<()>) {
        let flushed = self.out.flush();
        (self.out, self.written.and(flushed))
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn key(out: &mut Vec<u8>, field: u32, wire_type: u32) {
    varint(out, u64::from(field << 3 | wire_type));
}

fn varint_field(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, VARINT);
    varint(out, value);
}

fn fixed64_field(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, FIXED64);
    out.extend(value.to_le_bytes());
}

fn bytes_field(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    key(out, field, BYTES);
    varint(out, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    out.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_what_protobuf_makes_of_them() {
        let mut encoder = Encoder::new(Vec::new());
        assert_eq!(encoder.track("ab", 0, 300), 1);
        encoder.event(5, 1, Type::SliceBegin, "x", Flow::From(2));
        let (bytes, written) = encoder.close();
        assert!(written.is_ok());
        let descriptor =
            [0x0a, 14, 0xe2, 0x03, 11, 0x08, 1, 0x12, 2, b'a', b'b', 0x58, 3, 0x60, 0xac, 0x02];
        assert_eq!(bytes[..descriptor.len()], descriptor);
        let event = [
            0x0a, 24, 0x40, 5, 0x50, 1, 0x5a, 18, 0x48, 1, 0x58, 1, 0xba, 1, 1, b'x', 0xf9, 2, 2,
            0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[descriptor.len()..], event);
    }

    #[test]
    fn nothing_is_written_after_an_error() {
        struct Full(u32);
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                Err(io::Error::other("full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut encoder = Encoder::new(Full(0));
        encoder.track("a", 0, 0);
        encoder.track("b", 0, 0);
        let (out, written) = encoder.close();
        assert!(written.is_err() && out.0 == 1);
    }
}
