// SPDX-License-Identifier: GPL-2.0-only
//! Exit codes, and errors as one line.

use std::process::ExitCode;

use paracord_sim::mix::MixError;

/// Exit code of a run with a fault.
const FAULT: u8 = 1;
/// Exit code for wrong arguments, a bad mix, or a file that cannot be written.
const USAGE: u8 = 2;
/// Exit code of an interrupted run: 128 + SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Why a command failed, in one line. Faults of a run are results, not failures.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Makes a failure. The message says what went wrong and what to do.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Prints the line.
    pub fn report(&self) -> ExitCode {
        let line: Vec<&str> = self.0.lines().map(str::trim).collect();
        eprintln!("paracord-sim: {}", line.join(" "));
        ExitCode::from(USAGE)
    }
}

impl From<MixError> for Failure {
    fn from(e: MixError) -> Self {
        Self(e.to_string())
    }
}

/// The exit code of completed or interrupted runs.
pub fn code(faults: bool, interrupted: bool) -> ExitCode {
    ExitCode::from(match (interrupted, faults) {
        (true, _) => INTERRUPTED,
        (_, true) => FAULT,
        _ => 0,
    })
}

/// Prints the message of clap: help and version unchanged, an error as one line.
pub fn usage(e: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind;
    if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = e.print();
        return ExitCode::SUCCESS;
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = e.print();
        return ExitCode::from(USAGE);
    }
    let text = e.render().to_string();
    // The first paragraph is the error, later ones are suggestions ("tip: …") and the usage.
    let mut lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    let mut message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    for line in
        lines.take_while(|l| !l.starts_with("Usage:") && !l.starts_with("For more information"))
    {
        message.push_str(if line.starts_with("tip:") { "; " } else { " " });
        message.push_str(line.trim_start_matches("tip: "));
    }
    if let Some(usage) = text.lines().find_map(|l| l.strip_prefix("Usage: ")) {
        message.push_str("; usage: ");
        message.push_str(usage);
    }
    Failure::new(message).report()
}
