// SPDX-License-Identifier: GPL-2.0-only
//! `paracord run` (supervisor and daemon) and `paracord restore`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;

use paracord_host::config::Config;
use paracord_host::control::{Access, Server, Stop};
use paracord_host::daemon::{self, Surroundings};
use paracord_host::handle::DaemonHandle;
use paracord_host::run_dir;
use paracord_host::settings::Settings;
use paracord_host::supervisor::{self, SupervisorError};
use tracing_subscriber::EnvFilter;

use crate::args::RunArgs;
use crate::control::load_config;
use crate::exit::Failure;
use crate::output::print;

/// `paracord run`.
pub fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    start_log();
    let config = load_config(args.config.as_deref())?;
    match args.daemon_of {
        Some(supervisor) => run_daemon(args, &config, supervisor),
        None => run_supervisor(args, &config),
    }
}

/// Lines without time stamps on standard error, which is what the journal wants;
/// PARACORD_LOG takes levels (`debug`, `paracord_host::vms=trace`).
fn start_log() {
    let filter = EnvFilter::builder()
        .with_env_var("PARACORD_LOG")
        .with_default_directive(tracing::Level::INFO.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
}

fn run_supervisor(args: &RunArgs, config: &Config) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::new(format!("finding the own executable: {e}")))?;
    let command = || {
        let mut command = Command::new(&program);
        command.arg("run").arg("--daemon-of").arg(std::process::id().to_string());
        if let Some(file) = &args.config {
            command.arg("--config").arg(file);
        }
        command
    };
    match supervisor::run(&Settings::from(config), Path::new("/proc"), command) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error @ SupervisorError::NotRoot) => Err(Failure::denied(error.to_string())),
        // The daemon said why.
        Err(SupervisorError::Daemon(code)) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

fn run_daemon(args: &RunArgs, config: &Config, supervisor: u32) -> Result<ExitCode, Failure> {
    let file = args.config.clone();
    let surroundings = Surroundings {
        supervisor: Some(supervisor),
        reload: Box::new(move || read_settings(file.as_deref())),
        ..Surroundings::default()
    };
    let serve = |handle| serve_control(args.config.clone(), config, handle);
    daemon::run(Settings::from(config), surroundings, serve)
        .map_err(|error| Failure::new(error.to_string()))?;
    Ok(ExitCode::SUCCESS)
}

fn read_settings(file: Option<&Path>) -> Result<Settings, String> {
    load_config(file).map(|config| Settings::from(&config)).map_err(|failure| failure.to_string())
}

/// The control socket's thread; dropping it removes the socket.
struct Control {
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_control(
    file: Option<PathBuf>,
    config: &Config,
    handle: DaemonHandle,
) -> Result<Control, String> {
    let reload = move |handle: &DaemonHandle| {
        let settings = read_settings(file.as_deref())?;
        handle.reload(settings).map(|()| String::new()).map_err(|error| error.to_string())
    };
    let access = Access::new(&config.control.group, Path::new("/"));
    let server = Server::bind(&config.control.socket, access, handle, Box::new(reload))
        .map_err(|error| error.to_string())?;
    let stop = server.stopper();
    let thread = std::thread::Builder::new()
        .name("paracord-control".into())
        .spawn(move || server.run())
        .map_err(|error| format!("control socket: {error}"))?;
    Ok(Control { stop, thread: Some(thread) })
}

/// `paracord restore`.
pub fn restore(config: Option<&Path>) -> Result<ExitCode, Failure> {
    let config = load_config(config)?;
    let report = run_dir::restore(&config.run_dir, Path::new("/proc"))
        .map_err(|error| Failure::new(error.to_string()))?;
    if !report.failed.is_empty() {
        return Err(Failure::new(format!("not restored: {}", report.failed.join("; "))));
    }
    print(&format!("{} threads restored\n", report.restored))
}
