// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The device of Linux' `virtual-cpufreq` guest driver (6.13 and newer; arm, arm64, riscv).
//!
//! The guest's governor writes the performance that its tasks need, a [`Backend`] carries that to the
//! host, and the guest reads at each of its ticks how fast its vCPU runs, so that its load tracking is
//! right. [`registers`] has the register table, [`fdt`] the device tree node.
//!
//! | part | job |
//! |---|---|
//! | [`VirtCpufreq`] | the registers; a guest access is a load or a store of an atomic |
//! | [`PerfDomain`] | the table that vCPUs are shown, checked once |
//! | [`UclampBackend`] | requests become `uclamp.min` of the vCPUs' threads |
//! | [`Headroom`] | what the host's governor makes of them |
//! | [`RegionBackend`] | requests go into the region of paracord's host daemon |
//! | [`Frequencies`] | what the guest reads: the host's frequencies, at a bounded rate |
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
//! // From the VMM's housekeeping: it runs at 600 MHz.
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
    /// No vCPU, or more than a vCPU's number can tell.
    #[error("a virtual cpufreq device for {found} vCPUs")]
    Cpus {
        /// vCPUs there are.
        found: usize,
    },
    /// A vCPU's domain is not in the list.
    #[error("vCPU {vcpu} is in performance domain {domain} of {domains}")]
    NoDomain {
        /// Which vCPU.
        vcpu: usize,
        /// Its domain.
        domain: usize,
        /// Domains there are.
        domains: usize,
    },
}

/// One vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuConfig {
    /// Index of its performance domain in [`Config::domains`].
    pub domain: usize,
}

/// What a device is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The tables.
    pub domains: Vec<PerfDomain>,
    /// The vCPUs, in the order of the guest's logical CPUs: all possible ones, not only those that are
    /// there at boot, because the driver reads all of their pages.
    pub cpus: Vec<CpuConfig>,
}

/// vCPUs that ask for one frequency. On cache lines of its own: the vCPUs of other policies do not
/// slow it down.
#[derive(Debug)]
#[repr(align(64))]
struct Policy {
    /// The value of perf_domain.
    number: u32,
    domain: PerfDomain,
    vcpus: Vec<u32>,
    /// Written by the policy's vCPUs. 0: nothing since the start.
    requested_khz: AtomicU32,
}

/// The registers of one vCPU.
#[derive(Debug)]
#[repr(align(64))]
struct Page {
    policy: Arc<Policy>,
    /// Written by `set_current`.
    current_khz: AtomicU32,
    /// Written by the guest, any value.
    selected: AtomicU32,
}

/// The device. All methods take `&self` and may be called from any thread at any time.
#[derive(Debug)]
pub struct VirtCpufreq<B: Backend> {
    pages: Vec<Page>,
    policies: Vec<Arc<Policy>>,
    backend: B,
    counters: Counters,
}

impl<B: Backend> VirtCpufreq<B> {
    /// A device as it is at the guest's start: every vCPU runs at its highest frequency, nothing is
    /// requested.
    ///
    /// # Errors
    /// Any [`ConfigError`].
    pub fn new(config: Config, backend: B) -> Result<VirtCpufreq<B>, ConfigError> {
        let Config { domains, cpus } = config;
        if cpus.is_empty() || u32::try_from(cpus.len()).is_err() {
            return Err(ConfigError::Cpus { found: cpus.len() });
        }
        // Per policy its domain and vCPUs; per vCPU its policy.
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

    /// vCPUs of the device.
    pub fn vcpus(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Bytes of the device's window.
    pub fn window_bytes(&self) -> u64 {
        u64::from(self.vcpus()) * PAGE_BYTES
    }

    /// A guest reads `data.len()` bytes at `offset` in the window. What is not the read of a register is
    /// counted and gives zeroes.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let word = <&mut [u8; REGISTER_BYTES]>::try_from(data).map_err(|_| Refusal::Width);
        match word.and_then(|word| Ok((word, self.load(offset)?))) {
            Ok((word, value)) => *word = value.to_le_bytes(),
            Err(why) => self.counters.refuse(why),
        }
    }

    /// A guest writes `data` at `offset` in the window. What is not the write of a register is counted
    /// and has no effect.
    pub fn write(&self, offset: u64, data: &[u8]) {
        let word = <[u8; REGISTER_BYTES]>::try_from(data).map_err(|_| Refusal::Width);
        if let Err(why) = word.and_then(|word| self.store(offset, u32::from_le_bytes(word))) {
            self.counters.refuse(why);
        }
    }

    /// The page and the offset in it.
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
        // Linux serialises what the vCPUs of a policy write. Where a guest does not, the back end ends up
        // with one of the values that were written together: any of them is one it may ask for.
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

    /// What the guest reads as the performance of the moment of `vcpu`, clamped to 1 and the highest of
    /// its table: at 0 a guest's load tracking would stand still. False without such a vCPU.
    pub fn set_current(&self, vcpu: u32, khz: u32) -> bool {
        let Some(page) = self.pages.get(vcpu as usize) else { return false };
        page.current_khz.store(khz.clamp(1, page.policy.domain.max_khz()), Relaxed);
        true
    }

    /// What the guest reads as the performance of the moment; `None` without such a vCPU.
    pub fn current(&self, vcpu: u32) -> Option<u32> {
        self.pages.get(vcpu as usize).map(|page| page.current_khz.load(Relaxed))
    }

    /// What the policy of `vcpu` asks for, in kHz; 0 when it asked for nothing yet, `None` without such
    /// a vCPU.
    pub fn requested(&self, vcpu: u32) -> Option<u32> {
        self.pages.get(vcpu as usize).map(|page| page.policy.requested_khz.load(Relaxed))
    }

    /// The table of `vcpu`; `None` without such a vCPU.
    pub fn domain(&self, vcpu: u32) -> Option<&PerfDomain> {
        self.pages.get(vcpu as usize).map(|page| &page.policy.domain)
    }

    /// What the guest did so far.
    pub fn counts(&self) -> Counts {
        self.counters.get()
    }

    /// The back end.
    pub fn backend(&self) -> &B {
        &self.backend
    }
}
