// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's main thread. It handles commands, signals, and VMs that come and go.
//!
//! The daemon is a child of the supervisor and uses the supervisor's journal. Boost decisions do
//! not go through this thread, but through [`crate::boosts::rt_thread`].

mod commands;
mod error;
mod manager;
mod running;
mod start;
mod timers;
mod wait;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paracord_sensor::scheduler::State;
use paracord_sensor::{Options, PrintLevel, Sensor, set_print};
use paracord_sys::clock::now_ns;
use tracing::{debug, info, warn};

use crate::boosts::journal::Journal;
use crate::boosts::leftovers::Leftovers;
use crate::capabilities::capabilities;
use crate::handle::{DaemonHandle, channel};
use crate::observe::Constants;
use crate::run_dir::{journal_path, journals_are_clear, remove_journal};
use crate::scheduler::{Choice, Step};
use crate::settings::Settings;
use error::system;
use running::{Running, end_imports, watching};
use timers::{NEW_THREADS_POLL, REGION_POLL, SCAN_POLL, Timers, quota_poll};
use wait::Wait;

pub use error::DaemonError;
pub use manager::Manager;

/// Interval between two checks for KVM while KVM is not loaded.
const KVM_POLL: Duration = Duration::from_secs(1);
/// Delay before the next scan if a vCPU is gone but the actuator still holds its boost.
const RESCAN: Duration = Duration::from_millis(20);

/// A reloaded configuration.
pub struct Reloaded {
    /// The settings in the configuration.
    pub settings: Settings,
    /// A note for the requester, for example which keys take effect only at the next start. It may
    /// be empty.
    pub note: String,
}

/// Reads the configuration. An error is one line that names the place in the file.
pub type ReadConfig = dyn FnMut() -> Result<Reloaded, String>;

/// The environment in which the daemon runs.
pub struct Surroundings {
    /// `/proc`.
    pub proc_root: PathBuf,
    /// Pid of the supervisor. The daemon ends when the supervisor ends.
    pub supervisor: Option<u32>,
    /// Reads the configuration again (SIGHUP, `paracord reload`). An error is one line that names
    /// the place in the file.
    pub reload: Box<ReadConfig>,
    /// Path that exists while KVM is loaded: `/sys/module/kvm`.
    pub kvm_module: PathBuf,
    /// Options for loading the sensor.
    pub sensor: Options,
    /// The service manager, which is told about each change of the daemon's state.
    pub manager: Box<dyn Manager>,
    /// Called with the sensor after the sensor has been loaded. In this call, load tests have the
    /// sensor adopt threads that stand in for vCPUs.
    pub loaded: Box<dyn FnMut(&Sensor)>,
}

impl Default for Surroundings {
    /// This host, without a supervisor and without a configuration to read again.
    fn default() -> Self {
        Surroundings {
            proc_root: "/proc".into(),
            supervisor: None,
            reload: Box::new(|| Err("there is no configuration file".into())),
            kvm_module: "/sys/module/kvm".into(),
            sensor: Options::default(),
            manager: Box::new(()),
            loaded: Box::new(|_| ()),
        }
    }
}

/// Runs until SIGTERM, SIGINT, a stop command or the end of the supervisor, and then restores every
/// thread.
///
/// `serve` gets the handle for commands before the main loop begins to answer commands. At that
/// time, KVM may still be missing. `serve` returns the running services (the control socket and the
/// metrics). They are dropped when the main loop has ended.
///
/// # Errors
/// [`DaemonError`].
pub fn run<Served>(
    settings: Settings,
    mut surroundings: Surroundings,
    serve: impl FnOnce(DaemonHandle) -> Result<Served, String>,
) -> Result<(), DaemonError> {
    let run_dir = settings.run_dir.clone();
    let journal = Journal::open(&journal_path(&run_dir), &surroundings.proc_root)?
        .ok_or_else(|| DaemonError::NoJournal(run_dir.clone()))?;
    let journal = Arc::new(journal);
    // Find the leftovers of earlier runs before this run has entries of its own.
    let leftovers = Leftovers::find(&run_dir, Arc::clone(&journal), &surroundings.proc_root)?;
    let (handle, messages) = channel().map_err(system("command channel"))?;
    let mut daemon = Daemon {
        wait: Wait::new(surroundings.supervisor, messages)?,
        constants: Constants { started_ns: now_ns(), capabilities: Vec::new() },
        journal,
        leftovers,
        settings,
        running: None,
        waiting_for: None,
    };
    let served = serve(handle).map_err(DaemonError::Serve)?;
    let result = daemon.run(&mut surroundings);
    surroundings.manager.stopping("ending, restoring every thread");
    drop(served);
    if let Some(running) = daemon.running.take() {
        running.stop();
    }
    end_imports(&run_dir, &surroundings.proc_root);
    daemon.leftovers.retry();
    if !journals_are_clear(&run_dir, &surroundings.proc_root) {
        warn!(
            "not every thread could be restored: its journal stays, `paracord restore` tries again"
        );
    } else if result.is_ok() {
        // The supervisor does the same, if it is still alive.
        remove_journal(&run_dir);
    }
    result
}

