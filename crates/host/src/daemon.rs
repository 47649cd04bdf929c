// SPDX-License-Identifier: GPL-2.0-only
//! The daemon's main thread: VMs that come and go, commands, signals.
//!
//! It is a child of the supervisor and works on the supervisor's journal. Nothing
//! here is on the way of a decision: that is [`crate::rt_thread`].

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paracord_sensor::scheduler::{State, Unrecorded};
use paracord_sensor::{Error as SensorError, Options, PrintLevel, Refusals, Sensor, set_print};
use paracord_sys::clock::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing::{debug, info, warn};

use crate::actuator::{Actuator, ActuatorStats, Effect};
use crate::clamps::{ClampOrder, ClampReport, Clamps};
use crate::counters::Counters;
use crate::floors::Floors;
use crate::handle::{Command, CommandError, CommandReceiver, DaemonHandle, channel};
use crate::host_lines::HostLines;
use crate::imports::{self, Imports};
use crate::ivshmem::Ivshmem;
use crate::journal::{Journal, JournalError, RestoreReport};
use crate::leftovers::Leftovers;
use crate::log_limit::LogLimit;
use crate::observe::{Constants, refusals, snapshot, unrecorded};
use crate::performance::Performance;
use crate::place::{PlaceJournal, PlaceOrder, PlaceReport, Places};
use crate::rt_thread::{RtThread, SensorTable, clear_wake};
use crate::run_dir::{floors_path, journal_path, journals_are_clear, remove_journal};
use crate::scheduler::{Choice, Step};
use crate::settings::{Mode, PerfSettings, Settings};
use crate::snapshot::{Capability, SNAPSHOT_SCHEMA, Snapshot};
use crate::supervisor::{lock_memory, take_signal};
use crate::timer::Timer;
use crate::vms::Vms;

/// How often guest drivers are looked for in regions.
const REGION_POLL: Duration = Duration::from_millis(500);
/// How often a missing KVM is looked for.
const KVM_POLL: Duration = Duration::from_secs(1);
/// A message about a new or gone vCPU that was lost is made up for after this.
const SCAN_POLL: Duration = Duration::from_secs(5);
/// How often CPU limits above vCPUs are looked for: a VM that gets one gets past it for at most that long.
const QUOTA_POLL: Duration = Duration::from_secs(1);
/// How soon a vCPU that the actuator still holds is looked at again.
const RESCAN: Duration = Duration::from_millis(20);

/// Why the daemon could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The sensor.
    #[error(transparent)]
    Sensor(#[from] SensorError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is no journal: not started by a supervisor.
    #[error("no journal in {}: start paracord with `paracord run`", .0.display())]
    NoJournal(PathBuf),
    /// The control socket or metrics.
    #[error("{0}")]
    Serve(String),
    /// A system call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> DaemonError {
    move |source| DaemonError::System { what, source }
}

/// How the daemon is run.
pub struct Surroundings {
    /// `/proc`.
    pub proc_root: PathBuf,
    /// The supervisor's process; the daemon ends when it does.
    pub supervisor: Option<u32>,
    /// Reads the configuration anew (SIGHUP); an error is one line that names the place.
    pub reload: Box<dyn FnMut() -> Result<Settings, String>>,
    /// Where KVM shows that it is there: `/sys/module/kvm`.
    pub kvm_module: PathBuf,
    /// How the sensor is loaded.
    pub sensor: Options,
    /// Hears that the daemon is ready, with its state in a line: the BPF programs are loaded and the actuator is in
    /// force, or there is no KVM, and so no VM and nothing to load them for. Hears again when the state is another.
    pub ready: Box<dyn FnMut(&str)>,
    /// Sees the sensor when it is loaded: load tests name threads that stand in for vCPUs.
    pub loaded: Box<dyn FnMut(&Sensor)>,
}

