// SPDX-License-Identifier: GPL-2.0-only
//! `paracord run` and `paracord restore`.
//!
//! `run` is the supervisor. It starts the same program again as the daemon, with `--daemon-of` and
//! the same arguments, so that the supervisor and the daemon read the same configuration.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use paracord_host::config::{Actuator, Config};
use paracord_host::daemon::{self, ReadConfig, Reloaded, Surroundings};
use paracord_host::regions::declared;
use paracord_host::run_dir::{self, RunDir, RunDirError};
use paracord_host::services::Services;
use paracord_host::settings::Settings;
use paracord_host::supervisor::{self, SupervisorError};

use crate::args::ModeWord;
use crate::config::{load_config, not_for_this_host};
use crate::exit::Failure;
use crate::output::print;
use crate::{log, notify};

const PROC: &str = "/proc";

/// `paracord run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Upper bound for the modes of all VMs; overrides the configuration file
    #[arg(long)]
    pub mode: Option<ModeWord>,
    /// How decisions are carried out; overrides the configuration file
    #[arg(long)]
    pub actuator: Option<ActuatorWord>,
    /// Run without a supervisor, as a single process; if it is killed, run `paracord restore`
    #[arg(long, visible_alias = "foreground")]
    pub no_supervisor: bool,
    /// Run as the daemon of the supervisor with this process ID
    #[arg(long, hide = true, value_name = "PID", conflicts_with = "no_supervisor")]
    pub daemon_of: Option<u32>,
}

impl RunArgs {
    /// The arguments that give the daemon the same configuration.
    pub fn as_words(&self) -> Vec<std::ffi::OsString> {
        let mut words: Vec<std::ffi::OsString> = Vec::new();
        let mut push = |option: &str, value: &std::ffi::OsStr| {
            words.push(option.into());
            words.push(value.to_owned());
        };
        if let Some(file) = &self.config {
            push("--config", file.as_os_str());
        }
        if let Some(word) = self.mode.and_then(|m| m.to_possible_value()) {
            push("--mode", word.get_name().as_ref());
        }
        if let Some(word) = self.actuator.and_then(|a| a.to_possible_value()) {
            push("--actuator", word.get_name().as_ref());
        }
        words
    }
}

/// An actuator on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ActuatorWord {
    /// ext as long as ext provides every feature of the kernel's scheduler that this host uses,
    /// otherwise rt; `paracord status` shows why rt is used.
    Auto,
    /// The daemon makes boosted threads SCHED_RR. The host keeps the kernel's scheduler, and
    /// boosted time counts against the VM's CPU quota.
    Rt,
    /// paracord's own scheduler (sched_ext) runs all ordinary tasks of the host; docs/ext.md lists
    /// the features that it lacks.
    Ext,
    /// paracord makes and counts decisions, but does not carry them out.
    Observe,
}

/// `paracord restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// Configuration file [default: /etc/paracord/paracord.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl From<RunDirError> for Failure {
    fn from(e: RunDirError) -> Failure {
        Failure::new(e.to_string())
    }
}

fn not_root() -> Failure {
    Failure::denied("must run as root: it changes the scheduling of other users' processes")
}

fn configure(args: &RunArgs) -> Result<Config, Failure> {
    let mut config = load_config(args.config.as_deref())?;
    if let Some(mode) = args.mode {
        config.mode = mode.into();
    }
    if let Some(actuator) = args.actuator {
        config.actuator = match actuator {
            ActuatorWord::Auto => Actuator::Auto,
            ActuatorWord::Rt => Actuator::Rt,
            ActuatorWord::Ext => Actuator::Ext,
            ActuatorWord::Observe => Actuator::Observe,
        };
    }
    Ok(config)
}

/// `paracord run`.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let config = configure(args)?;
    log::start();
    let settings = Settings::from(&config);
    if args.daemon_of.is_some() {
        if let Some(line) = not_for_this_host(args.config.as_deref()) {
            tracing::warn!("vCPUs of that section are not placed: {line}");
        }
        return serve(args, &config, settings);
    }
    if args.no_supervisor {
        return unsupervised(args, &config, settings);
    }
    let program =
        std::env::current_exe().map_err(|e| Failure::new(format!("own program file: {e}")))?;
    supervisor::run(&settings, Path::new(PROC), || {
        let mut command = Command::new(&program);
        let own_pid = std::process::id().to_string();
        command.args(["run", "--daemon-of", &own_pid]).args(args.as_words());
        notify::hand_on_watchdog(&mut command);
        command
    })
    .map(|()| ExitCode::SUCCESS)
    .or_else(|e| match e {
        SupervisorError::NotRoot => Err(not_root()),
        // The daemon has reported the reason.
        SupervisorError::Daemon(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        e => Err(Failure::new(e.to_string())),
    })
}

/// Runs the daemon without a supervisor. If the daemon is killed, the user must run
/// `paracord restore`.
fn unsupervised(args: &RunArgs, config: &Config, settings: Settings) -> Result<ExitCode, Failure> {
    if !is_root() {
        return Err(not_root());
    }
    let run_dir = RunDir::lock(&settings.run_dir)?;
    let earlier = run_dir.clean_up(Path::new(PROC))?.unwrap_or_default();
    for failure in &earlier.failed {
        tracing::error!("a thread that an earlier run changed is not restored: {failure}");
    }
    run_dir::keep_journals(&settings.run_dir, Path::new(PROC))
        .map_err(|e| Failure::new(e.to_string()))?;
    let result = serve(args, config, settings);
    if let Some(failure) =
        run_dir.clean_up(Path::new(PROC))?.and_then(|r| r.failed.into_iter().next())
    {
        tracing::error!("not restored: {failure}; `paracord restore` tries again");
    }
    result
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

fn serve(args: &RunArgs, config: &Config, settings: Settings) -> Result<ExitCode, Failure> {
    let surroundings = Surroundings {
        supervisor: args.daemon_of,
        reload: read_again(args, config),
        manager: notify::manager(),
        ..Surroundings::default()
    };
    daemon::run(settings, surroundings, |handle| Services::start(config, handle))
        .map_err(|e| Failure::new(e.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the function that reads the configuration again. The sockets do not change until the
/// next start.
fn read_again(args: &RunArgs, config: &Config) -> Box<ReadConfig> {
    let (args, started_with) = (args.clone(), config.clone());
    Box::new(move || {
        let config = configure(&args).map_err(|e| e.message().to_owned())?;
        declared::make(&config, false);
        let same = config.control == started_with.control && config.metrics == started_with.metrics;
        let note = "[control] and [metrics] take effect at the next start; all else is in force";
        let mut notes = Vec::new();
        notes.extend((!same).then(|| note.to_owned()));
        // This is a note and not an error, because a CPU that is offline may come back. Placements
        // on other CPUs take effect.
        notes.extend(not_for_this_host(args.config.as_deref()));
        Ok(Reloaded { settings: Settings::from(&config), note: notes.join("\n") })
    })
}

/// `paracord restore`.
pub fn restore(args: &RestoreArgs) -> Result<ExitCode, Failure> {
    let config = load_config(args.config.as_deref())?;
    if !is_root() {
        return Err(not_root());
    }
    let report = run_dir::restore(&config.run_dir, Path::new(PROC))?;
    if let Some(failure) = report.failed.first() {
        let count = report.failed.len();
        return Err(Failure::new(format!("{count} threads not restored, the first: {failure}")));
    }
    print(&format!("{report}\n"))
}
