// SPDX-License-Identifier: GPL-2.0-only
//! The pool of perf events behind a guest's counters (policy/pmu_pool.h).

use core::cell::UnsafeCell;
use core::fmt;

use crate::{
    PC_PMU_ALLOW_NOTHING, PC_PMU_ALLOW_OPEN, PC_PMU_ALLOW_REUSE, PC_PMU_BUSY, PC_PMU_CLOSE,
    PC_PMU_EVENTS, PC_PMU_KEYED, PC_PMU_LAST, PC_PMU_NO_BUDGET, PC_PMU_NO_SUCH_COUNTER,
    PC_PMU_OPEN, PC_PMU_PAUSE, PC_PMU_RECREATE, PC_PMU_REPLACE, PC_PMU_USE, pc_pmu_budget,
    pc_pmu_decision, pc_pmu_key, pc_pmu_pool, pc_pmu_quota,
};

unsafe extern "C" {
    fn paracord_pmu_defaults(pool: *mut pc_pmu_pool, quota: *mut pc_pmu_quota);
    fn paracord_pmu_take(
        pool: *mut pc_pmu_pool,
        counter: u32,
        key: *const pc_pmu_key,
        allowed: u32,
        decision: *mut pc_pmu_decision,
    );
    fn paracord_pmu_give(pool: *mut pc_pmu_pool, counter: u32, decision: *mut pc_pmu_decision);
    fn paracord_pmu_drop(pool: *mut pc_pmu_pool, event: u32);
    fn paracord_pmu_end_slice(pool: *mut pc_pmu_pool) -> u32;
    fn paracord_pmu_allowed(
        budget: *mut pc_pmu_budget,
        quota: *const pc_pmu_quota,
        now_ns: u64,
    ) -> u32;
    fn paracord_pmu_charge(
        budget: *mut pc_pmu_budget,
        quota: *const pc_pmu_quota,
        opens: u32,
        used_ns: u64,
    );
}

/// What is used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Any event with the key asked for, whichever counter had it.
    #[default]
    Keyed,
    /// A counter's own last event, where the key is the same (seed 001).
    Last,
    /// Nothing: an event is closed when it is given back.
    Recreate,
}

/// What a VM's budget has left for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// No counter is served before the next period.
    Nothing,
    /// Events that are open.
    Reuse,
    /// Openings too.
    Open,
}

/// How a counter gets its event. The number is the event's place, below [`PC_PMU_EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The event is open and paused.
    Use(usize),
    /// One is to be opened in a free place.
    Open(usize),
    /// What is in the place is to be closed before.
    Replace(usize),
}

/// What becomes of an event that a counter gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Give {
    /// It stays, paused.
    Pause(usize),
    /// It is to be closed.
    Close(usize),
    /// The counter had none.
    Nothing,
}

/// Why a counter gets no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such counter.
    NoSuchCounter,
    /// It has an event with another key, to be given back before.
    Busy,
    /// Counters have all events.
    NoPlace,
    /// Not before the next period.
    NoBudget,
}

/// One vCPU's pool: which event serves which counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool(pc_pmu_pool);

impl Pool {
    /// An empty pool. An event that was idle for more than `release_slices` slices is closed; 0: never.
    #[must_use]
    pub fn new(mode: Mode, release_slices: u32) -> Pool {
        let mode = match mode {
            Mode::Keyed => PC_PMU_KEYED,
            Mode::Last => PC_PMU_LAST,
            Mode::Recreate => PC_PMU_RECREATE,
        };
        Pool(pc_pmu_pool { mode, release_slices, ..pc_pmu_pool::default() })
    }

