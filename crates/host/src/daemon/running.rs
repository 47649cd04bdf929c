// SPDX-License-Identifier: GPL-2.0-only
//! The work of the daemon once KVM is loaded, apart from commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use paracord_sensor::scheduler::{State, Unrecorded};
use paracord_sensor::{Refusals, Sensor};
use tracing::{info, warn};

use super::manager::Manager;
use crate::boosts::actuator::{ActuatorStats, Effect};
use crate::boosts::journal::RestoreReport;
use crate::boosts::rt_thread::RtThread;
use crate::command_error::CommandError;
use crate::config::Override;
use crate::followers::Followers;
use crate::log_limit::LogLimit;
use crate::observe::{refusals, unrecorded};
use crate::place::{Places, VmThreads};
use crate::scheduler::clamps::Clamps;
use crate::scheduler::imports::{self, Imports};
use crate::scheduler::performance::Performance;
use crate::scheduler::{Choice, Step};
use crate::settings::{Mode, PerfSettings, Settings};
use crate::vms::{Scan, Vms};

/// The state that exists once KVM is loaded.
pub(super) struct Running {
    /// State of the scheduler, as last reported.
    pub scheduler: State,
    pub clamps: Clamps,
    pub performance: Performance,
    pub imports: Imports,
    pub proc_root: PathBuf,
    pub vms: Vms,
    pub followers: Followers,
    pub places: Places,
    pub rt: RtThread,
    pub stats: Arc<ActuatorStats>,
    pub sensor: Arc<Sensor>,
    /// Threads without a record, as last logged.
    pub refused: Refusals,
    /// Control groups without a record, as last logged.
    pub unrecorded: Unrecorded,
    pub choice: Choice,
    pub log: LogLimit,
}

impl Running {
    /// If the kernel has unloaded the scheduler, reports this once. The daemon does not load the
    /// scheduler again until the daemon itself is restarted, because the same cause would make the
    /// kernel unload the scheduler again.
    pub fn look_at_scheduler(&mut self, run_dir: &Path, manager: &mut dyn Manager) {
        if self.scheduler != State::Running {
            return;
        }
        self.scheduler = self.sensor.scheduler();
        if let State::Ended { reason, message } = &self.scheduler {
            // The real-time thread has had a message about this, unless the ring buffer was full.
            self.followers.refill_reserves();
            let _ = self.rt.scheduler_goes();
            let colon = if message.is_empty() { "" } else { ": " };
            warn!(
                "the kernel has unloaded paracord's scheduler ({reason}{colon}{message}): boosts go on with actuator rt"
            );
            self.end_imports(run_dir);
            self.has_changed(manager);
        }
    }

    /// Starts or stops the scheduler as [`Choice::look`] decides. This happens only with actuator
    /// auto, or after a reload from auto to rt. Active boosts continue.
    pub fn look_at_promises(&mut self, mode: Mode, run_dir: &Path, manager: &mut dyn Manager) {
        match self.choice.look(&self.scheduler, mode, Instant::now()) {
            Step::Stay => {}
            Step::Enter => match self.sensor.start_scheduler() {
                Ok(()) => self.scheduler_came(run_dir, manager),
                Err(error) => self.choice.refused(&error),
            },
            Step::Leave => self.leave_scheduler(run_dir, manager),
        }
    }

    /// Hands boosts over to the scheduler, which the kernel has accepted. The kernel may already
    /// have unloaded the scheduler again. The real-time thread gets a message about the unload, but
    /// this message may arrive before the thread learns that the scheduler was loaded. The state of
    /// the scheduler is therefore checked again after the handover.
    fn scheduler_came(&mut self, run_dir: &Path, manager: &mut dyn Manager) {
        self.scheduler = State::Running;
        let is_there = self.sensor.scheduler() == State::Running;
        let came = is_there && self.rt.scheduler_came();
        if self.sensor.scheduler() != State::Running {
            let _ = self.rt.scheduler_goes();
            return self.look_at_scheduler(run_dir, manager);
        }
        if !came {
            warn!("the real-time thread does not answer: boosts stay real-time");
            return self.leave_scheduler(run_dir, manager);
        }
        self.sensor.set_own_boosts(true);
        self.sensor.vcpus().iter().for_each(|vcpu| vcpu.forget_told());
        self.clamps.set_again(&self.sensor, &self.proc_root);
        self.has_changed(manager);
    }

    /// Turns the scheduler's boosts into real-time boosts, and then stops the scheduler. Real-time
    /// boosts are limited to the time that CPU quotas leave.
    fn leave_scheduler(&mut self, run_dir: &Path, manager: &mut dyn Manager) {
        self.followers.refill_reserves();
        self.sensor.set_own_boosts(false);
        if !self.rt.scheduler_goes() {
            // The next check tries again.
            return warn!("the real-time thread does not answer: the scheduler stays");
        }
        // End the imports of clamps before guests' requests become clamps of the same threads.
        self.end_imports(run_dir);
        self.sensor.stop_scheduler();
        self.scheduler = State::Absent;
        self.has_changed(manager);
    }

    /// Reports that the scheduler has been loaded or unloaded.
    fn has_changed(&mut self, manager: &mut dyn Manager) {
        let effect = match self.scheduler {
            State::Running => Effect::Scheduler,
            State::Absent | State::Ended { .. } => Effect::Realtime,
        };
        let line = watching(effect);
        info!("{line}");
        manager.status(&line);
        // While the scheduler is active, no boost escapes a quota. Without the scheduler, the
        // policy refuses boosts that would escape a quota.
        self.followers.poll_quotas(&mut self.vms);
        self.rt.reevaluate();
    }

