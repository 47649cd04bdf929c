// SPDX-License-Identifier: GPL-2.0-only
//! The command line: it prints a report, or one line per error.

mod args;
mod check;
mod compare;
mod contract;
mod drive;
mod exit;
mod interrupt;
mod output;
mod plan;
mod progress;
mod random;
mod run;
mod shrink;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
pub use exit::Failure;

/// Reads the arguments and executes the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return exit::usage(&e),
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::Contract(args) => contract::contract(&args),
        Command::Random(args) => random::random(&args),
        Command::Check(args) => check::check(&args),
        Command::Plan(source) => plan::plan(&source),
    };
    done.unwrap_or_else(|failure| failure.report())
}
