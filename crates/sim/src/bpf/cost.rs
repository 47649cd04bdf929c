// SPDX-License-Identifier: GPL-2.0-only
//! Counts the cost of operations (feature `traced`). The programs are compiled with a call before
//! each load and store, and at each edge between basic blocks (`-fsanitize-coverage`).
//!
//! A step is such an edge. A line is remote if another CPU has written it, or if another CPU holds
//! it and this CPU writes it. A real machine fetches such a line from the cache of another core.
//! Stacks are not counted, and neither is what the kernel does in the functions that programs call.

use std::{cell::RefCell, collections::HashMap};

use super::{globals, interface::Operation, native};
use crate::machine::CpuSet;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Edges between basic blocks.
    pub steps: u64,
    /// Loads and stores, except on the stack.
    pub accesses: u64,
    /// Lines that had to be fetched from another CPU for a read.
    pub remote_reads: u64,
    /// Lines that had to be taken from other CPUs for a write.
    pub remote_writes: u64,
}

impl Cost {
    fn less(self, other: Self) -> Self {
        Self {
            steps: self.steps - other.steps,
            accesses: self.accesses - other.accesses,
            remote_reads: self.remote_reads - other.remote_reads,
            remote_writes: self.remote_writes - other.remote_writes,
        }
    }

    fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.accesses += other.accesses;
        self.remote_reads += other.remote_reads;
        self.remote_writes += other.remote_writes;
    }
}

/// The CPUs that hold a line.
#[derive(Clone, Copy, Default)]
struct Line {
    holders: CpuSet,
}

#[derive(Default)]
struct Counter {
    now: Cost,
    inner: Cost,
    lines: HashMap<usize, Line>,
    sums: HashMap<Operation, (u64, Cost)>,
}

thread_local! {
    static COUNTER: RefCell<Counter> = RefCell::new(Counter::default());
}

/// Resets all counts, and forgets which CPU holds which line.
pub fn reset() {
    COUNTER.with_borrow_mut(|counter| *counter = Counter::default());
}

/// How often an operation was called, and the total cost of its calls.
#[must_use]
pub fn of(operation: Operation) -> (u64, Cost) {
    COUNTER.with_borrow(|counter| counter.sums.get(&operation).copied().unwrap_or_default())
}

/// The counts when an operation began. Operations that an operation calls are counted separately.
pub(super) struct Begun(Cost, Cost);

pub(super) fn begin() -> Begun {
    COUNTER.with_borrow_mut(|counter| Begun(counter.now, std::mem::take(&mut counter.inner)))
}

pub(super) fn end(operation: Operation, begun: &Begun) {
    COUNTER.with_borrow_mut(|counter| {
        let all = counter.now.less(begun.0);
        let own = all.less(counter.inner);
        let (count, sum) = counter.sums.entry(operation).or_default();
        *count += 1;
        sum.add(own);
        counter.inner = begun.1;
        counter.inner.add(all);
    });
}

fn access(address: usize, write: bool) {
    if !globals::is_shared(address) {
        return;
    }
    let cpu = native::context_cpu();
    COUNTER.with_borrow_mut(|counter| {
        counter.now.accesses += 1;
        let line = counter.lines.entry(address / LINE_BYTES).or_default();
        let held = line.holders.has(cpu);
        let alone = held && line.holders.len() == 1;
        let fresh = line.holders.is_empty();
        if write {
            counter.now.remote_writes += u64::from(!alone && !fresh);
            line.holders = CpuSet::of(cpu);
        } else {
            counter.now.remote_reads += u64::from(!held && !fresh);
            line.holders.insert(cpu);
        }
    });
}

macro_rules! accesses {
    ($($name:ident $write:literal)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(address: *const u8) {
                access(address as usize, $write);
            }
        )*
    };
}

accesses! {
    __sanitizer_cov_load1 false
    __sanitizer_cov_load2 false
    __sanitizer_cov_load4 false
    __sanitizer_cov_load8 false
    __sanitizer_cov_load16 false
    __sanitizer_cov_store1 true
    __sanitizer_cov_store2 true
    __sanitizer_cov_store4 true
    __sanitizer_cov_store8 true
    __sanitizer_cov_store16 true
}

#[unsafe(no_mangle)]
extern "C" fn sim_at_atomic(address: *const u8) {
    access(address as usize, true);
}

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_pc_guard(_guard: *mut u32) {
    COUNTER.with_borrow_mut(|counter| counter.now.steps += 1);
}

#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_trace_pc_guard_init(_start: *mut u32, _stop: *mut u32) {}
