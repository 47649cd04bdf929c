// SPDX-License-Identifier: GPL-2.0-only
//! The `paracord` command.
#![forbid(unsafe_code)]

mod args;
mod attach;
mod clamp;
mod control;
mod doctor;
mod exit;
mod journal;
mod log;
mod manual;
mod notify;
mod output;
mod place;
mod region;
mod run;
mod status;
mod top;
mod units;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use exit::Failure;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return exit::usage(&e),
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.command {
        Command::Run(a) => run::run(&a),
        Command::Restore { config } => run::restore(config.as_deref()),
        Command::Status(a) => status::status(&a),
        Command::Top(a) => top::top(&a),
        Command::Vm(a) => status::vm(&a),
        Command::Clamp(a) => clamp::clamp(&a.command),
        Command::Reload(a) => control::reload(&a),
        Command::Mode(a) => control::mode(&a),
        Command::Stop(a) => control::stop(&a),
        Command::Doctor(a) => doctor::doctor(&a),
        Command::Region(a) => region::region(&a),
        Command::QemuArgs(a) => attach::qemu_args(&a),
        Command::LibvirtXml(a) => attach::libvirt_xml(&a),
        Command::Config(a) => control::config(&a),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { directory } => manual::man(&directory),
    }
}
