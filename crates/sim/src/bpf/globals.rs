// SPDX-License-Identifier: GPL-2.0-only
//! The globals of the natively compiled programs, and the memory for the kernel objects and maps of
//! a machine.
//!
//! A process has one set of globals. Each machine has a copy, which is swapped in while the machine
//! runs. The memory of all machines is mapped at the same address, at a fixed distance from the
//! globals, because programs hash this distance.

use std::{
    fs::File,
    os::fd::AsFd,
    ptr::{self, NonNull},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use rustix::mm::{MapFlags, ProtFlags};

use super::native;

/// Distance from the globals to the machines' memory. The program, its heap and its libraries must
/// be in between.
const DISTANCE: usize = 1 << 40;
/// Address space of a machine. Pages that are not used take no memory.
pub(super) const ARENA_BYTES: usize = 1 << 30;
const PAGE: usize = 1 << 16; // the largest page of any architecture

/// The two sections with zeroed and initialised globals.
type Sections = [Vec<u8>; 2];

fn section(index: u32) -> (*mut u8, usize) {
    let mut bytes = 0;
    // SAFETY: the function writes the size.
    let start = unsafe { native::sim_globals(index, &raw mut bytes) };
    (start, bytes as usize)
}

fn read() -> Sections {
    [0, 1].map(|index| {
        let (start, bytes) = section(index);
        // SAFETY: these are the bytes of the section, which no other code writes at the same time
        // (because of the lock, or because this is the first use).
        unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec()
    })
}

fn write(sections: &Sections) {
    for (index, bytes) in (0..).zip(sections) {
        let (start, size) = section(index);
        debug_assert_eq!(size, bytes.len());
        // SAFETY: the section has this many bytes, and no other code uses them at the same time
        // (the lock).
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start, size) };
    }
}

/// The globals as the compiler made them.
fn pristine() -> &'static Sections {
    static PRISTINE: OnceLock<Sections> = OnceLock::new();
    PRISTINE.get_or_init(read)
}

/// The machine whose globals and memory are in place. 0: none.
static ACTIVE: Mutex<u64> = Mutex::new(0);

/// The globals and the memory of a machine.
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
    /// Makes the globals of a machine whose programs have just been loaded.
    ///
    /// # Errors
    /// There is not enough memory.
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

    /// Takes the globals out of place. The memory stays mapped until another machine needs the
    /// address.
    pub(super) fn leave(&mut self, place: InPlace) {
        self.sections = read();
        drop(place);
    }

    fn map(&self) {
        // SAFETY: the address range belongs only to the machines, and the lock is held. If the call
        // fails, the process has no address space left, so it cannot continue.
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

    /// Allocates zeroed memory of the machine, which is never freed. The address of the memory
    /// depends only on the order and sizes of the allocations. The machine must be in place.
    /// `None`: all memory is used.
    pub(super) fn allocate(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let start = self.used.next_multiple_of(align);
        let end = start.checked_add(bytes).filter(|end| *end <= ARENA_BYTES)?;
        self.used = end;
        NonNull::new((base() + start) as *mut u8)
    }
}

/// First and last address of each section and of the machines' memory. They are stored here because
/// traced programs cannot be asked while they run.
#[cfg(feature = "traced")]
static SHARED: OnceLock<[(usize, usize); 3]> = OnceLock::new();

/// Stores the addresses before the first machine runs.
#[cfg(feature = "traced")]
fn note_shared() {
    let span = |index: u32| {
        let (start, bytes) = section(index);
        (start as usize, start as usize + bytes)
    };
    let _ = SHARED.set([span(0), span(1), (base(), base() + ARENA_BYTES)]);
}

/// Whether an address is in memory that CPUs share: globals, kernel objects and maps, but not
/// stacks.
#[cfg(feature = "traced")]
pub(super) fn is_shared(address: usize) -> bool {
    SHARED
        .get()
        .is_some_and(|spans| spans.iter().any(|(start, end)| (*start..*end).contains(&address)))
}
