// SPDX-License-Identifier: GPL-2.0-only
//! Communication with the daemon, and the commands that only send a request to the daemon.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use paracord_host::control::{Client, Request};

use crate::args::{ModeWord, Target};
use crate::config::load_config;
use crate::exit::Failure;
use crate::output::print;

/// The commands that only send a request to the daemon.
#[derive(Debug, Subcommand)]
pub enum ControlCommand {
    /// Read the configuration file again; active boosts continue
    Reload(Target),
    /// Set an upper bound for the modes of all VMs until the next reload
    Mode(ModeArgs),
    /// Restore every thread and end the daemon
    Stop(Target),
}

/// `paracord mode`.
#[derive(Debug, Args)]
pub struct ModeArgs {
    /// on: make decisions and carry them out; observe: only make and count them; off: make none
    pub mode: ModeWord,
    #[command(flatten)]
    pub target: Target,
}

/// Path of the daemon's socket.
///
/// # Errors
/// If the configuration file that names the socket is wrong.
pub fn socket(target: &Target) -> Result<PathBuf, Failure> {
    match &target.socket {
        Some(path) => Ok(path.clone()),
        None => Ok(load_config(target.config.as_deref())?.control.socket),
    }
}

/// Sends a request to the daemon, and returns the answer.
///
/// # Errors
/// If no daemon runs, if the caller has no permission, or if the daemon refuses the request.
pub fn ask(target: &Target, request: &Request) -> Result<serde_json::Value, Failure> {
    Ok(Client::connect(&socket(target)?)?.ask(request)?)
}

/// Carries out one of these commands.
pub fn control(command: &ControlCommand) -> Result<ExitCode, Failure> {
    match command {
        ControlCommand::Reload(target) => {
            let answer = ask(target, &Request::Reload {})?;
            match answer["note"].as_str() {
                Some(note) if !note.is_empty() => print(&format!("{note}\n")),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
        ControlCommand::Mode(args) => {
            ask(&args.target, &Request::Mode { mode: args.mode.into() })?;
            Ok(ExitCode::SUCCESS)
        }
        ControlCommand::Stop(target) => {
            Client::connect(&socket(target)?)?.stop()?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