    /// A pool in any state: for tests.
    #[must_use]
    pub fn from_state(state: pc_pmu_pool) -> Pool {
        Pool(state)
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> &pc_pmu_pool {
        &self.0
    }

    /// A counter takes an event with `key` (`pc_pmu_take`).
    ///
    /// # Errors
    /// Why it gets none; nothing has changed then.
    pub fn take(
        &mut self,
        counter: u32,
        key: &pc_pmu_key,
        allowed: Allowed,
    ) -> Result<Take, Refusal> {
        let allowed = match allowed {
            Allowed::Nothing => PC_PMU_ALLOW_NOTHING,
            Allowed::Reuse => PC_PMU_ALLOW_REUSE,
            Allowed::Open => PC_PMU_ALLOW_OPEN,
        };
        let mut decision = pc_pmu_decision::default();
        // SAFETY: valid pointers from references for the length of the call, exclusive where it writes.
        unsafe { paracord_pmu_take(&raw mut self.0, counter, key, allowed, &raw mut decision) };
        let event = usize::from(decision.event);
        match u32::from(decision.action) {
            PC_PMU_USE => Ok(Take::Use(event)),
            PC_PMU_OPEN => Ok(Take::Open(event)),
            PC_PMU_REPLACE => Ok(Take::Replace(event)),
            _ => Err(match u32::from(decision.cause) {
                PC_PMU_NO_SUCH_COUNTER => Refusal::NoSuchCounter,
                PC_PMU_BUSY => Refusal::Busy,
                PC_PMU_NO_BUDGET => Refusal::NoBudget,
                _ => Refusal::NoPlace,
            }),
        }
    }

    /// A counter gives its event back (`pc_pmu_give`).
    pub fn give(&mut self, counter: u32) -> Give {
        let mut decision = pc_pmu_decision::default();
        // SAFETY: valid, exclusive pointers from references for the length of the call.
        unsafe { paracord_pmu_give(&raw mut self.0, counter, &raw mut decision) };
        match u32::from(decision.action) {
            PC_PMU_PAUSE => Give::Pause(decision.event.into()),
            PC_PMU_CLOSE => Give::Close(decision.event.into()),
            _ => Give::Nothing,
        }
    }

    /// An event is gone without the pool's decision (`pc_pmu_drop`).
    pub fn forget(&mut self, event: usize) {
        let event = u32::try_from(event).unwrap_or(u32::MAX);
        // SAFETY: a valid, exclusive pointer from a reference for the length of the call.
        unsafe { paracord_pmu_drop(&raw mut self.0, event) };
    }

    /// A slice ends (`pc_pmu_end_slice`): the events to close.
    pub fn end_slice(&mut self) -> impl Iterator<Item = usize> + use<> {
        // SAFETY: a valid, exclusive pointer from a reference for the length of the call.
        let close = unsafe { paracord_pmu_end_slice(&raw mut self.0) };
        (0..PC_PMU_EVENTS as usize).filter(move |event| close & (1 << event) != 0)
    }
}

/// `PC_PMU_RELEASE_SLICES`.
#[must_use]
pub fn default_release_slices() -> u32 {
    let mut pool = pc_pmu_pool::default();
    // SAFETY: a valid, exclusive pointer; the function allows that the other is null.
    unsafe { paracord_pmu_defaults(&raw mut pool, core::ptr::null_mut()) };
    pool.release_slices
}

/// What a VM may cause by default.
#[must_use]
pub fn default_quota() -> pc_pmu_quota {
    let mut quota = pc_pmu_quota::default();
    // SAFETY: a valid, exclusive pointer; the function allows that the other is null.
    unsafe { paracord_pmu_defaults(core::ptr::null_mut(), &raw mut quota) };
    quota
}

/// A VM's budget, shared by the pools of its vCPUs. Times are of `CLOCK_MONOTONIC`.
pub struct Budget {
    quota: pc_pmu_quota,
    buckets: UnsafeCell<pc_pmu_budget>,
}

// SAFETY: `buckets` is only touched by the C functions, which use atomic and volatile accesses and
// tolerate what others do meanwhile (policy/budget.h, _shared).
unsafe impl Sync for Budget {}

impl Budget {
    /// A full one.
    #[must_use]
    pub fn new(quota: pc_pmu_quota) -> Budget {
        Budget { quota, buckets: UnsafeCell::default() }
    }

    /// What the VM may do now (`pc_pmu_allowed`).
    #[must_use]
    pub fn allowed(&self, now_ns: u64) -> Allowed {
        // SAFETY: valid pointers for the length of the call; see Sync for the shared one.
        match unsafe { paracord_pmu_allowed(self.buckets.get(), &raw const self.quota, now_ns) } {
            PC_PMU_ALLOW_OPEN => Allowed::Open,
            PC_PMU_ALLOW_REUSE => Allowed::Reuse,
            _ => Allowed::Nothing,
        }
    }

    /// What it has caused (`pc_pmu_charge`).
    pub fn charge(&self, opens: u32, used_ns: u64) {
        // SAFETY: valid pointers for the length of the call; see Sync for the shared one.
        unsafe {
            paracord_pmu_charge(self.buckets.get(), &raw const self.quota, opens, used_ns);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("quota", &self.quota).finish_non_exhaustive()
    }
}