impl Default for Surroundings {
    /// This host, without a supervisor, with nothing to read anew.
    fn default() -> Self {
        Surroundings {
            proc_root: "/proc".into(),
            supervisor: None,
            reload: Box::new(|| Err("there is no configuration file".into())),
            kvm_module: "/sys/module/kvm".into(),
            sensor: Options::default(),
            ready: Box::new(|_| ()),
            loaded: Box::new(|_| ()),
        }
    }
}

/// Runs until SIGTERM, SIGINT or a command, and restores every thread.
///
/// `serve` gets a handle when commands are answered (KVM may still be missing
/// then); what it returns is dropped before the end (control socket, metrics).
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
    // Before this run has entries of its own.
    let leftovers = Leftovers::find(&run_dir, Arc::clone(&journal), &surroundings.proc_root)?;
    let (handle, commands) = channel().map_err(system("command channel"))?;
    let mut daemon = Daemon {
        wait: Wait::new(surroundings.supervisor, commands)?,
        constants: Constants { started_ns: now_ns(), capabilities: Vec::new() },
        journal,
        leftovers,
        settings,
        running: None,
        waiting_for: None,
    };
    let served = serve(handle).map_err(DaemonError::Serve)?;
    let result = daemon.run(&mut surroundings);
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
        // The supervisor does the same, if it still lives.
        remove_journal(&run_dir);
    }
    result
}

/// What exists once KVM is there.
struct Running {
    /// As last told.
    scheduler: State,
    clamps: Clamps,
    performance: Performance,
    imports: Imports,
    proc_root: PathBuf,
    vms: Vms,
    places: Places,
    rt: RtThread,
    stats: Arc<ActuatorStats>,
    sensor: Arc<Sensor>,
    /// As last told.
    refused: Refusals,
    /// As last told.
    unrecorded: Unrecorded,
    choice: Choice,
    log: LogLimit,
}

impl Running {
    /// Tells once when the kernel has unloaded the scheduler. It is not loaded again before the next
    /// start: what ejected it would eject it again.
    fn look_at_scheduler(&mut self, run_dir: &Path, ready: &mut dyn FnMut(&str)) {
        if self.scheduler != State::Running {
            return;
        }
        self.scheduler = self.sensor.scheduler();
        if let State::Ended { reason, message } = &self.scheduler {
            let colon = if message.is_empty() { "" } else { ": " };
            warn!(
                "the kernel has unloaded paracord's scheduler ({reason}{colon}{message}): boosts go on with actuator rt"
            );
            self.end_imports(run_dir);
            self.has_changed(ready);
        }
    }

    /// With actuator auto: whether the scheduler is to come or to go. Boosts in force go on in either case.
    fn look_at_promises(&mut self, mode: Mode, run_dir: &Path, ready: &mut dyn FnMut(&str)) {
        match self.choice.look(&self.scheduler, mode, Instant::now()) {
            Step::Stay => {}
            Step::Enter => match self.sensor.start_scheduler() {
                Ok(()) => self.scheduler_came(run_dir, ready),
                Err(error) => self.choice.refused(&error),
            },
            Step::Leave => self.leave_scheduler(run_dir, ready),
        }
    }

    /// The kernel has taken the scheduler. It may have unloaded it again at once, which it says by a message (to the real-time
    /// thread, perhaps before that learns that the scheduler came) and by its state.
    fn scheduler_came(&mut self, run_dir: &Path, ready: &mut dyn FnMut(&str)) {
        self.scheduler = State::Running;
        let is_there = self.sensor.scheduler() == State::Running;
        let came = is_there && self.rt.scheduler_came();
        if self.sensor.scheduler() != State::Running {
            let _ = self.rt.scheduler_goes();
            return self.look_at_scheduler(run_dir, ready);
        }
        if !came {
            warn!("the real-time thread does not answer: boosts stay real-time");
            return self.leave_scheduler(run_dir, ready);
        }
        self.sensor.set_own_boosts(true);
        self.sensor.vcpus().iter().for_each(|vcpu| vcpu.forget_told());
        self.clamps.set_again(&self.sensor, &self.proc_root);
        self.has_changed(ready);
    }

