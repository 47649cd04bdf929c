// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The device for Linux' `virtual-cpufreq` guest driver (6.13 and newer; arm, arm64, riscv).
//!
//! The guest's governor writes the performance that its tasks need, and a [`Backend`] passes this
//! request to the host. At each tick, the guest reads how fast the vCPU runs, so that the guest's
//! load tracking is correct. [`registers`] contains the register table, [`fdt`] the device tree
//! node.
//!
//! | part | job |
//! |---|---|
//! | [`VirtCpufreq`] | the registers; a guest's access loads or stores an atomic |
//! | [`PerfDomain`] | the frequency table that vCPUs see, checked once |
//! | [`UclampBackend`] | turns requests into `uclamp.min` of the vCPUs' threads |
//! | [`Headroom`] | whether the host's governor adds headroom to these clamps |
//! | [`RegionBackend`] | stores requests in the region of paracord's host daemon |
//! | [`Frequencies`] | derives the frequencies for guests from the frequencies of the host CPUs |
//! | [`State`] | snapshot and restore |
//!
//! ```
//! use paracord_devices::virt_cpufreq::{Config, CpuConfig, PerfDomain, VirtCpufreq, registers};
//!
//! let domain = PerfDomain::from_frequencies(&[600_000, 1_200_000, 1_800_000], 1024, false)?;
//! let cpus = vec![CpuConfig { domain: 0 }; 4];
//! let device = VirtCpufreq::new(Config { domains: vec![domain], cpus }, ())?;
//!
//! // From the VMM's MMIO bus, in the vCPU's thread: vCPU 2 asks for 1.2 GHz.
//! let page = 2 * registers::PAGE_BYTES;
//! device.write(page + registers::SET_PERF, &1_200_000_u32.to_le_bytes());
//! assert_eq!(device.requested(2), Some(1_200_000));
//!
//! // From a housekeeping thread of the VMM: vCPU 2 runs at 600 MHz.
//! device.set_current(2, 600_000);
//! let mut data = [0; 4];
//! device.read(page + registers::CUR_PERF, &mut data);
//! assert_eq!(u32::from_le_bytes(data), 600_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod counts;
mod domain;
pub mod fdt;
mod frequencies;
mod headroom;
mod region;
pub mod registers;
mod state;
mod uclamp;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use backend::Backend;
pub use counts::Counts;
use counts::{Counters, Refusal};
pub use domain::{DomainError, KHZ_MAX, PerfDomain, Request};
pub use frequencies::Frequencies;
pub use headroom::{Headroom, governor_listens};
pub use region::{RegionBackend, RegionBackendError, RegionMemory};
use registers::{
    CUR_PERF, PAGE_BYTES, PERF_DOMAIN, PERFTBL_LEN, PERFTBL_RD, PERFTBL_SEL, REGISTER_BYTES,
    SET_PERF,
};
pub use state::{CpuState, PolicyState, STATE_VERSION, State, StateError};
pub use uclamp::{UclampBackend, UclampRefused};

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No vCPU, or more vCPUs than a 32-bit vCPU number can count.
    #[error("a virtual cpufreq device for {found} vCPUs")]
    Cpus {
        /// Number of vCPUs.
        found: usize,
    },
    /// A vCPU's domain is not in the list of domains.
    #[error("vCPU {vcpu} is in performance domain {domain}, but there are only {domains}")]
    NoDomain {
        /// The vCPU.
        vcpu: usize,
        /// Its domain.
        domain: usize,
        /// Number of domains.
        domains: usize,
    },
}

/// The configuration of one vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// Index of the vCPU's performance domain in [`Config::domains`].
    pub domain: usize,
}

/// The configuration of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The tables of frequencies that the device shows to vCPUs.
    pub domains: Vec<PerfDomain>,
    /// The vCPUs, in the order of the guest's logical CPUs. List all possible vCPUs, including
    /// those that are not present at boot, because the driver reads the pages of all of them.
    pub cpus: Vec<CpuConfig>,
}

