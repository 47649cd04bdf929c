// SPDX-License-Identifier: GPL-2.0-only
//! Maps other than arrays, the ring of messages, and timers. (Programs find the elements of arrays
//! by themselves.)

use std::{
    collections::{HashMap, VecDeque},
    ffi::c_void,
    ptr::NonNull,
};

use paracord_policy::{PC_VCPUS_MAX, pc_msg};

/// Number of messages that fit the ring of 256 KiB (bpf/sensor.bpf.c).
const MESSAGES_MAX: usize = 256 * 1024 / (size_of::<pc_msg>() + 8);

/// A timer that a program has made.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub timer: *mut c_void,
    pub map: *mut c_void,
    pub callback: Option<unsafe extern "C" fn(*mut c_void, *mut u32, *mut c_void) -> i32>,
    /// Number of starts so far. An event with an earlier number was cancelled.
    pub seq: u32,
}

/// A record of the ring.
struct Record {
    message: NonNull<pc_msg>,
    submitted: bool,
}

/// The ring of messages. Readers get the records in the order of their reservation, up to the first
/// one that is not submitted.
#[derive(Default)]
pub(super) struct Ring(VecDeque<Record>);

impl Ring {
    /// Reserves room for a message. `None`: the ring is full.
    pub(super) fn reserve(&mut self) -> Option<NonNull<pc_msg>> {
        if self.0.len() >= MESSAGES_MAX {
            return None;
        }
        let message = NonNull::from(Box::leak(Box::default()));
        self.0.push_back(Record { message, submitted: false });
        Some(message)
    }

    /// Submits a message that was reserved and is now written.
    pub(super) fn submit(&mut self, message: *mut pc_msg) {
        if let Some(record) = self.0.iter_mut().find(|record| record.message.as_ptr() == message) {
            record.submitted = true;
        }
    }

    pub(super) fn has_any(&self) -> bool {
        self.0.front().is_some_and(|record| record.submitted)
    }

    /// Removes the next message.
    pub(super) fn pop(&mut self) -> Option<pc_msg> {
        if !self.has_any() {
            return None;
        }
        self.0.pop_front().map(Record::take)
    }
}

impl Record {
    fn take(self) -> pc_msg {
        // SAFETY: the pointer comes from `reserve()`. It is taken only once, because the record has
        // been removed from the ring.
        *unsafe { Box::from_raw(self.message.as_ptr()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for record in self.0.drain(..) {
            record.take();
        }
    }
}

/// The maps of a machine.
pub(super) struct Maps {
    pub cpus: usize,
    /// Entries of hash maps, by map and key. Values never move.
    hash: HashMap<(usize, u64), NonNull<u8>>,
    free_values: Vec<NonNull<u8>>,
    free_indices: VecDeque<u32>,
    pub messages: Ring,
    pub timers: Vec<Timer>,
}

impl Maps {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            cpus,
            hash: HashMap::new(),
            free_values: Vec::new(),
            free_indices: (0..PC_VCPUS_MAX).collect(),
            messages: Ring::default(),
            timers: Vec::new(),
        }
    }

    pub(super) fn lookup(&self, map: usize, key: u64) -> Option<NonNull<u8>> {
        self.hash.get(&(map, key)).copied()
    }

    /// Adds an entry whose value is at this address.
    pub(super) fn insert(&mut self, map: usize, key: u64, value: NonNull<u8>) {
        self.hash.insert((map, key), value);
    }

    /// The address of the value of a removed entry, for reuse.
    pub(super) fn free_value(&mut self) -> Option<NonNull<u8>> {
        self.free_values.pop()
    }

    pub(super) fn delete(&mut self, map: usize, key: u64) -> bool {
        let value = self.hash.remove(&(map, key));
        self.free_values.extend(value);
        value.is_some()
    }

    pub(super) fn pop_index(&mut self) -> Option<u32> {
        self.free_indices.pop_front()
    }

    pub(super) fn offer(&mut self, index: u32) {
        self.free_indices.push_back(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_the_order_of_their_reservation() {
        let mut ring = Ring::default();
        let [first, second] = [1, 2].map(|tid| {
            let mut message = ring.reserve().expect("room");
            // SAFETY: no other reference to the message exists.
            unsafe { message.as_mut() }.tid = tid;
            message.as_ptr()
        });
        ring.submit(second);
        assert!(ring.pop().is_none(), "the first message is not written yet");
        ring.submit(first);
        let tids: Vec<_> = std::iter::from_fn(|| ring.pop()).map(|message| message.tid).collect();
        assert_eq!(tids, [1, 2]);
    }
}
