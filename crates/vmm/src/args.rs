// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The command line as the user writes it. [`crate::config`] checks it.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use paracord_devices::pmu::EventSet;

const AFTER_HELP: &str = "\
Lists of CPUs have the format of /sys, such as 0-3,5. Values for single vCPUs have the format VCPU=VALUE.

The VM ends when its guest powers off or restarts, and on SIGTERM or SIGINT (Ctrl-C). Nothing is then left to clean up.

Exit codes: 0 the guest powered off or restarted, or the VM was told to end; 1 failed; 2 wrong arguments.

Example: a guest with a region of paracord and four vCPUs, two of which run on the host's big cluster:

  paracord region create web --vcpus 4
  paracord-vmm --name web --kernel Image --initramfs initramfs.cpio --cmdline 'console=ttyS0' --vcpus 4 \\
      --cpu-affinity 0=0-3:1=0-3:2=4,5:3=4,5 --cpu-capacity 0=383,1=383,2=1024,3=1024 \\
      --region /dev/shm/paracord/web";

/// Runs one virtual machine with a Linux kernel, an initramfs, serial ports, and a memory region
/// that the guest shares with paracord.
#[derive(Debug, Default, Parser)]
#[command(name = "paracord-vmm", version, after_help = AFTER_HELP)]
pub struct Args {
    /// Kernel: ELF file or bzImage (x86-64), Image (arm64)
    #[arg(long, value_name = "FILE")]
    pub kernel: PathBuf,

    /// Initial RAM file system
    #[arg(long, value_name = "FILE")]
    pub initramfs: Option<PathBuf>,

    /// The kernel's command line; the serial console is ttyS0
    #[arg(long, value_name = "WORDS", default_value = "console=ttyS0", allow_hyphen_values = true)]
    pub cmdline: String,

    /// Number of vCPUs [default: 1, or one per CPU of the host with --host-cpu-topology]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,

    /// Memory of the guest
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub memory_mib: u64,

    /// Name by which paracord's daemon identifies the VM
    #[arg(long, value_name = "NAME", default_value = "vm")]
    pub name: String,

    /// First serial port (ttyS0): a file, which is overwritten, or - for standard input and output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub console: PathBuf,

    /// Second serial port (ttyS1): a unix socket that accepts one client at a time. The guest gets
    /// the input of a client only after the guest itself has sent something
    #[arg(long, value_name = "SOCKET")]
    pub channel: Option<PathBuf>,

    /// File of the region that the guest shares with paracord (see `paracord region create`). The
    /// guest sees the region as an ivshmem device
    #[arg(long, value_name = "FILE")]
    pub region: Option<PathBuf>,

    /// Give the guest the device for Linux' virtual-cpufreq driver (arm64). With uclamp, the
    /// guest's requests become utilisation clamps of the vCPUs' threads. With region, the requests
    /// go through the region to paracord's daemon
    #[arg(long, value_name = "BACK END", num_args = 0..=1, require_equals = true,
        default_missing_value = "uclamp")]
    pub virt_cpufreq: Option<CpufreqWord>,

    /// Give the guest counters for perf, through the region and paracord's module. Each counter
    /// uses a perf event of this host that is attached to the vCPU's thread. A perf event is reused
    /// by any counter that counts the same event (keyed), only by the counter that used it last
    /// (last), or never (recreate)
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true,
        default_missing_value = "keyed")]
    pub pmu: Option<PmuWord>,

    /// Events that the guest may count: all (all events that this host has), or a list of perf's
    /// names, separated by commas
    #[arg(long, value_name = "EVENTS", default_value_t)]
    pub pmu_events: EventSet,

    /// Milliseconds per second that the host may spend in system calls for the guest's counters.
    /// Above this limit, the counters stop
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pmu_budget_ms: u32,

    /// Number of perf events that may be opened per second for the guest's counters
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pmu_openings: u32,

    /// Give the guest the same CPU topology as the host: one vCPU per host CPU, bound to that CPU,
    /// with that CPU's capacity, cluster and frequency domain
    #[arg(long, conflicts_with_all = ["vcpus", "cpu_affinity", "cpu_capacity", "cpu_cluster"])]
    pub host_cpu_topology: bool,

    /// Host CPUs that a vCPU may run on: VCPU=CPUS[:VCPU=CPUS]…
    #[arg(long, value_name = "LIST")]
    pub cpu_affinity: Option<String>,

    /// Capacity of each vCPU, as the guest's kernel sees it (arm64), from 1 to 1024. The list must
    /// name all vCPUs: VCPU=CAPACITY[,VCPU=CAPACITY]…
    #[arg(long, value_name = "LIST")]
    pub cpu_capacity: Option<String>,

    /// vCPUs that form one cluster, as the guest's kernel sees it (arm64). Repeat the option for
    /// each cluster
    #[arg(long, value_name = "VCPUS")]
    pub cpu_cluster: Vec<String>,

    /// When the VM ends, print why it ended, and how many of the guest's accesses no device
    /// answered
    #[arg(long)]
    pub verbose: bool,
}

/// Back end of the cpufreq device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CpufreqWord {
    /// Set utilisation clamps of the vCPU's thread, with sched_setattr(2)
    Uclamp,
    /// Write the requests into paracord's region
    Region,
}

/// Which perf events are reused for a guest's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PmuWord {
    /// Any counter that counts the same event reuses a perf event
    Keyed,
    /// A counter reuses only its own last perf event, and only if it counts the same event again
    Last,
    /// No perf event is reused
    Recreate,
}
