// SPDX-License-Identifier: GPL-2.0-only
//! `paracord-sim`: runs mixes, compares both schedulers, and draws random mixes
//! (docs/simulator.md).
#![forbid(unsafe_code)]

mod cli;
mod contract;
mod report;
mod trace;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
