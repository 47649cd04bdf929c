// SPDX-License-Identifier: GPL-2.0-only
//! The natively compiled programs' globals, and the memory in which a machine's kernel objects and maps lie.
//!
//! A process has one set of globals. Each machine has a copy, which is swapped in while it runs; its memory is
//! mapped at the same address as every other's, at a fixed distance from the globals: programs hash that distance.

use std::{
    fs::File,
    os::fd::AsFd,
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use rustix::mm::{MapFlags, ProtFlags};

use super::native;

/// From the globals to the machines' memory: clear of the program, its heap, its libraries.
const DISTANCE: usize = 1 << 40;
/// Address space of a machine. What nobody touches takes no memory.
pub(super) const ARENA_BYTES: usize = 1 << 30;
const PAGE: usize = 1 << 16; // the largest page of any architecture

/// Both sections: zeroed and initialised globals.
type Sections = [Vec<u8>; 2];

fn section(index: u32) -> (*mut u8, usize) {
    let mut bytes = 0;
    // SAFETY: fills in an integer.
    let start = unsafe { native::sim_globals(index, &raw mut bytes) };
    (start, bytes as usize)
}

fn read() -> Sections {
    [0, 1].map(|index| {
        let (start, bytes) = section(index);
        // SAFETY: the section's bytes; nobody writes them meanwhile (the lock, or the first use).
        unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec()
    })
}

fn write(sections: &Sections) {
    for (index, bytes) in (0..).zip(sections) {
        let (start, size) = section(index);
        debug_assert_eq!(size, bytes.len());
        // SAFETY: as many bytes as the section has, which nobody uses meanwhile (the lock).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start, size) };
    }
}

/// As the compiler made them.
fn pristine() -> &'static Sections {
    static PRISTINE: OnceLock<Sections> = OnceLock::new();
    PRISTINE.get_or_init(read)
}

/// Which machine's globals and memory are in place; 0: none.
static ACTIVE: Mutex<u64> = Mutex::new(0);

/// A machine's globals and memory.
pub(super) struct Globals {
    id: u64,
    sections: Sections,
    memory: File,
    used: usize,
}

/// A machine is in place until this is dropped.
pub(super) struct InPlace {
    _active: MutexGuard<'static, u64>,
}

fn base() -> usize {
    let (start, _) = section(0);
    (start as usize).next_multiple_of(PAGE) + DISTANCE
}

impl Globals {
    /// A machine's, as if its programs had just been loaded.
    ///
    /// # Errors
    /// No memory.
    pub(super) fn new() -> std::io::Result<Self> {
        static LAST: Mutex<u64> = Mutex::new(0);
        #[cfg(feature = "traced")]
        note_shared();
        let id = {
            let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            *last += 1;
            *last
        };
        let active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let sections = pristine().clone();
        drop(active);
        let memory = rustix::fs::memfd_create("paracord-sim", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&memory, ARENA_BYTES as u64)?;
        Ok(Self { id, sections, memory: memory.into(), used: 0 })
    }

    /// Puts the machine in place.
    pub(super) fn enter(&mut self) -> InPlace {
        let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
        if *active != self.id {
            self.map();
            *active = self.id;
        }
        write(&self.sections);
        InPlace { _active: active }
    }

    /// Takes its globals out of place. The memory stays until another machine needs the address.
    pub(super) fn leave(&mut self, place: InPlace) {
        self.sections = read();
        drop(place);
    }

    fn map(&self) {
        // SAFETY: the address range belongs to the machines alone, and the lock is held. A failure is a
        // process without address space, which nobody can go on from.
        let mapped = unsafe {
            rustix::mm::mmap(
                base() as *mut _,
                ARENA_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED | MapFlags::NORESERVE,
                self.memory.as_fd(),
                0,
            )
        };
        assert_eq!(
            mapped.map(|at| at as usize),
            Ok(base()),
            "the simulator's memory can't be mapped"
        );
    }

    /// Zeroed memory of the machine, for ever; its place depends on the order of these calls alone. The machine is
    /// in place. `None`: all is used.
    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let start = self.used.next_multiple_of(align);
        let end = start.checked_add(bytes).filter(|end| *end <= ARENA_BYTES)?;
        self.used = end;
        NonNull::new((base() + start) as *mut u8)
    }
}

/// Where the globals and the machines' memory lie: first and last address of each. Programs that are traced cannot be
/// asked while they are.
#[cfg(feature = "traced")]
static SHARED: OnceLock<[(usize, usize); 3]> = OnceLock::new();

/// Before the first machine runs.
#[cfg(feature = "traced")]
fn note_shared() {
    let span = |index: u32| {
        let (start, bytes) = section(index);
        (start as usize, start as usize + bytes)
    };
    let _ = SHARED.set([span(0), span(1), (base(), base() + ARENA_BYTES)]);
}

/// Whether an address lies in memory that CPUs share: globals, kernel objects, maps. Not on a stack.
#[cfg(feature = "traced")]
pub(super) fn is_shared(address: usize) -> bool {
    SHARED
        .get()
        .is_some_and(|spans| spans.iter().any(|(start, end)| (*start..*end).contains(&address)))
}