    /// Boosts become real-time ones, and come out of what quotas leave, before the scheduler goes.
    fn leave_scheduler(&mut self, run_dir: &Path, ready: &mut dyn FnMut(&str)) {
        self.vms.refill_reserves();
        self.sensor.set_own_boosts(false);
        if !self.rt.scheduler_goes() {
            // The next look tries again.
            return warn!("the real-time thread does not answer: the scheduler stays");
        }
        // Before guests' requests become clamps of the same threads.
        self.end_imports(run_dir);
        self.sensor.stop_scheduler();
        self.scheduler = State::Absent;
        self.has_changed(ready);
    }

    /// The scheduler has come or gone.
    fn has_changed(&mut self, ready: &mut dyn FnMut(&str)) {
        let effect = match self.scheduler {
            State::Running => Effect::Scheduler,
            State::Absent | State::Ended { .. } => Effect::Realtime,
        };
        let line = watching(effect);
        info!("{line}");
        ready(&line);
        // Under the scheduler no boost gets past a quota; without it the policy refuses those that would.
        self.vms.poll_quotas();
        self.rt.reevaluate();
    }

    /// Tells of vCPU threads and control groups that got no record. Whoever may run VMs or make groups can cause that, so
    /// seldom.
    fn look_at_refusals(&mut self) {
        let (refused, groups) = (self.sensor.refusals(), self.sensor.unrecorded());
        if (refused, groups) == (self.refused, self.unrecorded) || !self.log.allow() {
            return;
        }
        let more = groups.full > self.unrecorded.full || groups.deep > self.unrecorded.deep;
        let lines = [
            refusals(refused).filter(|_| refused != self.refused),
            unrecorded(groups).filter(|_| more),
        ];
        for line in lines.into_iter().flatten() {
            warn!("{line}");
        }
        (self.refused, self.unrecorded) = (refused, groups);
    }

    /// How often quotas are looked for.
    fn quota_poll(&self) -> Duration {
        if self.vms.is_empty() { SCAN_POLL } else { QUOTA_POLL }
    }

    fn use_perf(&mut self, perf: &PerfSettings) {
        self.performance.look(&self.sensor, perf, Path::new("/"));
        if perf.import && self.scheduler == State::Running {
            self.imports.look(&self.sensor, &mut self.clamps, &self.proc_root);
        }
    }

    /// Threads have the kernel's clamps again, and no more those that were made of them.
    fn end_imports(&mut self, run_dir: &Path) {
        self.imports.forget(&self.sensor, &mut self.clamps);
        end_imports(run_dir, &self.proc_root);
    }

    /// vCPUs that came get their places, and guests are told about those.
    fn follow_places(&mut self, settings: &Settings) {
        let changed = self.places.follow(self.vms.threads(), |vm| settings.place(vm.who()));
        if !changed.is_empty() {
            self.vms.tell_places(&self.places, &changed);
        }
    }

    /// Restores every vCPU, tells the guests, detaches the sensor.
    fn stop(mut self) {
        drop(self.rt);
        let placed = self.vms.threads();
        self.places.restore_all();
        self.vms.tell_places(&self.places, &placed);
        self.vms.refresh_host_lines();
        drop(self.vms);
        drop(self.sensor);
    }
}

/// The daemon's state in a line.
fn watching(effect: Effect) -> String {
    format!("watching VMs, actuator {}", effect.name())
}

/// Gives the kernel's clamps back to threads.
fn end_imports(run_dir: &Path, proc_root: &Path) {
    if imports::exist(run_dir) {
        let mut report = RestoreReport::default();
        imports::give_back(run_dir, proc_root, &mut report);
        info!("{} threads have again the clamps that they asked the kernel for", report.clamps);
        for failure in report.failed {
            warn!("not restored: {failure}");
        }
    }
}

