// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The frequency device: which tables the vCPUs see, where their requests go, and the thread that
//! updates the frequencies that the vCPUs read.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use paracord_abi::RegionLayout;
use paracord_devices::virt_cpufreq::{
    self, Backend, CpuConfig, Frequencies, Headroom, PerfDomain, RegionBackend, RegionMemory,
    Request, UclampBackend, VirtCpufreq, governor_listens,
};
use vm_memory::{Bytes, MmapRegion, VolatileMemory};

use crate::args::CpufreqWord;
use crate::bus::Device;
use crate::config::Config;
use crate::error::Error;
use crate::topology::VcpuPlan;

/// How old the frequency that a guest reads may be: two ticks of the host, as in the host lines of
/// paracord's daemon.
const UPDATE_EVERY: Duration = Duration::from_millis(8);
/// Capacity if the host does not report one.
const CAPACITY_DEFAULT: u32 = 1024;

/// Where the guest's requests go.
pub enum Target {
    /// Utilisation clamps of the vCPUs' threads.
    Uclamp(UclampBackend),
    /// The region.
    Region(RegionBackend<SharedMemory>),
}

impl Backend for Target {
    fn request(&self, vcpu: u32, request: Request) {
        match self {
            Target::Uclamp(backend) => backend.request(vcpu, request),
            Target::Region(backend) => backend.request(vcpu, request),
        }
    }
}

/// The region, as this process has mapped it.
pub struct SharedMemory(Arc<MmapRegion<()>>);

impl RegionMemory for SharedMemory {
    fn store_u32(&self, offset_bytes: u64, value: u32) {
        let Ok(offset) = usize::try_from(offset_bytes) else { return };
        // A store outside of the mapping is refused. The back end makes no such store, because it
        // uses a checked layout.
        let _ = self.0.as_volatile_slice().store(value.to_le(), offset, Ordering::Relaxed);
    }
}

/// The frequency device.
pub struct Cpufreq(VirtCpufreq<Target>);

impl Cpufreq {
    /// Builds the device for the vCPUs of the configuration, which must all have frequencies.
    ///
    /// # Errors
    /// [`Error::Tables`].
    pub fn build(
        word: CpufreqWord,
        config: &Config,
        region: Option<(RegionLayout, Arc<MmapRegion<()>>)>,
    ) -> Result<Cpufreq, Error> {
        let root = Path::new("/");
        let vcpus = config.vcpus.len() as u32;
        let tables = tables(&config.vcpus)?;
        let target = match (word, region) {
            (CpufreqWord::Region, Some((layout, mapping))) => {
                let backend = RegionBackend::new(layout, vcpus, SharedMemory(mapping));
                Target::Region(backend.map_err(|e| Error::Tables(e.to_string()))?)
            }
            _ => {
                if !governor_listens(root) {
                    eprintln!(
                        "paracord-vmm: no CPU of this host has the governor schedutil: the guest's requests \
                         change no frequency"
                    );
                }
                Target::Uclamp(UclampBackend::new(vcpus, Headroom::of_host(root)))
            }
        };
        let device = VirtCpufreq::new(tables, target).map_err(|e| Error::Tables(e.to_string()))?;
        Ok(Cpufreq(device))
    }

    /// Size of the device's window.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "no driver, so no window"))]
    pub fn window_bytes(&self) -> u64 {
        self.0.window_bytes()
    }

    fn uclamp(&self) -> Option<&UclampBackend> {
        match self.0.backend() {
            Target::Uclamp(backend) => Some(backend),
            Target::Region(_) => None,
        }
    }
}

impl Device for Cpufreq {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.0.read(offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        self.0.write(offset, data);
    }
}

/// vCPUs on host CPUs of the same cpufreq policy share a table and a request. Each other vCPU has
/// its own table.
fn tables(plans: &[VcpuPlan]) -> Result<virt_cpufreq::Config, Error> {
    let mut policies: Vec<Option<u32>> = Vec::new();
    let mut tables = virt_cpufreq::Config { domains: Vec::new(), cpus: Vec::new() };
    for plan in plans {
        let known = plan.policy.and_then(|_| policies.iter().position(|p| *p == plan.policy));
        let domain = known.unwrap_or(policies.len());
        if known.is_none() {
            let capacity = plan.capacity.or(plan.speed).unwrap_or(CAPACITY_DEFAULT);
            let capacity = u16::try_from(capacity).unwrap_or(u16::MAX);
            let shared = plan.policy.is_some();
            let table = PerfDomain::from_frequencies(&plan.frequencies_khz, capacity, shared);
            tables.domains.push(table.map_err(|e| Error::Tables(e.to_string()))?);
            policies.push(plan.policy);
        }
        tables.cpus.push(CpuConfig { domain });
    }
    Ok(tables)
}

