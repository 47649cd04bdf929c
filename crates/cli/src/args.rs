// SPDX-License-Identifier: GPL-2.0-only
//! Arguments that several commands share. All other arguments are in the file of their command.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use paracord_abi::layout::PARACORD_SLOTS_MAX;
use paracord_host::settings::Mode;

/// The socket on which the daemon listens.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Control socket [default: the socket that the configuration file names]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// A question to the daemon about its state.
#[derive(Debug, Args)]
pub struct Query {
    #[command(flatten)]
    pub source: SnapshotSource,
    /// Print JSON (docs/control-socket.md describes it)
    #[arg(long)]
    pub json: bool,
}

/// The source of the state.
#[derive(Debug, Args)]
pub struct SnapshotSource {
    #[command(flatten)]
    pub target: Target,
    /// Read the state from a file that `status --json` has written, instead of from the daemon
    #[arg(long, value_name = "FILE", conflicts_with = "socket")]
    pub from: Option<PathBuf>,
}

/// A mode on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ModeWord {
    /// Make decisions and carry them out.
    On,
    /// Make and count decisions, but do not carry them out.
    Observe,
    /// Make no decisions.
    Off,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Mode {
        match word {
            ModeWord::On => Mode::On,
            ModeWord::Observe => Mode::Observe,
            ModeWord::Off => Mode::Off,
        }
    }
}

/// Returns the parser for the number of vCPUs of a region.
pub fn vcpu_count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(PARACORD_SLOTS_MAX))
}
