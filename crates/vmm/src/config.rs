// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A checked configuration. It is made from the command line and, if the options require it, from
//! the host's topology.

use std::path::PathBuf;
use std::time::Duration;

use paracord_devices::pmu::{EventSet, Quota};
use paracord_sys::affinity::{CpuListError, CpuMask};

use crate::args::{Args, CpufreqWord, PmuWord};
use crate::topology::{HostCpu, VcpuPlan};

/// Maximum number of vCPUs: the number that fits into the window of one interrupt controller on
/// arm64, rounded down.
pub const VCPUS_MAX: u32 = 64;
/// A kernel needs about this much memory to start, with its initramfs and its tables.
const MEMORY_MIN_MIB: u64 = 64;
/// Maximum memory of a guest. With this limit, all addresses fit into the 40 bits that every arm64
/// host can give a guest.
const MEMORY_MAX_MIB: u64 = 256 << 10;
/// Highest capacity of a CPU on the kernel's scale.
const CAPACITY_MAX: u32 = 1024;
/// Length of the longest name. Names of regions have the same limit.
const NAME_MAX_BYTES: usize = 64;
/// Length of the longest command line that Linux accepts on both architectures (COMMAND_LINE_SIZE),
/// without the NUL.
const CMDLINE_MAX_BYTES: usize = 2047;

/// Why a configuration is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name that the daemon would not accept, or that cannot be a file name.
    #[error(
        "--name {0:?}: use 1 to 64 letters, digits, \"_\", \"-\" and \".\", not beginning with \".\""
    )]
    Name(String),
    /// Too few or too many vCPUs.
    #[error("--vcpus {0}: a VM has 1 to {VCPUS_MAX}")]
    Vcpus(u32),
    /// Too little or too much memory.
    #[error("--memory-mib {0}: a VM has {MEMORY_MIN_MIB} to {MEMORY_MAX_MIB}")]
    Memory(u64),
    /// The kernel would cut the command line.
    #[error("--cmdline has {0} bytes, but the kernel accepts {CMDLINE_MAX_BYTES}: shorten it")]
    CmdlineLength(usize),
    /// Characters that no kernel expects.
    #[error("--cmdline has a character that is not printable ASCII: remove it")]
    CmdlineCharacter,
    /// A list of CPUs is wrong.
    #[error("{option}: {source}")]
    CpuList {
        /// The option.
        option: &'static str,
        /// What is wrong.
        source: CpuListError,
    },
    /// An entry is not a pair of vCPU and value.
    #[error("{option}: {entry:?} is not an entry: write VCPU=VALUE")]
    Entry {
        /// The option.
        option: &'static str,
        /// The text of the entry.
        entry: String,
    },
    /// There is no such vCPU.
    #[error("{option}: there is no vCPU {vcpu}: the VM has 0 to {}", vcpus - 1)]
    NoVcpu {
        /// The option.
        option: &'static str,
        /// The vCPU.
        vcpu: u32,
        /// Number of vCPUs.
        vcpus: u32,
    },
    /// A vCPU has two values.
    #[error("{option}: vCPU {vcpu} is there twice: give it one value")]
    Twice {
        /// The option.
        option: &'static str,
        /// The vCPU.
        vcpu: u32,
    },
    /// A capacity outside the scale.
    #[error("--cpu-capacity: {0} is not a capacity: use 1 to {CAPACITY_MAX}")]
    Capacity(String),
    /// Other vCPUs have a value, but this one has none.
    #[error("{option}: vCPU {vcpu} is missing: name all vCPUs or none")]
    Missing {
        /// The option.
        option: &'static str,
        /// The vCPU.
        vcpu: u32,
    },
    /// The host has more CPUs than a VM can have vCPUs.
    #[error(
        "--host-cpu-topology: this host has {0} CPUs, but a VM has at most {VCPUS_MAX}: use --vcpus"
    )]
    HostCpus(usize),
    /// The option has no effect without a region.
    #[error("{0} needs --region FILE")]
    NoRegion(&'static str),
    /// The host has no frequencies that the guest could request.
    #[error(
        "--virt-cpufreq: the host has no frequencies for vCPU {0}: it needs a cpufreq driver, \
         which most virtual machines lack"
    )]
    NoFrequencies(u32),
    /// There is no guest driver for this architecture.
    #[error(
        "--virt-cpufreq: Linux has no virtual-cpufreq driver for this architecture; \
         give the guest a --region and paracord's module, whose driver works here"
    )]
    NoDriver,
    /// The guest's kernel reads this from a device tree only.
    #[error(
        "{0}: the kernel takes it from a device tree, which guests of this architecture do not have"
    )]
    NoDeviceTree(&'static str),
}

