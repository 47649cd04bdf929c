// SPDX-License-Identifier: GPL-2.0-only
//! Reading the configuration, and the command `paracord config`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use paracord_host::config::{self, Config};
use paracord_host::place::Host;

use crate::exit::Failure;
use crate::output::print;

/// `paracord config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// The commands about the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective configuration; keys that have their default value are commented out
    Show {
        /// Also print each key's meaning and range
        #[arg(long)]
        explain: bool,
        /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Check a configuration file and say what is wrong with it
    Check {
        /// Configuration file [default: /etc/paracord/paracord.toml]
        file: Option<PathBuf>,
    },
}

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
/// out. This function reads the same file as [`load_config`].
pub fn not_for_this_host(file: Option<&Path>) -> Option<String> {
    let file = file.unwrap_or(config::DEFAULT_PATH.as_ref());
    let found = file.exists().then(|| config::load_for(&Host::read(Path::new("/")), file))?;
    found.err().map(|e| e.to_string())
}

/// Carries out `paracord config`.
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