/// A policy: vCPUs that share one requested frequency. The structure has its own cache lines, so
/// that vCPUs of other policies do not slow it down.
#[derive(Debug)]
#[repr(align(64))]
struct Policy {
    /// The value of the register perf_domain.
    number: u32,
    domain: PerfDomain,
    vcpus: Vec<u32>,
    /// Written by the vCPUs of the policy. 0: no request since the start.
    requested_khz: AtomicU32,
}

/// The registers of one vCPU.
#[derive(Debug)]
#[repr(align(64))]
struct Page {
    policy: Arc<Policy>,
    /// Written by `set_current`.
    current_khz: AtomicU32,
    /// Written by the guest, which may write any value.
    selected: AtomicU32,
}

/// The device. All methods take `&self`, and any thread may call them at any time.
#[derive(Debug)]
pub struct VirtCpufreq<B: Backend> {
    pages: Vec<Page>,
    policies: Vec<Arc<Policy>>,
    backend: B,
    counters: Counters,
}

impl<B: Backend> VirtCpufreq<B> {
    /// Makes a device in the state that it has when the guest starts: every vCPU runs at its
    /// highest frequency, and nothing is requested.
    ///
    /// # Errors
    /// Any [`ConfigError`].
    pub fn new(config: Config, backend: B) -> Result<VirtCpufreq<B>, ConfigError> {
        let Config { domains, cpus } = config;
        if cpus.is_empty() || u32::try_from(cpus.len()).is_err() {
            return Err(ConfigError::Cpus { found: cpus.len() });
        }
        // The domain and the vCPUs of each policy, and the policy of each vCPU.
        let mut members: Vec<(&PerfDomain, Vec<u32>)> = Vec::new();
        let mut shared: Vec<Option<usize>> = vec![None; domains.len()];
        let mut policy_of = Vec::with_capacity(cpus.len());
        for (vcpu, &CpuConfig { domain: index }) in cpus.iter().enumerate() {
            let Some(domain) = domains.get(index) else {
                return Err(ConfigError::NoDomain { vcpu, domain: index, domains: domains.len() });
            };
            let policy = shared[index].unwrap_or(members.len());
            if policy == members.len() {
                members.push((domain, Vec::new()));
            }
            if domain.is_shared() {
                shared[index] = Some(policy);
            }
            members[policy].1.push(vcpu as u32);
            policy_of.push(policy);
        }
        let policies: Vec<Arc<Policy>> = members
            .into_iter()
            .zip(0..)
            .map(|((domain, vcpus), number)| {
                let (domain, requested_khz) = (domain.clone(), AtomicU32::new(0));
                Arc::new(Policy { number, domain, vcpus, requested_khz })
            })
            .collect();
        let page = |policy: usize| {
            let policy = Arc::clone(&policies[policy]);
            let current_khz = AtomicU32::new(policy.domain.max_khz());
            Page { policy, current_khz, selected: AtomicU32::new(0) }
        };
        let pages = policy_of.into_iter().map(page).collect();
        Ok(VirtCpufreq { pages, policies, backend, counters: Counters::default() })
    }

