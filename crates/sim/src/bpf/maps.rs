// SPDX-License-Identifier: GPL-2.0-only
//! Maps other than arrays, whose elements programs find by themselves; rings; timers.

use std::{
    collections::{HashMap, VecDeque},
    ffi::c_void,
    ptr::NonNull,
};

use paracord_policy::{PC_VCPUS_MAX, pc_msg};

/// Messages that the ring of 256 KiB holds (bpf/sensor.bpf.c).
const MESSAGES_MAX: usize = 256 * 1024 / (size_of::<pc_msg>() + 8);

/// A timer that a program has made.
#[derive(Clone, Copy)]
pub(super) struct Timer {
    pub timer: *mut c_void,
    pub map: *mut c_void,
    pub callback: Option<unsafe extern "C" fn(*mut c_void, *mut u32, *mut c_void) -> i32>,
}

/// A machine's maps.
pub(super) struct Maps {
    pub cpus: usize,
    /// Entries of hash maps by map and key; values never move.
    hash: HashMap<(usize, u64), NonNull<u8>>,
    free_values: Vec<NonNull<u8>>,
    free_indices: VecDeque<u32>,
    /// Reserved and not yet submitted.
    reserved: Option<Box<pc_msg>>,
    messages: Vec<pc_msg>,
    pub timers: Vec<Timer>,
    /// Messages that found the ring full.
    pub dropped: u64,
}

impl Maps {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            cpus,
            hash: HashMap::new(),
            free_values: Vec::new(),
            free_indices: (0..PC_VCPUS_MAX).collect(),
            reserved: None,
            messages: Vec::new(),
            timers: Vec::new(),
            dropped: 0,
        }
    }

    pub(super) fn lookup(&self, map: usize, key: u64) -> Option<NonNull<u8>> {
        self.hash.get(&(map, key)).copied()
    }

    /// A new entry's value lies there.
    pub(super) fn insert(&mut self, map: usize, key: u64, value: NonNull<u8>) {
        self.hash.insert((map, key), value);
    }

    /// Where the value of an entry lay that is gone.
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

    pub(super) fn reserve(&mut self) -> Option<NonNull<pc_msg>> {
        if self.messages.len() >= MESSAGES_MAX {
            self.dropped += 1;
            return None;
        }
        let record = self.reserved.insert(Box::default());
        Some(NonNull::from(&mut **record))
    }

    pub(super) fn submit(&mut self) {
        self.messages.extend(self.reserved.take().map(|record| *record));
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    pub(super) fn take_messages(&mut self) -> Vec<pc_msg> {
        std::mem::take(&mut self.messages)
    }
}