/// Destination of the first serial port's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Console {
    /// Standard input and output.
    Standard,
    /// A file, which is overwritten.
    File(PathBuf),
}

/// The configuration of a VM that can be built.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the VM.
    pub name: String,
    /// Kernel image.
    pub kernel: PathBuf,
    /// Initial RAM file system.
    pub initramfs: Option<PathBuf>,
    /// Kernel command line.
    pub cmdline: String,
    /// Size of the memory in bytes.
    pub memory_bytes: u64,
    /// First serial port.
    pub console: Console,
    /// Socket of the second serial port.
    pub channel: Option<PathBuf>,
    /// Region file.
    pub region: Option<PathBuf>,
    /// Back end of the cpufreq device.
    pub virt_cpufreq: Option<CpufreqWord>,
    /// Which perf events are reused for the guest's counters, and what the counters may cost.
    pub pmu: Option<(PmuWord, Quota)>,
    /// The events that the guest may count.
    pub pmu_events: EventSet,
    /// The vCPUs.
    pub vcpus: Vec<VcpuPlan>,
    /// Whether to print statistics at the end.
    pub verbose: bool,
}

impl Config {
    /// Checks the command line. `host` is called to read the host's CPUs if the options require
    /// them.
    ///
    /// # Errors
    /// [`ConfigError`], or the error of `host`.
    pub fn new<E: From<ConfigError>>(
        args: Args,
        host: impl FnOnce() -> Result<Vec<HostCpu>, E>,
    ) -> Result<Config, E> {
        check_name(&args.name)?;
        check_cmdline(&args.cmdline)?;
        if !(MEMORY_MIN_MIB..=MEMORY_MAX_MIB).contains(&args.memory_mib) {
            return Err(ConfigError::Memory(args.memory_mib).into());
        }
        if args.virt_cpufreq.is_some() && cfg!(target_arch = "x86_64") {
            return Err(ConfigError::NoDriver.into());
        }
        if args.virt_cpufreq == Some(CpufreqWord::Region) && args.region.is_none() {
            return Err(ConfigError::NoRegion("--virt-cpufreq=region").into());
        }
        if args.pmu.is_some() && args.region.is_none() {
            return Err(ConfigError::NoRegion("--pmu").into());
        }
        let needs_host = args.host_cpu_topology || args.virt_cpufreq.is_some();
        let host = if needs_host { host()? } else { Vec::new() };
        let mut vcpus = if args.host_cpu_topology { like_host(&host)? } else { plans(&args)? };
        if args.virt_cpufreq.is_some() {
            let missing = vcpus.iter_mut().position(|plan| !plan.find_frequencies(&host));
            if let Some(vcpu) = missing {
                return Err(ConfigError::NoFrequencies(vcpu as u32).into());
            }
        }
        let quota = Quota {
            opens_per_sec: args.pmu_openings,
            calls_per_sec: Duration::from_millis(args.pmu_budget_ms.into()),
        };
        Ok(Config {
            name: args.name,
            kernel: args.kernel,
            initramfs: args.initramfs,
            cmdline: args.cmdline,
            memory_bytes: args.memory_mib << 20,
            console: if args.console.as_os_str() == "-" {
                Console::Standard
            } else {
                Console::File(args.console)
            },
            channel: args.channel,
            region: args.region,
            virt_cpufreq: args.virt_cpufreq,
            pmu: args.pmu.map(|word| (word, quota)),
            pmu_events: args.pmu_events,
            vcpus,
            verbose: args.verbose,
        })
    }
}

fn check_name(name: &str) -> Result<(), ConfigError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let good = !name.is_empty()
        && name.len() <= NAME_MAX_BYTES
        && !name.starts_with('.')
        && name.chars().all(allowed);
    if good { Ok(()) } else { Err(ConfigError::Name(name.to_owned())) }
}

fn check_cmdline(cmdline: &str) -> Result<(), ConfigError> {
    if cmdline.len() > CMDLINE_MAX_BYTES {
        return Err(ConfigError::CmdlineLength(cmdline.len()));
    }
    let printable = cmdline.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if printable { Ok(()) } else { Err(ConfigError::CmdlineCharacter) }
}

fn like_host(host: &[HostCpu]) -> Result<Vec<VcpuPlan>, ConfigError> {
    if host.len() > VCPUS_MAX as usize {
        return Err(ConfigError::HostCpus(host.len()));
    }
    Ok(host.iter().map(VcpuPlan::like).collect())
}