/// What the main thread looks at again and again.
struct Timers {
    regions: Timer,
    scan: Timer,
    perf: Timer,
    quotas: Timer,
    reserves: Timer,
}

impl Timers {
    fn new(now: Instant) -> Timers {
        let timer = Timer::new(now);
        Timers { regions: timer, scan: timer, perf: timer, quotas: timer, reserves: timer }
    }

    /// Until the first of them is due.
    fn rest(&self, running: &Running, now: Instant) -> Duration {
        let polls = [
            self.scan.rest(SCAN_POLL, now),
            self.perf.rest(SCAN_POLL, now),
            self.quotas.rest(running.quota_poll(), now),
        ];
        let regions = running.vms.have_regions().then(|| self.regions.rest(REGION_POLL, now));
        let refill =
            running.vms.refill_interval().map(|interval| self.reserves.rest(interval, now));
        polls.into_iter().chain(regions).chain(refill).min().unwrap_or(SCAN_POLL)
    }
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
            let woken = self.wait.wait(self.running.as_ref(), timeout);
            if woken.end {
                info!("ending, restoring every thread");
                return Ok(());
            }
            if woken.supervisor_gone {
                warn!("the supervisor is gone: restoring every thread and ending");
                return Ok(());
            }
            if woken.reload {
                self.reload(&mut surroundings.reload);
            }
            while let Some(command) = self.wait.commands.next() {
                if !self.command(command) {
                    return Ok(());
                }
            }
            let Some(running) = &mut self.running else { continue };
            running.look_at_scheduler(&self.settings.run_dir, &mut *surroundings.ready);
            running.look_at_refusals();
            let now = Instant::now();
            if timers.scan.is_due(SCAN_POLL, now) || woken.vcpus || again {
                timers.scan.restart(now);
                again = running.vms.scan();
                running.clamps.follow_vms(&running.sensor, &running.vms, &running.proc_root);
                running.follow_places(&self.settings);
            }
            if timers.quotas.is_due(running.quota_poll(), now) {
                running.vms.poll_io();
                if running.vms.poll_quotas() {
                    running.rt.reevaluate();
                }
            }
            if running
                .vms
                .refill_interval()
                .is_some_and(|interval| timers.reserves.is_due(interval, now))
            {
                running.vms.refill_reserves();
            }
            if timers.perf.is_due(SCAN_POLL, now) {
                let run_dir = &self.settings.run_dir;
                running.look_at_promises(self.settings.mode, run_dir, &mut *surroundings.ready);
                running.use_perf(&self.settings.perf);
                self.leftovers.retry();
                if let Err(error) = running.sensor.forget_users() {
                    debug!("users who hold nothing are not forgotten: {error}");
                }
            }
            if timers.regions.is_due(REGION_POLL, now) {
                running.vms.poll_regions();
            }
        }
    }

    fn start(&mut self, surroundings: &mut Surroundings) -> Result<(), DaemonError> {
        if !surroundings.sensor.without_kvm && !surroundings.kvm_module.exists() {
            let line = "KVM is not loaded (modprobe kvm_intel or kvm_amd): waiting for it";
            if self.waiting_for.replace(line.into()).is_none() {
                info!("{line}");
                (surroundings.ready)(line);
            }
            return Ok(());
        }
        let options =
            Options { vcpus_per_user: self.settings.vcpus_per_user, ..surroundings.sensor.clone() };
        set_print(Some((PrintLevel::Warn, libbpf_says)));
        let mut choice = Choice::new(self.settings.own_scheduler, Path::new("/"));
        let sensor = Arc::new(choice.load(&options)?);
        // Before there is any boost to be taken along.
        if choice.look(&State::Absent, self.settings.mode, Instant::now()) == Step::Enter {
            sensor.start_scheduler().unwrap_or_else(|error| choice.refused(&error));
        }
        let scheduler = sensor.scheduler();
        self.waiting_for = None;
        self.constants.capabilities = capabilities(&sensor);
        let settings = &self.settings;
        let table = Arc::new(SensorTable::new(Arc::clone(&sensor)));
        let mut actuator = Actuator::new(Arc::clone(&self.journal), settings.rt.vcpu_priority);
        if scheduler == State::Running {
            actuator = actuator.with_scheduler();
            sensor.set_own_boosts(true);
        }
        let floors = floors_path(&settings.run_dir);
        actuator = actuator.with_floors(Floors::open(&floors, &surroundings.proc_root)?);
        let placements = PlaceJournal::open(&settings.run_dir, &surroundings.proc_root)?
            .ok_or_else(|| DaemonError::NoJournal(settings.run_dir.clone()))?;
        let stats = actuator.stats();
        let rt = RtThread::start(Arc::clone(&sensor), Arc::clone(&table), actuator, &settings.rt)
            .map_err(system("real-time thread (needs CAP_SYS_NICE)"))?;
        let host_lines =
            HostLines::start(Arc::clone(&sensor), Arc::clone(&stats), Arc::clone(rt.shared()))
                .map_err(system("host line thread"))?;
        let ivshmem =
            Ivshmem::start(&settings.run_dir, &settings.region_dir, &surroundings.proc_root)
                .inspect_err(|error| warn!("guests have no interrupts for samples: {error}"))
                .ok();
        let mut vms = Vms::new(
            Arc::clone(&sensor),
            table,
            Arc::clone(&stats),
            host_lines,
            Counters::new(
                Arc::clone(&sensor),
                ivshmem,
                settings.counters,
                settings.rt.actuator_priority,
            ),
            surroundings.proc_root.clone(),
            settings.clone(),
        );
        (surroundings.loaded)(&sensor);
        vms.scan();
        lock_memory();
        let line = watching(stats.effect());
        info!("{line}");
        let mut running = Running {
            // One that has ended already is told of at the first look.
            scheduler: if scheduler == State::Absent { scheduler } else { State::Running },
            clamps: Clamps::default(),
            performance: Performance::default(),
            imports: Imports::new(&settings.run_dir),
            proc_root: surroundings.proc_root.clone(),
            vms,
            places: Places::new(
                Arc::new(placements),
                surroundings.proc_root.clone(),
                PathBuf::from("/"),
            ),
            rt,
            stats,
            sensor,
            refused: Refusals::default(),
            unrecorded: Unrecorded::default(),
            choice,
            log: LogLimit::default(),
        };
        running.follow_places(&self.settings);
        running.use_perf(&self.settings.perf);
        self.running = Some(running);
        (surroundings.ready)(&line);
        Ok(())
    }

    fn reload(&mut self, read: &mut dyn FnMut() -> Result<Settings, String>) {
        match read() {
            Ok(settings) => match self.use_settings(settings) {
                Ok(()) => info!("configuration reloaded"),
                Err(error) => warn!("configuration not reloaded: {error}"),
            },
            Err(line) => warn!("configuration not reloaded, the old one stays: {line}"),
        }
    }

    fn use_settings(&mut self, settings: Settings) -> Result<(), CommandError> {
        let old = &self.settings;
        let asked = settings.own_scheduler;
        let may_choose = match &self.running {
            Some(running) => running.choice.may_ask(asked),
            None => true,
        };
        let fixed = [
            ("run_dir", old.run_dir == settings.run_dir),
            ("region_dir", old.region_dir == settings.region_dir),
            ("actuator (to or from ext, or from rt to auto)", may_choose),
            ("actuator_priority", old.rt.actuator_priority == settings.rt.actuator_priority),
        ];
        if let Some((key, _)) = fixed.iter().find(|(_, same)| !same) {
            return Err(CommandError::Invalid(format!("{key} changes only with a restart")));
        }
        let ends_import = old.perf.import && !settings.perf.import;
        self.settings = settings;
        if let Some(running) = &mut self.running {
            running.choice.ask(asked);
            running.rt.configure(&self.settings.rt);
            running.sensor.set_vcpus_per_user(self.settings.vcpus_per_user);
            running.vms.reload(self.settings.clone());
            running.places.reloaded();
            running.follow_places(&self.settings);
            running.use_perf(&self.settings.perf);
            if ends_import {
                running.end_imports(&self.settings.run_dir);
            }
            running.rt.reevaluate();
        }
        Ok(())
    }

    /// Answers a command; false to end. An asker that has gone is no error.
    fn command(&mut self, command: Command) -> bool {
        match command {
            Command::Snapshot(answer) => drop(answer.send(Box::new(self.snapshot()))),
            Command::Reload(settings, answer) => {
                drop(answer.send(self.use_settings(*settings)));
            }
            Command::SetVm(name, overrides, answer) => {
                let result = match &mut self.running {
                    Some(running) => running.vms.set_vm(&name, overrides),
                    None => Err(CommandError::NoSuchVm(name)),
                };
                self.reevaluate();
                drop(answer.send(result));
            }
            Command::SetMode(mode, answer) => {
                self.settings.mode = mode;
                if let Some(running) = &mut self.running {
                    running.vms.set_mode(mode);
                }
                self.reevaluate();
                drop(answer.send(Ok(())));
            }
            Command::Clamp(order, answer) => drop(answer.send(self.clamp(order))),
            Command::Place(vm, order, answer) => drop(answer.send(self.place(&vm, order))),
            Command::Shutdown => return false,
        }
        true
    }

    fn clamp(&mut self, order: ClampOrder) -> Result<Vec<ClampReport>, CommandError> {
        match &mut self.running {
            Some(running) if running.scheduler == State::Running => {
                running.clamps.carry_out(order, &running.sensor, &running.vms, &running.proc_root)
            }
            _ => Err(CommandError::Invalid(
                "clamps need paracord's scheduler (actuator ext); `paracord status` tells which actuator is in force"
                    .into(),
            )),
        }
    }

    fn place(&mut self, vm: &str, order: PlaceOrder) -> Result<PlaceReport, CommandError> {
        let nobody = || CommandError::NoSuchVm(vm.to_owned());
        let running = self.running.as_mut().ok_or_else(nobody)?;
        let threads = running.vms.threads_of(running.vms.find(vm)?);
        let configured = self.settings.place(threads.who());
        let report = running.places.carry_out(&threads, &configured, order);
        running.vms.tell_places(&running.places, &[threads]);
        report.map_err(CommandError::Invalid)
    }

    fn reevaluate(&self) {
        if let Some(running) = &self.running {
            running.rt.reevaluate();
        }
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = match &self.running {
            Some(running) => {
                let Running { vms, places, sensor, stats, .. } = running;
                snapshot(&self.constants, vms, places, sensor, stats)
            }
            None => Snapshot {
                schema: SNAPSHOT_SCHEMA,
                version: env!("CARGO_PKG_VERSION").into(),
                pid: std::process::id(),
                taken_ns: now_ns(),
                started_ns: self.constants.started_ns,
                mode: self.settings.mode,
                conditions: self.waiting_for.iter().cloned().collect(),
                ..Snapshot::default()
            },
        };
        let choice = self.running.iter().flat_map(|one| one.choice.conditions(&one.scheduler));
        snapshot.conditions.extend(choice);
        snapshot.conditions.extend(self.leftovers.line());
        snapshot
    }
}

