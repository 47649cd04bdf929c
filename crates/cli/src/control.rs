// SPDX-License-Identifier: GPL-2.0-only
//! Commands that talk to the daemon or read its configuration.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use paracord_host::config::{self, Config};
use paracord_host::control::{Client, Request};
use paracord_host::place::Host;

use crate::args::{ConfigArgs, ConfigCommand, ModeArgs, Target};
use crate::exit::Failure;
use crate::output::print;

/// Reads the configuration in `file`. Without `file`, reads the default file, or returns the
/// defaults if that file does not exist.
///
/// # Errors
/// If the file cannot be read or is wrong.
pub fn load_config(file: Option<&Path>) -> Result<Config, Failure> {
    Ok(match file {
        Some(file) => config::load(file)?,
        None if Path::new(config::DEFAULT_PATH).exists() => {
            config::load(config::DEFAULT_PATH.as_ref())?
        }
        None => Config::default(),
    })
}

/// Describes, in one line, the first placement in the configuration that this host cannot carry
/// out. The configuration is in the file that [`load_config`] reads.
pub fn not_for_this_host(file: Option<&Path>) -> Option<String> {
    let file = file.unwrap_or(config::DEFAULT_PATH.as_ref());
    let found = file.exists().then(|| config::load_for(&Host::read(Path::new("/")), file))?;
    found.err().map(|e| e.to_string())
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

/// `paracord reload`.
pub fn reload(target: &Target) -> Result<ExitCode, Failure> {
    let answer = ask(target, &Request::Reload {})?;
    match answer["note"].as_str() {
        Some(note) if !note.is_empty() => print(&format!("{note}\n")),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// `paracord mode`.
pub fn mode(args: &ModeArgs) -> Result<ExitCode, Failure> {
    ask(&args.target, &Request::Mode { mode: args.mode.into() })?;
    Ok(ExitCode::SUCCESS)
}

/// `paracord stop`.
pub fn stop(target: &Target) -> Result<ExitCode, Failure> {
    Client::connect(&socket(target)?)?.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// `paracord config`.
pub fn config(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    match &args.command {
        ConfigCommand::Show { explain, config } => {
            print(&config::show(&load_config(config.as_deref())?, *explain))
        }
        ConfigCommand::Check { file } => {
            let path = file.as_deref().unwrap_or(config::DEFAULT_PATH.as_ref());
            config::load_for(&Host::read(Path::new("/")), path)?;
            print(&format!("{}: ok\n", path.display()))
        }
    }
}