/// The thread that tells the device how fast the vCPUs run. Dropping this ends the thread, and
/// restores the earlier clamps of the vCPUs' threads.
pub struct Housekeeping {
    cpufreq: Arc<Cpufreq>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    vcpus: u32,
}

impl Housekeeping {
    /// Starts the thread. `tids` are the threads that run the vCPUs.
    ///
    /// # Errors
    /// A vCPU thread cannot be read, or the new thread cannot be started.
    pub fn start(cpufreq: Arc<Cpufreq>, tids: &[u32]) -> io::Result<Housekeeping> {
        let mut frequencies = Frequencies::new(Path::new("/"));
        for (vcpu, tid) in (0..).zip(tids) {
            frequencies.register(vcpu, std::process::id(), *tid)?;
            if let Some(backend) = cpufreq.uclamp() {
                backend.register(vcpu, *tid)?;
            }
        }
        let over = Arc::new(AtomicBool::new(false));
        let (device, ends) = (cpufreq.clone(), over.clone());
        let body = move || keep(&device, &mut frequencies, &ends);
        let thread = std::thread::Builder::new().name("cpufreq".to_owned()).spawn(body)?;
        Ok(Housekeeping { cpufreq, over, thread: Some(thread), vcpus: tids.len() as u32 })
    }
}

fn keep(cpufreq: &Cpufreq, frequencies: &mut Frequencies, over: &AtomicBool) {
    let mut told = false;
    while !over.load(Ordering::Relaxed) {
        frequencies.update(&cpufreq.0);
        if let Some(backend) = cpufreq.uclamp() {
            backend.flush();
            if let Some(refusal) = backend.refusal().filter(|_| !told) {
                eprintln!("paracord-vmm: {refusal}: the guest's requests have no effect");
                told = true;
            }
        }
        std::thread::park_timeout(UPDATE_EVERY);
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has already reported its errors.
            let _ = thread.join();
        }
        // This must happen before the vCPU threads end, because their IDs may be reused afterwards.
        if let Some(backend) = self.cpufreq.uclamp() {
            (0..self.vcpus).for_each(|vcpu| backend.unregister(vcpu));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(policy: Option<u32>, khz: &[u32], speed: u32) -> VcpuPlan {
        VcpuPlan {
            policy,
            frequencies_khz: khz.to_vec(),
            speed: Some(speed),
            ..VcpuPlan::default()
        }
    }

    #[test]
    fn vcpus_of_one_policy_share_a_table() {
        let (little, big) = ([450_000, 950_000], [600_000, 1_200_000]);
        let plans =
            [plan(Some(0), &little, 383), plan(Some(1), &big, 1024), plan(Some(0), &little, 383)];
        let made = tables(&plans).unwrap();
        let domains: Vec<usize> = made.cpus.iter().map(|cpu| cpu.domain).collect();
        assert_eq!(domains, [0, 1, 0]);
        assert_eq!((made.domains.len(), made.domains[0].capacity()), (2, 383));
        assert!(made.domains.iter().all(PerfDomain::is_shared));
    }

    #[test]
    fn vcpus_without_a_policy_ask_alone() {
        let made = tables(&[plan(None, &[5], 1024), plan(None, &[5], 1024)]).unwrap();
        assert_eq!((made.domains.len(), made.domains[1].is_shared()), (2, false));
        assert!(tables(&[plan(None, &[], 1024)]).is_err());
    }

    #[test]
    fn a_capacity_on_the_command_line_is_the_tables() {
        let given = VcpuPlan { capacity: Some(100), ..plan(None, &[5], 1024) };
        assert_eq!(tables(&[given]).unwrap().domains[0].capacity(), 100);
    }
}
