// SPDX-License-Identifier: GPL-2.0-only
//! Exit codes, and errors as one line.

use std::io::Write;
use std::process::ExitCode;

use paracord_host::config::ConfigError;
use paracord_host::control::{ClientError, ErrorCode};

/// The operation failed.
pub const FAILED: u8 = 1;
/// Wrong arguments or a wrong configuration file.
pub const USAGE: u8 = 2;
/// No daemon runs.
pub const NOT_RUNNING: u8 = 3;
/// The caller has no permission.
pub const DENIED: u8 = 4;
/// `doctor` found that this host lacks something that paracord needs.
pub const LACKING: u8 = 5;

/// The exit code and the message of a command that failed.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// A failure with exit code [`FAILED`].
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { code: FAILED, message: message.into() }
    }

    /// A failure with exit code [`USAGE`].
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: USAGE, message: message.into() }
    }

    /// A failure with exit code [`DENIED`].
    pub fn denied(message: impl Into<String>) -> Failure {
        Failure { code: DENIED, message: message.into() }
    }

    /// The message: what went wrong and what to do.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Prints the message as one line on standard error, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let line: Vec<&str> = self.message.lines().map(str::trim).collect();
        // If the terminal is gone, `eprintln!` would panic.
        let _ = writeln!(std::io::stderr(), "paracord: {}", line.join(" "));
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<ConfigError> for Failure {
    fn from(e: ConfigError) -> Failure {
        Failure::usage(e.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Failure {
        let code = match &e {
            ClientError::NotRunning(_) => NOT_RUNNING,
            ClientError::Denied(_) => DENIED,
            ClientError::Refused(failure) => match failure.code {
                ErrorCode::Denied => DENIED,
                ErrorCode::Invalid | ErrorCode::BadRequest => USAGE,
                ErrorCode::Busy | ErrorCode::NoSuchVm | ErrorCode::NoAnswer => FAILED,
            },
            ClientError::Broken { .. } => FAILED,
        };
        Failure { code, message: e.to_string() }
    }
}

/// Prints the output of clap. Help and version are printed unchanged, and an error is printed as
/// one line.
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
    // The first paragraph is the error. Later paragraphs are suggestions ("tip: …") and the usage.
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
    Failure::usage(message).report()
}
