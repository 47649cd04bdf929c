// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A small virtual machine monitor for paracord's guests. It prints each error as one line.
//!
//! [`machine`] builds a VM from a [`config`], and [`run`] runs it. The program is also an example
//! of how a VMM uses `paracord-abi` ([`region`]) and `paracord-devices` ([`pci`], [`cpufreq`],
//! [`pmu`]).

mod arch;
mod args;
mod bus;
mod config;
mod cpufreq;
mod endpoint;
mod error;
mod exit;
mod initramfs;
mod interrupts;
mod link;
mod machine;
mod memory;
mod outbox;
mod pci;
mod pmu;
mod region;
mod run;
mod serial;
mod signal_mask;
mod stop;
mod topology;
mod vcpu;
mod wake;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::Args;
use config::Config;
use error::Error;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let config = Config::new(args, || Ok::<_, Error>(topology::host_cpus(Path::new("/sys"))?));
    match config.and_then(|config| run::run(&config)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error @ Error::Config(_)) => exit::report(exit::USAGE, &error.to_string()),
        Err(error) => exit::report(exit::FAILED, &error.to_string()),
    }
}
