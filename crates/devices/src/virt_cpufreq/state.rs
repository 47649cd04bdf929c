// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Snapshot and restore.
//!
//! A guest reads the tables once, at its driver's start, and asks in their terms from then on. So a
//! snapshot carries them, and is only restored where the same vCPUs are shown the same tables.

use std::sync::atomic::Ordering::Relaxed;

use super::{Backend, VirtCpufreq};

/// Version of [`State`]; another one is refused.
pub const STATE_VERSION: u32 = 1;

/// A device's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    /// [`STATE_VERSION`].
    pub version: u32,
    /// By the value of perf_domain.
    pub policies: Vec<PolicyState>,
    /// By vCPU.
    pub cpus: Vec<CpuState>,
}

/// vCPUs that ask for one frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PolicyState {
    /// The table that they are shown.
    pub khz: Vec<u32>,
    /// What they ask for; 0: nothing.
    pub requested_khz: u32,
}

/// One vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuState {
    /// perf_domain.
    pub policy: u32,
    /// perftbl_sel.
    pub selected: u32,
    /// cur_perf.
    pub current_khz: u32,
}

/// Why a state is refused. Nothing of it is restored then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Of another version of the device.
    #[error("state of version {found}, this device has {STATE_VERSION}")]
    Version {
        /// The state's version.
        found: u32,
    },
    /// Of another number of vCPUs.
    #[error("state of {found} vCPUs, this device has {here}")]
    Cpus {
        /// vCPUs of the state.
        found: usize,
        /// vCPUs of the device.
        here: usize,
    },
    /// A vCPU is in another policy, or the state's number of policies is another.
    #[error("the state's vCPUs are in other performance domains than this device's")]
    Policies,
    /// The guest has seen another table.
    #[error("the state's table of performance domain {policy} is not this device's")]
    Table {
        /// Which one.
        policy: usize,
    },
    /// A request beyond the table.
    #[error("the state's request of performance domain {policy} is {found} kHz, beyond its table")]
    Requested {
        /// Which one.
        policy: usize,
        /// What it is.
        found: u32,
    },
    /// A frequency beyond the table, or none.
    #[error("the state's frequency of vCPU {vcpu} is {found} kHz, not within its table")]
    Current {
        /// Which vCPU.
        vcpu: usize,
        /// What it is.
        found: u32,
    },
}

impl<B: Backend> VirtCpufreq<B> {
    /// The state of the moment. Consistent when no vCPU runs. Counts are not part of it.
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

    /// Takes over a state, before any vCPU runs, and tells the back end what its policies ask for.
    ///
    /// # Errors
    /// The first [`StateError`] that applies; the device is as it was then.
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
