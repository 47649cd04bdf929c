// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Exit codes, and errors as one line.

use std::process::ExitCode;

use clap::error::ErrorKind;

/// The VM could not be run, or it failed.
pub const FAILED: u8 = 1;
/// Wrong arguments.
pub const USAGE: u8 = 2;

/// Prints an error as one line.
pub fn report(code: u8, message: &str) -> ExitCode {
    let line: Vec<&str> = message.lines().map(str::trim).collect();
    eprintln!("paracord-vmm: {}", line.join(" "));
    ExitCode::from(code)
}

/// Prints the message of clap: help and version unchanged, an error as one line.
pub fn usage(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // The lines after the error show the usage with all options.
    let said: Vec<&str> = lines.take_while(|line| !line.starts_with("Usage:")).collect();
    let said = said.join(" ");
    let message = said.trim_start_matches("error: ");
    report(USAGE, &format!("{message} (--help shows all options)"))
}
