// SPDX-License-Identifier: GPL-2.0-only
//! Completion scripts and manual pages, generated from the definition of the command line.

use std::path::Path;
use std::process::ExitCode;

use clap::Command;

use crate::exit::Failure;
use crate::output::print;

/// `paracord completions`.
pub fn completions(mut command: Command, shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "paracord", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `paracord man`: writes one page per command.
pub fn man(command: Command, directory: &Path) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory))
        .map_err(|e| Failure::new(format!("{}: {e}", directory.display())))?;
    Ok(ExitCode::SUCCESS)
}