fn plans(args: &Args) -> Result<Vec<VcpuPlan>, ConfigError> {
    let vcpus = args.vcpus.unwrap_or(1);
    if vcpus == 0 || vcpus > VCPUS_MAX {
        return Err(ConfigError::Vcpus(vcpus));
    }
    for (option, used) in [
        ("--cpu-capacity", args.cpu_capacity.is_some()),
        ("--cpu-cluster", !args.cpu_cluster.is_empty()),
    ] {
        if used && cfg!(target_arch = "x86_64") {
            return Err(ConfigError::NoDeviceTree(option));
        }
    }
    let mut plans = vec![VcpuPlan::default(); vcpus as usize];
    if let Some(list) = &args.cpu_affinity {
        set_affinity(list, &mut plans)?;
    }
    if let Some(list) = &args.cpu_capacity {
        set_capacity(list, &mut plans)?;
    }
    set_clusters(&args.cpu_cluster, &mut plans)?;
    Ok(plans)
}

/// The vCPU and the value of an entry.
fn entry<'a>(
    option: &'static str,
    entry: &'a str,
    plans: &'a mut [VcpuPlan],
) -> Result<(u32, &'a mut VcpuPlan, &'a str), ConfigError> {
    let wrong = || ConfigError::Entry { option, entry: entry.to_owned() };
    let (vcpu, value) = entry.split_once('=').ok_or_else(wrong)?;
    let vcpu: u32 = vcpu.trim().parse().map_err(|_| wrong())?;
    let vcpus = plans.len() as u32;
    let plan = plans.get_mut(vcpu as usize);
    plan.map(|plan| (vcpu, plan, value.trim())).ok_or(ConfigError::NoVcpu { option, vcpu, vcpus })
}

fn cpu_list(option: &'static str, list: &str) -> Result<CpuMask, ConfigError> {
    CpuMask::from_nonempty_list(list).map_err(|source| ConfigError::CpuList { option, source })
}

fn set_affinity(list: &str, plans: &mut [VcpuPlan]) -> Result<(), ConfigError> {
    const OPTION: &str = "--cpu-affinity";
    for part in list.split(':') {
        let (vcpu, plan, value) = entry(OPTION, part, plans)?;
        if !plan.affinity.is_empty() {
            return Err(ConfigError::Twice { option: OPTION, vcpu });
        }
        plan.affinity = cpu_list(OPTION, value)?.iter().collect();
    }
    Ok(())
}

fn set_capacity(list: &str, plans: &mut [VcpuPlan]) -> Result<(), ConfigError> {
    const OPTION: &str = "--cpu-capacity";
    for part in list.split(',') {
        let (vcpu, plan, value) = entry(OPTION, part, plans)?;
        let capacity = value.parse().ok().filter(|c| (1..=CAPACITY_MAX).contains(c));
        let capacity = capacity.ok_or_else(|| ConfigError::Capacity(value.to_owned()))?;
        if plan.capacity.replace(capacity).is_some() {
            return Err(ConfigError::Twice { option: OPTION, vcpu });
        }
    }
    // If one CPU has no capacity, the kernel ignores all capacities.
    all_or_none(OPTION, plans, |plan| plan.capacity.is_some())
}

fn set_clusters(lists: &[String], plans: &mut [VcpuPlan]) -> Result<(), ConfigError> {
    const OPTION: &str = "--cpu-cluster";
    let vcpus = plans.len() as u32;
    for (cluster, list) in (0..).zip(lists) {
        for vcpu in cpu_list(OPTION, list)?.iter() {
            let plan = plans.get_mut(vcpu as usize);
            let plan = plan.ok_or(ConfigError::NoVcpu { option: OPTION, vcpu, vcpus })?;
            if plan.cluster.replace(cluster).is_some() {
                return Err(ConfigError::Twice { option: OPTION, vcpu });
            }
        }
    }
    // If a cpu-map does not contain all CPUs, the kernel ignores the whole map.
    all_or_none(OPTION, plans, |plan| plan.cluster.is_some())
}

fn all_or_none(
    option: &'static str,
    plans: &[VcpuPlan],
    has: impl Fn(&VcpuPlan) -> bool,
) -> Result<(), ConfigError> {
    let missing = plans.iter().position(|plan| !has(plan));
    match missing {
        Some(vcpu) if plans.iter().any(has) => {
            Err(ConfigError::Missing { option, vcpu: vcpu as u32 })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
