// SPDX-License-Identifier: GPL-2.0-only
//! The boost policy (policy/*.h), compiled natively for tests, fuzzing and the simulator. Also
//! contains the types that the sensor shares with the daemon.
//!
//! All times are in nanoseconds of `CLOCK_MONOTONIC`, except in load tracking ([`pelt`], [`perf`]),
//! where the caller chooses the clock. No function fails, whatever bytes its arguments contain (see
//! `tests/`).

/// Rust versions of the types in bpf/sensor_shared.h (including those of policy/*_types.h) and in
/// policy/pmu_pool_types.h.
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
    fn paracord_boost_left_ns(
        cfg: *const pc_boost_config,
        st: *const pc_boost_state,
        now_ns: u64,
    ) -> u64;
    fn paracord_boost_wants_view(st: *const pc_boost_state, now_ns: u64) -> core::ffi::c_int;
    fn paracord_boost_level(reasons: u32) -> u32;
    fn paracord_guest_view(
        context_word: u64,
        preempt_count: u32,
        preempt_count_mask: u32,
        view: *mut pc_guest_view,
    );
}

/// The default configuration of vCPUs (policy/boost_defaults.h).
#[must_use]
pub fn defaults() -> pc_boost_config {
    let mut cfg = pc_boost_config::default();
    // SAFETY: the pointer is valid and exclusive, and has the type that the function fills.
    unsafe { paracord_boost_defaults(&raw mut cfg) };
    cfg
}

/// The default configuration of the other threads of a VMM.
#[must_use]
pub fn io_defaults() -> pc_boost_config {
    let mut cfg = pc_boost_config::default();
    // SAFETY: the pointer is valid and exclusive, and has the type that the function fills.
    unsafe { paracord_boost_io_defaults(&raw mut cfg) };
    cfg
}

/// One policy step of one vCPU (`pc_boost_step`): charges running time, then decides.
///
/// `vm` is the bucket of the vCPU's VM. `cpu` is the bucket of the host CPU that the vCPU runs on
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
    // SAFETY: the pointers come from references. They are valid for the length of the call, and
    // exclusive where the function writes. The function keeps none of them.
    unsafe { paracord_boost_step(cfg, state, vm, cpu, obs, now_ns, &raw mut decision) };
    decision
}

/// Whether the caller may skip the step for an exit at `now_ns` (`pc_boost_is_quiet`).
#[must_use]
pub fn is_quiet(state: &pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_boost_is_quiet(state, now_ns) != 0 }
}

/// The running time after which all grants of a boost are used up (`pc_boost_left_ns`); 0 without a
/// boost.
#[must_use]
pub fn left_ns(cfg: &pc_boost_config, state: &pc_boost_state, now_ns: u64) -> u64 {
    // SAFETY: the pointers come from references and are valid for the length of the call.
    unsafe { paracord_boost_left_ns(cfg, state, now_ns) }
}

/// Whether the result of a preemption at `now_ns` depends on the guest's hints
/// (`pc_boost_wants_view`).
#[must_use]
pub fn wants_view(state: &pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: the pointer comes from a reference and is valid for the length of the call.
    unsafe { paracord_boost_wants_view(state, now_ns) != 0 }
}

/// Short form of the step for `PC_EV_RUN` (`pc_boost_resume`). Returns false if the caller must
/// call [`step`] instead.
pub fn resume(state: &mut pc_boost_state, cpu: &pc_bucket, now_ns: u64) -> bool {
    // SAFETY: the pointers are valid for the length of the call, and the first one is exclusive.
    unsafe { paracord_boost_resume(state, cpu, now_ns) != 0 }
}

/// Short form of the step for `PC_EV_IRQ` (`pc_boost_note_irq`). Returns false if the caller must
/// call [`step`] instead.
pub fn note_irq(state: &mut pc_boost_state, now_ns: u64) -> bool {
    // SAFETY: the pointer is valid and exclusive for the length of the call.
    unsafe { paracord_boost_note_irq(state, now_ns) != 0 }
}

/// The `PC_LEVEL_*` of a boost with these reasons (`pc_boost_level`).
#[must_use]
pub fn level(reasons: u32) -> u32 {
    // SAFETY: the call takes and returns plain integers only.
    unsafe { paracord_boost_level(reasons) }
}

/// Makes the view of a guest from its context word and its preempt count (`pc_guest_view_of`).
#[must_use]
pub fn guest_view(context_word: u64, preempt_count: u32, preempt_count_mask: u32) -> pc_guest_view {
    let mut view = pc_guest_view::default();
    // SAFETY: the pointer is valid and exclusive; the other arguments are plain integers.
    unsafe { paracord_guest_view(context_word, preempt_count, preempt_count_mask, &raw mut view) };
    view
}
