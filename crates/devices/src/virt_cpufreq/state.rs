// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Snapshot and restore.
//!
//! A guest's driver reads the tables once, when it starts, and later requests frequencies from
//! those tables. Therefore a snapshot contains the tables, and it can be restored only on a device
//! that shows the same tables to the same vCPUs.

use std::sync::atomic::Ordering::Relaxed;

use super::{Backend, VirtCpufreq};

/// Version of [`State`]. States of other versions are refused.
pub const STATE_VERSION: u32 = 1;

/// The state of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// The policies, indexed by the value of perf_domain.
    pub policies: Vec<PolicyState>,
    /// The vCPUs.
    pub cpus: Vec<CpuState>,
}

/// A policy: vCPUs that share one requested frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicyState {
    /// The table that the vCPUs of the policy see.
    pub khz: Vec<u32>,
    /// The frequency that the policy requests; 0: no request.
    pub requested_khz: u32,
}

/// The state of one vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuState {
    /// The register perf_domain.
    pub policy: u32,
    /// The register perftbl_sel.
    pub selected: u32,
    /// The register cur_perf.
    pub current_khz: u32,
}

/// Why a state is refused. No part of a refused state is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The state was saved with a different [`STATE_VERSION`].
    #[error("the state has version {found}, but this device has version {STATE_VERSION}")]
    Version {
        /// The state's version.
        found: u32,
    },
    /// The state has a different number of vCPUs than the device.
    #[error("the state has {found} vCPUs, but this device has {here}")]
    Cpus {
        /// vCPUs in the state.
        found: usize,
        /// vCPUs of the device.
        here: usize,
    },
    /// In the state, a vCPU belongs to a different policy, or the number of policies is different.
    #[error("the state's vCPUs are in other performance domains than this device's")]
    Policies,
    /// A table in the state differs from the device's table.
    #[error("the state's table of performance domain {policy} is not this device's")]
    Table {
        /// Number of the performance domain.
        policy: usize,
    },
    /// A request above the highest entry of the table.
    #[error("the state's request for performance domain {policy} is {found} kHz, above its table")]
    Requested {
        /// Number of the performance domain.
        policy: usize,
        /// The request, in kHz.
        found: u32,
    },
    /// The frequency of a vCPU is 0, or above the highest entry of its table.
    #[error("the state's frequency of vCPU {vcpu} is {found} kHz, not within its table")]
    Current {
        /// The vCPU.
        vcpu: usize,
        /// Its frequency, in kHz.
        found: u32,
    },
}

impl<B: Backend> VirtCpufreq<B> {
    /// Copies the current state. The copy is consistent if no vCPU runs. The copy does not contain
    /// the counts of the guest's accesses.
    pub fn state(&self) -> State {
        let policies = self.policies.iter().map(|policy| PolicyState {
            khz: policy.domain.khz().to_vec(),
            requested_khz: policy.requested_khz.load(Relaxed),
        });
        let cpus = self.pages.iter().map(|page| CpuState {
            policy: page.policy.number,
            selected: page.selected.load(Relaxed),
            current_khz: page.current_khz.load(Relaxed),
        });
        State { version: STATE_VERSION, policies: policies.collect(), cpus: cpus.collect() }
    }

    /// Restores a state before any vCPU runs, and passes the requests of its policies to the back
    /// end.
    ///
    /// # Errors
    /// The first [`StateError`] that applies. The state of the device is then unchanged.
    pub fn restore(&self, state: &State) -> Result<(), StateError> {
        self.check(state)?;
        for (page, cpu) in self.pages.iter().zip(&state.cpus) {
            page.selected.store(cpu.selected, Relaxed);
            page.current_khz.store(cpu.current_khz, Relaxed);
        }
        for (policy, saved) in self.policies.iter().zip(&state.policies) {
            policy.requested_khz.store(saved.requested_khz, Relaxed);
            self.tell(policy, policy.domain.request(saved.requested_khz));
        }
        Ok(())
    }

    fn check(&self, state: &State) -> Result<(), StateError> {
        if state.version != STATE_VERSION {
            return Err(StateError::Version { found: state.version });
        }
        if state.cpus.len() != self.pages.len() {
            return Err(StateError::Cpus { found: state.cpus.len(), here: self.pages.len() });
        }
        let together = self.pages.iter().zip(&state.cpus);
        if state.policies.len() != self.policies.len()
            || together.clone().any(|(page, cpu)| page.policy.number != cpu.policy)
        {
            return Err(StateError::Policies);
        }
        for (policy, (here, saved)) in self.policies.iter().zip(&state.policies).enumerate() {
            if here.domain.khz() != saved.khz {
                return Err(StateError::Table { policy });
            }
            if saved.requested_khz > here.domain.max_khz() {
                return Err(StateError::Requested { policy, found: saved.requested_khz });
            }
        }
        for (vcpu, (page, cpu)) in together.enumerate() {
            if !(1..=page.policy.domain.max_khz()).contains(&cpu.current_khz) {
                return Err(StateError::Current { vcpu, found: cpu.current_khz });
            }
        }
        Ok(())
    }
}
