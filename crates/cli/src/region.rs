// SPDX-License-Identifier: GPL-2.0-only
//! `paracord region`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use paracord_host::config::RegionKeys;
use paracord_host::ivshmem;
use paracord_host::regions::declared::{self, DeclaredError};
use paracord_host::regions::region_file::{self, ListedDomain, RegionFileError};

use crate::args::vcpu_count;
use crate::config::load_config;
use crate::exit::Failure;
use crate::output::{columns, print, print_json};

/// How long to wait for the daemon's socket. On an emulated host, the daemon takes half a second to
/// create the socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(2);

/// `paracord region`.
#[derive(Debug, Args)]
pub struct RegionArgs {
    /// Configuration file, which names the region directory [default: /etc/paracord/paracord.toml
    /// if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub command: RegionCommand,
}

/// The commands about regions.
#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Create a region and print its path
    Create {
        /// Name of the region, usually the name of the VM
        name: String,
        /// Number of vCPUs of the VM, including hot-pluggable vCPUs
        #[arg(long, default_value_t = 1, value_parser = vcpu_count())]
        vcpus: u32,
        /// User that the VM runs as: name, UID or UID:GID [default: the caller]
        #[arg(long, value_name = "USER")]
        owner: Option<String>,
        /// Do not let the guest kick the host when the guest no longer needs a boost
        #[arg(long)]
        no_kick: bool,
        /// Do not read the guest's preempt_count, which shows when preemption is off in the guest
        #[arg(long)]
        no_preempt_count: bool,
        /// Do not inform the guest about the host's CPUs and their frequencies, and do not let the
        /// guest request performance
        #[arg(long)]
        no_frequencies: bool,
        /// Let the guest count perf events of this host on the guest's vCPUs (in the guest: perf
        /// stat -e paracord/…/). The daemon serves the counters
        #[arg(long)]
        counters: bool,
        /// Let a guest that no longer needs a boost kick the host only if the boost is older than
        /// this time in microseconds; 0: the default of the guest's driver
        #[arg(long, value_name = "US", default_value_t = 0)]
        kick_us: u32,
    },
    /// Print the regions
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a region
    Remove {
        /// Name of the region
        name: String,
    },
}

impl From<DeclaredError> for Failure {
    fn from(e: DeclaredError) -> Failure {
        match e {
            DeclaredError::Pair(_) | DeclaredError::Unknown(_) => Failure::usage(format!("--{e}")),
            DeclaredError::Account(_) | DeclaredError::Counters { .. } => {
                Failure::new(format!("--{e}"))
            }
            DeclaredError::File(e) => e.into(),
        }
    }
}

impl From<RegionFileError> for Failure {
    fn from(e: RegionFileError) -> Failure {
        match &e {
            RegionFileError::Name(_) | RegionFileError::Header(_) => Failure::usage(e.to_string()),
            RegionFileError::Io { error, .. } if error.kind() == ErrorKind::PermissionDenied => {
                Failure::denied(format!("{e}: run as root"))
            }
            _ => Failure::new(e.to_string()),
        }
    }
}

/// `paracord region create|list|remove`.
pub fn region(args: &RegionArgs) -> Result<ExitCode, Failure> {
    let config = load_config(args.config.as_deref())?;
    let directory = &config.region_dir;
    match &args.command {
        RegionCommand::Create {
            name,
            vcpus,
            owner,
            no_kick,
            no_preempt_count,
            no_frequencies,
            counters,
            kick_us,
        } => {
            let keys = RegionKeys {
                vcpus: *vcpus,
                owner: owner.clone().unwrap_or_default(),
                kick: !no_kick,
                preempt_count: !no_preempt_count,
                frequencies: !no_frequencies,
                counters: *counters,
                kick_us: *kick_us,
            };
            let (offer, lacks) = declared::offer(&keys, config.counters.events)?;
            let path = region_file::create(directory, name, &offer)?;
            if let Some(line) = lacks {
                eprintln!("paracord: {line}");
            }
            if *counters && !is_served(&ivshmem::socket_path(&config.run_dir, name)) {
                eprintln!(
                    "paracord: no daemon runs: until one does, no `ivshmem-doorbell` can connect"
                );
            }
            print(&format!("{}\n", path.display()))
        }
        RegionCommand::Remove { name } => {
            region_file::remove(directory, Path::new("/proc"), name)?;
            Ok(ExitCode::SUCCESS)
        }
        RegionCommand::List { json } => {
            let regions = region_file::list(directory)?;
            if *json {
                return print_json(&regions);
            }
            if regions.is_empty() {
                return print(&format!("no region in {}\n", directory.display()));
            }
            let heading = ["NAME", "VCPUS", "BYTES", "UID", "DRIVER", "DOMAINS", "FEATURES"];
            let mut rows = vec![heading.map(str::to_owned).to_vec()];
            rows.extend(regions.into_iter().map(|r| {
                vec![
                    r.name,
                    r.slots.map_or("-".into(), |n| n.to_string()),
                    r.bytes.to_string(),
                    r.uid.to_string(),
                    if r.guest_driver { "yes" } else { "no" }.into(),
                    domains(&r.domains),
                    r.refused.map_or_else(|| r.features.join(" "), |why| format!("refused: {why}")),
                ]
            }));
            print(&columns(&rows))
        }
    }
}

/// Waits until the daemon has a socket for a new region, so that QEMU can be started immediately
/// afterwards. (The daemon notices new regions by itself.) Returns false if no daemon creates the
/// socket.
fn is_served(socket: &Path) -> bool {
    let end = Instant::now() + SOCKET_TIMEOUT;
    while socket.parent().is_some_and(Path::exists) && Instant::now() < end {
        if socket.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Capacity and highest frequency of each domain. The first domain covers all CPUs.
fn domains(domains: &[ListedDomain]) -> String {
    if domains.is_empty() {
        return "-".into();
    }
    let one = |d: &ListedDomain| format!("{}@{}MHz", d.capacity, d.max_khz / 1000);
    domains.iter().map(one).collect::<Vec<_>>().join(",")
}
