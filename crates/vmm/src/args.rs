// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The command line as the user writes it. [`crate::config`] checks it.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use paracord_devices::pmu::EventSet;

const AFTER_HELP: &str = "\
Lists of CPUs are written as in /sys: 0-3,5. What is per vCPU is written VCPU=VALUE.

The VM ends when its guest powers off or restarts, and on SIGTERM or SIGINT (Ctrl-C). Nothing of it is left then.

Exit codes: 0 the guest powered off or restarted, or the VM was told to end, 1 failed, 2 wrong arguments.

Example: a guest with four vCPUs, two of them on the big cluster of its host, and paracord's shared region:

  paracord region create web --vcpus 4
  paracord-vmm --name web --kernel Image --initramfs initramfs.cpio --cmdline 'console=ttyS0' --vcpus 4 \\
      --cpu-affinity 0=0-3:1=0-3:2=4,5:3=4,5 --cpu-capacity 0=383,1=383,2=1024,3=1024 \\
      --region /dev/shm/paracord/web";

/// Runs one virtual machine with a Linux kernel, an initramfs, serial ports, and memory that
/// paracord shares with guests.
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

    /// Name of the VM, by which paracord's daemon knows it
    #[arg(long, value_name = "NAME", default_value = "vm")]
    pub name: String,

    /// First serial port (ttyS0): a file, which is overwritten, or - for standard input and output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub console: PathBuf,

    /// Second serial port (ttyS1): a unix socket for one client at a time. What a client sends
    /// reaches the guest only after the guest has sent something itself
    #[arg(long, value_name = "SOCKET")]
    pub channel: Option<PathBuf>,

    /// Memory shared with paracord, from `paracord region create`; an ivshmem device in the guest
    #[arg(long, value_name = "FILE")]
    pub region: Option<PathBuf>,

    /// Give the guest the device of Linux' virtual-cpufreq driver (arm64). The guest's requests
    /// become utilisation clamps of the vCPUs' threads (uclamp) or requests in the region (region)
    #[arg(long, value_name = "BACK END", num_args = 0..=1, require_equals = true,
        default_missing_value = "uclamp")]
    pub virt_cpufreq: Option<CpufreqWord>,

    /// Give the guest counters for perf, through the region and paracord's module. They are perf
    /// events of this host on the vCPUs' threads. An event is reused by any counter that counts the
    /// same (keyed), by the counter that used it last (last), or never (recreate)
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true,
        default_missing_value = "keyed")]
    pub pmu: Option<PmuWord>,

    /// Events that the guest may count: all that this host has, or a list of perf's names
    #[arg(long, value_name = "EVENTS", default_value_t)]
    pub pmu_events: EventSet,

    /// Time per second that the host may spend in system calls for the guest's counters. Beyond it,
    /// the counters stop
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub pmu_budget_ms: u32,

    /// Perf events per second that may be opened for the guest's counters
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pmu_openings: u32,

    /// Give the guest the same CPU topology as the host: one vCPU per CPU, bound to it, with its
    /// capacity, its cluster and its frequency domain
    #[arg(long, conflicts_with_all = ["vcpus", "cpu_affinity", "cpu_capacity", "cpu_cluster"])]
    pub host_cpu_topology: bool,

    /// Host CPUs that a vCPU may run on: VCPU=CPUS[:VCPU=CPUS]…
    #[arg(long, value_name = "LIST")]
    pub cpu_affinity: Option<String>,

    /// Capacity of a vCPU, as the guest's kernel sees it (arm64), 1..=1024. Give it for all vCPUs
    /// or for none: VCPU=CAPACITY[,VCPU=CAPACITY]…
    #[arg(long, value_name = "LIST")]
    pub cpu_capacity: Option<String>,

    /// vCPUs that form one cluster, as the guest's kernel sees it (arm64). Repeat the option for
    /// each cluster
    #[arg(long, value_name = "VCPUS")]
    pub cpu_cluster: Vec<String>,

    /// When the VM ends, print why, and count the guest's accesses that no device answered
    #[arg(long)]
    pub verbose: bool,
}

/// Back end of the cpufreq device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CpufreqWord {
    /// sched_setattr(2) on the vCPU's thread
    Uclamp,
    /// paracord's region
    Region,
}

/// Which perf events are reused for a guest's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PmuWord {
    /// Any counter that counts the same reuses an event
    Keyed,
    /// A counter reuses its own last event, if it counts the same again
    Last,
    /// No event is reused
    Recreate,
}