/// A refusal is an answer, mostly: libbpf's lines are for those who ask (`PARACORD_LOG=debug`).
fn libbpf_says(_: PrintLevel, line: String) {
    debug!(target: "libbpf", "{}", line.trim_end());
}

fn capabilities(sensor: &Sensor) -> Vec<Capability> {
    let found = sensor.capabilities();
    let one = |name: &str, available, detail: &str| Capability {
        name: name.into(),
        available,
        detail: detail.into(),
    };
    let kicks = match found.kick {
        Some(kick) if found.wake_ups => format!("{kick}, kvm_vcpu_wake_up (posted interrupts)"),
        Some(kick) => kick.to_owned(),
        None => "no kick function: interrupts for a preempted vCPU are not seen".to_owned(),
    };
    let mut known = vec![
        one("kvm_exit", found.kvm_exit, "VM exits are seen; without them no VM is found"),
        one("kick_probe", found.kick.is_some(), &kicks),
        one(
            "places",
            found.whereabouts,
            "guests can be told where their vCPUs run; without it capacities and frequencies stay unknown to them",
        ),
        one(
            "kvm_btf",
            found.kvm_btf,
            "KVM's types are known; without them preempt counts are not read",
        ),
    ];
    if sensor.has_scheduler() {
        known.push(one(
            "ext_kick",
            found.scheduler_kicks,
            "the scheduler can kick CPUs; without it a boost's end waits for the CPU's next tick",
        ));
    }
    known
}