    /// Number of vCPUs of the device.
    pub fn vcpus(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Size of the device's window.
    pub fn window_bytes(&self) -> u64 {
        u64::from(self.vcpus()) * PAGE_BYTES
    }

    /// Handles a guest's read of `data.len()` bytes at `offset` in the window. An access that does
    /// not read a register is counted and returns zeroes.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        match <&mut [u8; REGISTER_BYTES]>::try_from(&mut *data) {
            Ok(word) => {
                let value = self.load(offset).unwrap_or_else(|why| {
                    self.counters.refuse(why);
                    0
                });
                *word = value.to_le_bytes();
            }
            Err(_) => {
                data.fill(0);
                self.counters.refuse(Refusal::Width);
            }
        }
    }

    /// Handles a guest's write of `data` at `offset` in the window. An access that does not write a
    /// register is counted and has no effect.
    pub fn write(&self, offset: u64, data: &[u8]) {
        let word = <[u8; REGISTER_BYTES]>::try_from(data).map_err(|_| Refusal::Width);
        if let Err(why) = word.and_then(|word| self.store(offset, u32::from_le_bytes(word))) {
            self.counters.refuse(why);
        }
    }

    /// The page that contains `offset`, and the offset within this page.
    fn page(&self, offset: u64) -> Result<(&Page, u64), Refusal> {
        let index = usize::try_from(offset / PAGE_BYTES).map_err(|_| Refusal::Outside)?;
        let page = self.pages.get(index).ok_or(Refusal::Outside)?;
        Ok((page, offset % PAGE_BYTES))
    }

    fn load(&self, offset: u64) -> Result<u32, Refusal> {
        let (page, register) = self.page(offset)?;
        let table = page.policy.domain.khz();
        match register {
            CUR_PERF => Ok(page.current_khz.load(Relaxed)),
            PERFTBL_LEN => Ok(table.len() as u32),
            PERFTBL_RD => Ok(match table.get(page.selected.load(Relaxed) as usize) {
                Some(&khz) => khz,
                None => {
                    self.counters.no_entry.fetch_add(1, Relaxed);
                    0
                }
            }),
            PERF_DOMAIN => Ok(page.policy.number),
            SET_PERF | PERFTBL_SEL => Err(Refusal::Direction),
            _ => Err(Refusal::Offset),
        }
    }

    fn store(&self, offset: u64, value: u32) -> Result<(), Refusal> {
        let (page, register) = self.page(offset)?;
        match register {
            SET_PERF => self.request(&page.policy, value),
            PERFTBL_SEL => page.selected.store(value, Relaxed),
            CUR_PERF | PERFTBL_LEN | PERFTBL_RD | PERF_DOMAIN => return Err(Refusal::Direction),
            _ => return Err(Refusal::Offset),
        }
        Ok(())
    }

    fn request(&self, policy: &Policy, khz: u32) {
        let request = policy.domain.request(khz);
        if request.khz != khz {
            self.counters.clamped.fetch_add(1, Relaxed);
        }
        // Linux serialises the writes of a policy's vCPUs. If a different guest OS writes several
        // values at the same time, the back end keeps one of them. This is harmless, because the
        // guest may request any of them.
        if policy.requested_khz.swap(request.khz, Relaxed) == request.khz {
            return;
        }
        self.counters.requests.fetch_add(1, Relaxed);
        self.tell(policy, request);
    }

    fn tell(&self, policy: &Policy, request: Request) {
        for &vcpu in &policy.vcpus {
            self.backend.request(vcpu, request);
        }
    }

    /// Sets the current performance that the guest reads for `vcpu`. The value is clamped to the
    /// range from 1 to the highest entry of the vCPU's table. (At 0, the guest's load tracking
    /// would stop.) Returns false if there is no such vCPU.
    pub fn set_current(&self, vcpu: u32, khz: u32) -> bool {
        let Some(page) = self.pages.get(vcpu as usize) else { return false };
        page.current_khz.store(khz.clamp(1, page.policy.domain.max_khz()), Relaxed);
        true
    }

    /// The current performance that the guest reads; `None` if there is no such vCPU.
    pub fn current(&self, vcpu: u32) -> Option<u32> {
        self.pages.get(vcpu as usize).map(|page| page.current_khz.load(Relaxed))
    }

    /// The frequency in kHz that the policy of `vcpu` requests; 0 if it has not requested one yet.
    /// `None` if there is no such vCPU.
    pub fn requested(&self, vcpu: u32) -> Option<u32> {
        self.pages.get(vcpu as usize).map(|page| page.policy.requested_khz.load(Relaxed))
    }

    /// The table of `vcpu`; `None` if there is no such vCPU.
    pub fn domain(&self, vcpu: u32) -> Option<&PerfDomain> {
        self.pages.get(vcpu as usize).map(|page| &page.policy.domain)
    }

    /// Counts of the guest's accesses so far.
    pub fn counts(&self) -> Counts {
        self.counters.get()
    }

    /// The back end.
    pub fn backend(&self) -> &B {
        &self.backend
    }
}
