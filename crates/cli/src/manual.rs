// SPDX-License-Identifier: GPL-2.0-only
//! Completion scripts and manual pages, generated from the definition of the command line.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::Failure;
use crate::output::print;

/// `paracord completions`.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "paracord", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `paracord man`: writes one page per command.
pub fn man(directory: &Path) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|e| Failure::new(format!("{}: {e}", directory.display())))?;
    Ok(ExitCode::SUCCESS)
}
