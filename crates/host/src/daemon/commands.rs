// SPDX-License-Identifier: GPL-2.0-only
//! Carries out what the control socket and SIGHUP ask for.

use paracord_sensor::scheduler::State;
use paracord_sys::clock::now_ns;

use super::Daemon;
use super::running::Running;
use crate::clamps::{ClampOrder, ClampReport};
use crate::command_error::CommandError;
use crate::handle::Command;
use crate::observe::snapshot;
use crate::place::{PlaceOrder, PlaceReport};
use crate::settings::Settings;
use crate::snapshot::{SNAPSHOT_SCHEMA, Snapshot};

impl Daemon {
    pub(super) fn use_settings(&mut self, settings: Settings) -> Result<(), CommandError> {
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
    pub(super) fn command(&mut self, command: Command) -> bool {
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

    pub(super) fn reevaluate(&self) {
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