    /// Logs vCPU threads and control groups that got no record. The number of these lines is
    /// limited, because any user who may run VMs or create groups can cause them.
    pub fn look_at_refusals(&mut self) {
        let (refused, groups) = (self.sensor.refusals(), self.sensor.unrecorded());
        let more = groups.full > self.unrecorded.full || groups.deep > self.unrecorded.deep;
        let lines = [
            refusals(refused).filter(|_| refused != self.refused),
            unrecorded(groups).filter(|_| more),
        ];
        let has_line = lines.iter().any(Option::is_some);
        if has_line && !self.log.allow_next() {
            // A later call will log the state as it is then.
            return;
        }
        for line in lines.into_iter().flatten() {
            warn!("{line}");
        }
        (self.refused, self.unrecorded) = (refused, groups);
    }

    pub fn use_perf(&mut self, perf: &PerfSettings) {
        self.performance.look(&self.sensor, perf, Path::new("/"));
        if perf.import && self.scheduler == State::Running {
            self.imports.look(&self.sensor, &mut self.clamps, &self.proc_root);
        }
    }

    /// Restores the clamps that threads had set in the kernel, and removes the clamps of paracord's
    /// scheduler that were imported from them.
    pub fn end_imports(&mut self, run_dir: &Path) {
        self.imports.forget(&self.sensor, &mut self.clamps);
        end_imports(run_dir, &self.proc_root);
    }

    /// Sets up threads that are new, and forgets threads that are gone. Returns true if some
    /// threads that are gone cannot be forgotten yet, because the actuator still holds their
    /// boosts. The caller must then call again soon.
    pub fn scan(&mut self, settings: &Settings) -> bool {
        let mut pass = Scan::default();
        while let Some(change) = self.vms.scan(&mut pass, settings) {
            self.followers.follow(change, &self.vms, settings);
        }
        pass.again()
    }

    /// Looks for VMM threads that are not vCPUs.
    pub fn poll_io(&mut self, settings: &Settings) {
        let changes = self.vms.poll_io();
        self.followers.follow_all(changes, &self.vms, settings);
    }

    /// Looks for such threads in VMMs that have just made threads.
    pub fn poll_new_threads(&mut self, settings: &Settings) {
        let changes = self.vms.poll_new_threads();
        self.followers.follow_all(changes, &self.vms, settings);
    }

    /// Checks whether guest drivers have come or gone.
    pub fn poll_regions(&mut self, settings: &Settings) {
        let changes = self.vms.poll_regions(settings);
        self.followers.follow_all(changes, &self.vms, settings);
        self.followers.poll(&self.vms);
    }

    /// Applies `settings` to the VMs after the configuration was read again.
    pub fn reload_vms(&mut self, settings: &Settings) {
        let changes = self.vms.reload(settings);
        self.followers.follow_all(changes, &self.vms, settings);
    }

    /// Applies `settings` to the VMs after a command has changed them.
    pub fn apply_settings(&mut self, settings: &Settings) {
        let changes = self.vms.apply(settings);
        self.followers.follow_all(changes, &self.vms, settings);
    }

    /// Overrides keys of one VM, until the next reload.
    pub fn set_vm(
        &mut self,
        who: &str,
        overrides: Vec<Override>,
        settings: &Settings,
    ) -> Result<(), CommandError> {
        let changes = self.vms.set_vm(who, overrides, settings)?;
        self.followers.follow_all(changes, &self.vms, settings);
        Ok(())
    }

    /// Places vCPUs that are not placed as they should be, for example new vCPUs, and tells their
    /// guests the new places.
    pub fn follow_places(&mut self, settings: &Settings) {
        let changed = self.places.follow(self.vms.threads(), |vm| settings.place(vm.who()));
        if !changed.is_empty() {
            self.tell_places(&changed);
        }
    }

    /// Tells the guests of the VMs in `changed` where their vCPUs are placed now.
    pub fn tell_places(&mut self, changed: &[VmThreads]) {
        let pids = changed.iter().map(|vm| vm.process.0);
        self.followers.tell_places(self.places.hints(), pids, &self.vms);
    }

    /// Restores every thread, informs the guests, and detaches the sensor.
    pub fn stop(self) {
        let Running { rt, vms, mut followers, mut places, sensor, .. } = self;
        drop(rt);
        places.restore_all();
        followers.tell_places(places.hints(), vms.iter().map(|vm| vm.identity.pid), &vms);
        followers.refresh_lines(vms.iter());
        drop(followers);
        drop(vms);
        drop(sensor);
    }
}

/// The daemon's state in one line.
pub(super) fn watching(effect: Effect) -> String {
    format!("watching VMs, actuator {}", effect.name())
}

/// Restores the clamps that threads had set in the kernel.
pub(super) fn end_imports(run_dir: &Path, proc_root: &Path) {
    if imports::exist(run_dir) {
        let mut report = RestoreReport::default();
        imports::give_back(run_dir, proc_root, &mut report);
        info!("{} threads have again the clamps that they asked the kernel for", report.clamps);
        for failure in report.failed {
            warn!("not restored: {failure}");
        }
    }
}
