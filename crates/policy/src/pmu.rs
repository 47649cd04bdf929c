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

/// Which events are reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Any event that has the requested key, whichever counter held it.
    #[default]
    Keyed,
    /// The counter's own last event, if it has the same key. KVM's vPMU reuses events in this way.
    Last,
    /// None: an event is closed when a counter gives it back.
    Recreate,
}

/// What the remaining budget of a VM allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    /// No counter is served until the next period.
    Nothing,
    /// Events that are open may be reused.
    Reuse,
    /// Events may also be opened.
    Open,
}

/// How a counter gets its event. The number in each variant is the event's place in the pool, below
/// [`PC_PMU_EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// The event is open and paused.
    Use(usize),
    /// The place is free: open an event there.
    Open(usize),
    /// Close the event in this place, then open one there.
    Replace(usize),
}

/// What happens to an event that a counter gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Give {
    /// Disable the event; it stays open.
    Pause(usize),
    /// Close the event.
    Close(usize),
    /// The counter held no event.
    Nothing,
}

/// Why a counter gets no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such counter.
    NoSuchCounter,
    /// The counter holds an event with another key, and must give it back first.
    Busy,
    /// Counters hold all events.
    NoPlace,
    /// The budget is used up until the next period.
    NoBudget,
}

/// One vCPU's pool: which event serves which counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool(pc_pmu_pool);

impl Pool {
    /// An empty pool. An event that is idle for more than `release_slices` slices is closed; 0:
    /// never.
    #[must_use]
    pub fn new(mode: Mode, release_slices: u32) -> Pool {
        let mode = match mode {
            Mode::Keyed => PC_PMU_KEYED,
            Mode::Last => PC_PMU_LAST,
            Mode::Recreate => PC_PMU_RECREATE,
        };
        Pool(pc_pmu_pool { mode, release_slices, ..pc_pmu_pool::default() })
    }

    /// A pool in any state, for tests.
    #[must_use]
    pub fn from_state(state: pc_pmu_pool) -> Pool {
        Pool(state)
    }

    /// The state of the pool.
    #[must_use]
    pub fn state(&self) -> &pc_pmu_pool {
        &self.0
    }

    /// A counter takes an event with `key` (`pc_pmu_take`).
    ///
    /// # Errors
    /// The reason why the counter gets no event. The pool is then unchanged.
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
        // SAFETY: the pointers come from references. They are valid for the length of the call, and
        // exclusive where the function writes.
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
        // SAFETY: the pointers are valid and exclusive for the length of the call.
        unsafe { paracord_pmu_give(&raw mut self.0, counter, &raw mut decision) };
        match u32::from(decision.action) {
            PC_PMU_PAUSE => Give::Pause(decision.event.into()),
            PC_PMU_CLOSE => Give::Close(decision.event.into()),
            _ => Give::Nothing,
        }
    }

    /// Removes an event that could not be opened, or that the caller has closed for a reason of its
    /// own (`pc_pmu_drop`).
    pub fn forget(&mut self, event: usize) {
        let event = u32::try_from(event).unwrap_or(u32::MAX);
        // SAFETY: the pointer is valid and exclusive for the length of the call.
        unsafe { paracord_pmu_drop(&raw mut self.0, event) };
    }

    /// A slice ends (`pc_pmu_end_slice`). Returns the events to close.
    pub fn end_slice(&mut self) -> impl Iterator<Item = usize> + use<> {
        // SAFETY: the pointer is valid and exclusive for the length of the call.
        let close = unsafe { paracord_pmu_end_slice(&raw mut self.0) };
        (0..PC_PMU_EVENTS as usize).filter(move |event| close & (1 << event) != 0)
    }
}

/// The default of `release_slices`: `PC_PMU_RELEASE_SLICES`.
#[must_use]
pub fn default_release_slices() -> u32 {
    let mut pool = pc_pmu_pool::default();
    // SAFETY: the pointer is valid and exclusive. The function allows the other pointer to be
    // null.
    unsafe { paracord_pmu_defaults(&raw mut pool, core::ptr::null_mut()) };
    pool.release_slices
}

/// The default limits of the work that a VM may cause.
#[must_use]
pub fn default_quota() -> pc_pmu_quota {
    let mut quota = pc_pmu_quota::default();
    // SAFETY: the pointer is valid and exclusive. The function allows the other pointer to be
    // null.
    unsafe { paracord_pmu_defaults(core::ptr::null_mut(), &raw mut quota) };
    quota
}

/// A VM's budget, which the pools of its vCPUs share. Times are `CLOCK_MONOTONIC`.
pub struct Budget {
    quota: pc_pmu_quota,
    buckets: UnsafeCell<pc_pmu_budget>,
}

// SAFETY: only the C functions touch `buckets`. They use atomic and volatile accesses and tolerate
// concurrent changes (policy/budget.h, _shared).
unsafe impl Sync for Budget {}

impl Budget {
    /// A full budget.
    #[must_use]
    pub fn new(quota: pc_pmu_quota) -> Budget {
        Budget { quota, buckets: UnsafeCell::default() }
    }

    /// What the VM may do now (`pc_pmu_allowed`).
    #[must_use]
    pub fn allowed(&self, now_ns: u64) -> Allowed {
        // SAFETY: the pointers are valid for the length of the call. For the shared pointer, see
        // Sync.
        match unsafe { paracord_pmu_allowed(self.buckets.get(), &raw const self.quota, now_ns) } {
            PC_PMU_ALLOW_OPEN => Allowed::Open,
            PC_PMU_ALLOW_REUSE => Allowed::Reuse,
            _ => Allowed::Nothing,
        }
    }

    /// Charges what the VM has caused: opened events and time in system calls (`pc_pmu_charge`).
    pub fn charge(&self, opens: u32, used_ns: u64) {
        // SAFETY: the pointers are valid for the length of the call. For the shared pointer, see
        // Sync.
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
