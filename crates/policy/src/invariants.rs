// SPDX-License-Identifier: GPL-2.0-only
//! Invariants that hold after every policy step, whatever bytes the step gets. The property tests
//! and the fuzz target share this check.

use crate::{
    PC_BOOST, PC_KEEP, PC_MODE_OBSERVE, PC_MODE_ON, PC_REASONS, PC_UNBOOST, pc_boost_config,
    pc_boost_obs, pc_boost_state, pc_bucket, step,
};

/// Bounds of policy/budget.h and policy/boost.h. They are repeated here so that the checks notice
/// an accidental change of the headers.
const PERIOD_MIN_NS: u64 = 10_000_000;
const PERIOD_MAX_NS: u64 = 10_000_000_000;
const DEBT_MAX_NS: i64 = 10_000_000_000;
const PENALTY_MAX_PERIODS: u64 = 65_536;

/// Everything that one step reads and writes.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Configuration.
    pub cfg: pc_boost_config,
    /// The vCPU's state.
    pub state: pc_boost_state,
    /// The VM's bucket.
    pub vm: pc_bucket,
    /// The host CPU's bucket.
    pub cpu: pc_bucket,
    /// Observations.
    pub obs: pc_boost_obs,
    /// Time of the step.
    pub now_ns: u64,
}

/// Types of plain integers: all byte patterns are valid values.
trait Plain: Default {}
impl Plain for pc_boost_config {}
impl Plain for pc_boost_state {}
impl Plain for pc_bucket {}
impl Plain for pc_boost_obs {}
impl Plain for u64 {}

/// Takes a value from the front of `bytes`. Returns the default value if too few bytes are left.
fn take<T: Plain>(bytes: &mut &[u8]) -> T {
    match bytes.split_at_checked(size_of::<T>()) {
        Some((head, rest)) => {
            *bytes = rest;
            // SAFETY: there are enough bytes, the read is unaligned, and T consists of plain
            // integers.
            unsafe { head.as_ptr().cast::<T>().read_unaligned() }
        }
        None => T::default(),
    }
}

impl Inputs {
    /// Size of a complete set of inputs.
    pub const BYTES: usize = size_of::<pc_boost_config>()
        + size_of::<pc_boost_state>()
        + 2 * size_of::<pc_bucket>()
        + size_of::<pc_boost_obs>()
        + size_of::<u64>();

    /// Inputs from arbitrary bytes. Missing bytes are zero.
    #[must_use]
    pub fn from_bytes(mut bytes: &[u8]) -> Self {
        let bytes = &mut bytes;
        let mut inputs = Self {
            cfg: take(bytes),
            state: take(bytes),
            vm: take(bytes),
            cpu: take(bytes),
            obs: take(bytes),
            now_ns: take(bytes),
        };
        // As 32 arbitrary bits, `refused` would nearly always be set, and nothing would ever be
        // boosted.
        inputs.obs.refused &= 1;
        inputs
    }

    /// Runs one step and checks the invariants.
    ///
    /// # Panics
    ///
    /// If the step breaks an invariant.
    pub fn check(mut self) {
        let before = self.clone();
        let decision =
            step(&self.cfg, &mut self.state, &mut self.vm, &mut self.cpu, &self.obs, self.now_ns);
        let (cfg, state) = (&self.cfg, &self.state);
        let period = cfg.period_ns.clamp(PERIOD_MIN_NS, PERIOD_MAX_NS);

        assert!(state.boosted <= 1 && state.throttled <= 1, "flags: {before:?} {state:?}");
        assert_eq!(
            state.boosted == 1,
            state.reasons != 0,
            "boosted for a reason: {before:?} {state:?}"
        );
        assert!(!(state.boosted == 1 && state.throttled != 0), "throttled and boosted: {before:?}");
        assert_eq!(
            u32::from(decision.action),
            match (before.state.boosted != 0, state.boosted != 0) {
                (false, true) => PC_BOOST,
                (true, false) => PC_UNBOOST,
                _ => PC_KEEP,
            },
            "the action does not match the transition: {before:?} {state:?}"
        );
        assert!(
            decision.suppressed == 0 || state.boosted == 0,
            "a suppressed vCPU is boosted: {before:?}"
        );
        assert!(
            decision.charged_ns <= self.now_ns.wrapping_sub(before.state.last_charge_ns),
            "charged for more time than has passed: {before:?}"
        );
        if cfg.mode != PC_MODE_ON && cfg.mode != PC_MODE_OBSERVE {
            assert_eq!(state.boosted, 0, "mode off boosts: {before:?}");
        }
        if self.obs.refused != 0 {
            assert_eq!(state.boosted, 0, "refused and boosted: {before:?}");
        }
        for (bucket, budget) in [(&state.vcpu, cfg.vcpu_budget_ns)].into_iter().chain(
            (0..PC_REASONS as usize)
                .map(|reason| (&state.reason[reason], cfg.reason[reason].budget_ns)),
        ) {
            let limit = i64::try_from(budget.min(period)).unwrap_or(i64::MAX);
            assert!(
                (-DEBT_MAX_NS..=limit).contains(&bucket.left_ns),
                "bucket: {before:?} {state:?}"
            );
        }
        if state.boosted == 1 {
            assert!(state.vcpu.left_ns > 0, "boosted without vCPU budget: {before:?}");
            assert!(self.vm.left_ns > 0, "boosted without VM budget: {before:?}");
            assert!(self.cpu.left_ns > 0, "boosted out of the host's kept share: {before:?}");
            for reason in
                (0..PC_REASONS as usize).filter(|reason| state.reasons & (1 << reason) != 0)
            {
                let limits = &cfg.reason[reason];
                assert!(limits.enabled != 0, "disabled reason {reason}: {before:?}");
                assert!(
                    state.reason[reason].left_ns > 0,
                    "reason {reason} without budget: {before:?}"
                );
                assert!(
                    state.grant_used_ns[reason] < limits.grant_max_ns,
                    "grant {reason}: {before:?}"
                );
            }
        }
        if state.throttled == 1 {
            let left = state.throttled_until_ns.wrapping_sub(self.now_ns);
            let longest = u64::from(cfg.penalty_max_periods).clamp(1, PENALTY_MAX_PERIODS);
            let in_force = left <= u64::MAX / 2;
            assert!(
                !in_force || left <= longest * period + period,
                "throttle too long: {before:?}"
            );
        }
    }
}