struct Wait {
    end: UnixStream,
    reload: UnixStream,
    supervisor: Option<OwnedFd>,
    commands: CommandReceiver,
}

#[derive(Default)]
struct Woken {
    end: bool,
    reload: bool,
    supervisor_gone: bool,
    vcpus: bool,
}

impl Wait {
    fn new(supervisor: Option<u32>, commands: CommandReceiver) -> Result<Wait, DaemonError> {
        let stream = |signals: &[i32]| -> io::Result<UnixStream> {
            let (out, input) = UnixStream::pair()?;
            out.set_nonblocking(true)?;
            for &signal in signals {
                signal_hook::low_level::pipe::register(signal, input.try_clone()?)?;
            }
            Ok(out)
        };
        Ok(Wait {
            end: stream(&[SIGTERM, SIGINT]).map_err(system("signal handlers"))?,
            reload: stream(&[SIGHUP]).map_err(system("signal handlers"))?,
            supervisor: supervisor.map(watch_supervisor).transpose()?,
            commands,
        })
    }

    fn wait(&self, running: Option<&Running>, timeout: Option<Duration>) -> Woken {
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        let commands = self.commands.fd();
        let vcpus = running.map(|running| running.rt.shared().daemon_fd());
        let mut fds = vec![
            PollFd::new(&self.end, PollFlags::IN),
            PollFd::new(&self.reload, PollFlags::IN),
            PollFd::new(&commands, PollFlags::IN),
        ];
        let supervisor_at = fds.len();
        fds.extend(self.supervisor.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let vcpus_at = fds.len();
        fds.extend(vcpus.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Woken::default();
        }
        let ready = |n: usize| fds.get(n).is_some_and(|fd| fd.revents().contains(PollFlags::IN));
        let woken = Woken {
            end: take_signal(&self.end),
            reload: take_signal(&self.reload),
            supervisor_gone: self.supervisor.is_some() && ready(supervisor_at),
            vcpus: vcpus.is_some() && ready(vcpus_at),
        };
        if let Some(fd) = vcpus.filter(|_| woken.vcpus) {
            clear_wake(fd);
        }
        woken
    }
}

/// A pidfd of the supervisor, if it still is our parent.
fn watch_supervisor(pid: u32) -> Result<OwnedFd, DaemonError> {
    let gone = || system("the supervisor")(io::Error::from(io::ErrorKind::NotFound));
    let pid = Pid::from_raw(pid as i32).ok_or_else(gone)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone())?;
    // Checked after the open: the descriptor is our parent's, or the parent is gone.
    if getppid() == Some(pid) { Ok(pidfd) } else { Err(gone()) }
}
