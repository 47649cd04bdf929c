// SPDX-License-Identifier: GPL-2.0-only
//! The boost policy (policy/*.h), compiled natively for tests, fuzzing and the
//! simulator, and the types that the sensor shares with the daemon.
//!
//! All times are nanoseconds of `CLOCK_MONOTONIC`. No function can fail: any
//! bytes in any argument are survived (see `tests/`).

/// Layouts of policy/boost_types.h and bpf/sensor_shared.h.
#[allow(
    missing_docs,
    non_camel_case_types,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block
)]
#[rustfmt::skip]
mod generated;

pub mod balance;
pub mod core_share;
pub mod energy;
pub mod fair;
pub mod invariants;
pub mod pelt;
pub mod perf;
pub mod pmu;
pub mod pmu_invariants;
pub mod quota;
pub mod reserve;
pub mod topology;

pub use generated::*;

unsafe extern "C" {
    fn paracord_boost_io_defaults(cfg: *mut pc_boost_config);
    fn paracord_boost_defaults(cfg: *mut pc_boost_config);
    fn paracord_boost_step(
        cfg: *const pc_boost_config,
        st: *mut pc_boost_state,
        vm: *mut pc_bucket,
        cpu: *mut pc_bucket,
        obs: *const pc_boost_obs,
        now_ns: u64,
        decision: *mut pc_boost_decision,
    );
    fn paracord_boost_is_quiet(st: *const pc_boost_state, now_ns: u64) -> core::ffi::c_int;
    fn paracord_boost_resume(
        st: *mut pc_boost_state,
        cpu: *const pc_bucket,
        now_ns: u64,
    ) -> core::ffi::c_int;
    fn paracord_boost_note_irq(st: *mut pc_boost_state, now_ns: u64) -> core::ffi::c_int;
    fn paracord_boost_wants_view(st: *const pc_boost_state, now_ns: u64) -> core::ffi::c_int;
    fn paracord_boost_level(reasons: u32) -> u32;
    fn paracord_guest_view(
        context_word: u64,
        preempt_count: u32,
        preempt_count_mask: u32,
        view: *mut pc_guest_view,
    );
}

/// The default configuration (policy/boost_defaults.h).
#[must_use]
pub fn defaults() -> pc_boost_config {
    let mut cfg = pc_boost_config::default();
    // SAFETY: a valid, exclusive pointer to the type that the function fills.
    unsafe { paracord_boost_defaults(&raw mut cfg) };
    cfg
}

/// The same of a VMM's threads that are no vCPUs.
#[must_use]
pub fn io_defaults() -> pc_boost_config {
    let mut cfg = pc_boost_config::default();
    // SAFETY: a valid, exclusive pointer to the type that the function fills.
    unsafe { paracord_boost_io_defaults(&raw mut cfg) };
    cfg
}

/// One policy step of one vCPU (`pc_boost_step`): charges running time, then decides.
///
/// `vm` and `cpu` are the buckets of its VM and of the host CPU that it runs on
/// or ran on last.
pub fn step(
    cfg: &pc_boost_config,
    state: &mut pc_boost_state,
    vm: &mut pc_bucket,
    cpu: &mut pc_bucket,
    obs: &pc_boost_obs,
    now_ns: u64,
) -> pc_boost_decision {
    let mut decision = pc_boost_decision::default();
    // SAFETY: valid pointers from references for the length of the call, exclusive
    // where the function writes; it keeps none.
    unsafe { paracord_boost_step(cfg, state, vm, cpu, obs, now_ns, &raw mut decision) };
    decision
}

/// Whether the step for an exit at `now_ns` may be left out (`pc_boost_is_quiet`).
#[must_use]
pub fn is_quiet(state: &pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: a valid pointer from a reference for the length of the call.
    unsafe { paracord_boost_is_quiet(state, now_ns) != 0 }
}

/// Whether a preemption at `now_ns` depends on what the guest says (`pc_boost_wants_view`).
#[must_use]
pub fn wants_view(state: &pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: a valid pointer from a reference for the length of the call.
    unsafe { paracord_boost_wants_view(state, now_ns) != 0 }
}

/// `PC_EV_RUN` in short (`pc_boost_resume`); false when it takes a step.
pub fn resume(state: &mut pc_boost_state, cpu: &pc_bucket, now_ns: u64) -> bool {
    // SAFETY: valid pointers from references for the length of the call, the first one exclusive.
    unsafe { paracord_boost_resume(state, cpu, now_ns) != 0 }
}

/// `PC_EV_IRQ` in short (`pc_boost_note_irq`); false when it takes a step.
pub fn note_irq(state: &mut pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: a valid, exclusive pointer from a reference for the length of the call.
    unsafe { paracord_boost_note_irq(state, now_ns) != 0 }
}

/// `PC_LEVEL_*` of a boost for a mask of reasons (`pc_boost_level`).
#[must_use]
pub fn level(reasons: u32) -> u32 {
    // SAFETY: plain integers.
    unsafe { paracord_boost_level(reasons) }
}

/// What a guest's context word and its preempt count say (`pc_guest_view_of`).
#[must_use]
pub fn guest_view(context_word: u64, preempt_count: u32, preempt_count_mask: u32) -> pc_guest_view {
    let mut view = pc_guest_view::default();
    // SAFETY: a valid, exclusive pointer; the other arguments are plain integers.
    unsafe { paracord_guest_view(context_word, preempt_count, preempt_count_mask, &raw mut view) };
    view
}