struct Daemon {
    wait: Wait,
    constants: Constants,
    journal: Arc<Journal>,
    leftovers: Leftovers,
    settings: Settings,
    running: Option<Running>,
    waiting_for: Option<String>,
}

impl Daemon {
    fn run(&mut self, surroundings: &mut Surroundings) -> Result<(), DaemonError> {
        let mut again = false;
        let mut timers = Timers::new(Instant::now());
        loop {
            if self.running.is_none() {
                self.start(surroundings)?;
                again = self.running.is_some();
            }
            let timeout = match &self.running {
                None => Some(KVM_POLL),
                Some(running) => {
                    let rest = timers.rest(running, Instant::now());
                    Some(if again { rest.min(RESCAN) } else { rest })
                }
            };
            let alive = timers.until_alive(&*surroundings.manager, Instant::now());
            let timeout = timeout.into_iter().chain(alive).min();
            let vcpus = self.running.as_ref().map(|running| running.rt.shared().daemon_fd());
            let woken = self.wait.wait(vcpus, timeout);
            timers.tell_alive(&mut *surroundings.manager, Instant::now());
            if woken.end {
                info!("ending, restoring every thread");
                return Ok(());
            }
            if woken.supervisor_gone {
                warn!("the supervisor is gone: restoring every thread and ending");
                return Ok(());
            }
            if woken.reload {
                match self.reload(surroundings) {
                    Ok(note) if note.is_empty() => info!("configuration reloaded"),
                    Ok(note) => info!("configuration reloaded: {note}"),
                    Err(error) => warn!("configuration not reloaded, the old one stays: {error}"),
                }
            }
            while let Some(message) = self.wait.messages.next() {
                if !self.answer(message, surroundings) {
                    return Ok(());
                }
            }
            let Some(running) = &mut self.running else { continue };
            running.look_at_scheduler(&self.settings.run_dir, &mut *surroundings.manager);
            running.look_at_refusals();
            let now = Instant::now();
            if timers.scan.is_due(SCAN_POLL, now) || woken.vcpus || again {
                timers.scan.restart(now);
                again = running.scan(&self.settings);
                running.clamps.follow_vms(&running.sensor, &running.vms, &running.proc_root);
                running.follow_places(&self.settings);
            }
            let are_new = running.vms.have_new_threads();
            if are_new && timers.new_threads.is_due(NEW_THREADS_POLL, now) {
                running.poll_new_threads(&self.settings);
            }
            if timers.quotas.is_due(quota_poll(running), now) {
                running.poll_io(&self.settings);
                if running.followers.poll_quotas(&mut running.vms) {
                    running.rt.reevaluate();
                }
            }
            let refill = running.followers.refill_interval();
            if refill.is_some_and(|interval| timers.reserves.is_due(interval, now)) {
                running.followers.refill_reserves();
            }
            if timers.perf.is_due(SCAN_POLL, now) {
                let run_dir = &self.settings.run_dir;
                running.look_at_promises(self.settings.mode, run_dir, &mut *surroundings.manager);
                running.use_perf(&self.settings.perf);
                self.leftovers.retry();
                if let Err(error) = running.sensor.forget_users() {
                    debug!("users who hold nothing are not forgotten: {error}");
                }
            }
            if timers.regions.is_due(REGION_POLL, now) {
                running.poll_regions(&self.settings);
            }
        }
    }

    fn start(&mut self, surroundings: &mut Surroundings) -> Result<(), DaemonError> {
        if !surroundings.sensor.without_kvm && !surroundings.kvm_module.exists() {
            let line = "KVM is not loaded (modprobe kvm_intel or kvm_amd): waiting for it";
            if self.waiting_for.replace(line.into()).is_none() {
                info!("{line}");
                surroundings.manager.ready(line);
            }
            return Ok(());
        }
        let options =
            Options { vcpus_per_user: self.settings.vcpus_per_user, ..surroundings.sensor.clone() };
        set_print(Some((PrintLevel::Warn, libbpf_says)));
        let mut choice = Choice::new(self.settings.own_scheduler, Path::new("/"));
        let sensor = Arc::new(choice.load(&options)?);
        // Start the scheduler now, while there are no boosts to hand over.
        if choice.look(&State::Absent, self.settings.mode, Instant::now()) == Step::Enter {
            sensor.start_scheduler().unwrap_or_else(|error| choice.refused(&error));
        }
        self.waiting_for = None;
        self.constants.capabilities = capabilities(&sensor);
        let mut running =
            Running::start(&self.settings, &self.journal, surroundings, sensor, choice)?;
        let line = watching(running.stats.effect());
        info!("{line}");
        running.follow_places(&self.settings);
        running.use_perf(&self.settings.perf);
        self.running = Some(running);
        surroundings.manager.ready(&line);
        Ok(())
    }
}

/// Logs a line of libbpf at debug level (`PARACORD_LOG=debug`), because most refusals by the kernel
/// only answer a probe for a feature.
fn libbpf_says(_: PrintLevel, line: String) {
    debug!(target: "libbpf", "{}", line.trim_end());
}
