// SPDX-License-Identifier: GPL-2.0-only
//! Executes the requests of clients of the control socket, and the reload that SIGHUP requests.
//! Requests are executed nowhere else.

use std::collections::BTreeMap;

use paracord_sensor::scheduler::State;
use paracord_sys::clock::now_ns;
use serde::Serialize;
use serde_json::{Value, json};

use super::running::Running;
use super::{Daemon, ReadConfig, Surroundings};
use crate::command_error::CommandError;
use crate::config::{Override, parse_override};
use crate::control::Request;
use crate::handle::Message;
use crate::observe::{Parts, snapshot};
use crate::place::{PlaceOrder, PlaceReport, Placement};
use crate::scheduler::clamp_order::{Clamp, ClampOrder, ClampReport};
use crate::settings::{Mode, Settings};
use crate::snapshot::{SNAPSHOT_SCHEMA, Snapshot};

impl Daemon {
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
            running.reload_vms(&self.settings);
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

    /// Reads the configuration file again, and uses it. Returns a note for the requester, which may
    /// be empty.
    pub(super) fn reload(
        &mut self,
        surroundings: &mut Surroundings,
    ) -> Result<String, CommandError> {
        surroundings.manager.reloading();
        let result = self.read_again(&mut *surroundings.reload);
        surroundings.manager.reloaded();
        result
    }

    fn read_again(&mut self, read: &mut ReadConfig) -> Result<String, CommandError> {
        let read = read().map_err(CommandError::Invalid)?;
        self.use_settings(read.settings)?;
        Ok(read.note)
    }

    /// Answers a message. Returns false if the daemon must end. It is not an error if the requester
    /// is gone.
    pub(super) fn answer(&mut self, message: Message, surroundings: &mut Surroundings) -> bool {
        match message {
            Message::Snapshot(answer) => drop(answer.send(Box::new(self.snapshot()))),
            Message::Request(request, answer) => {
                let ends = request == Request::Stop {};
                drop(answer.send(self.carry_out(request, surroundings)));
                return !ends;
            }
        }
        true
    }

    fn carry_out(
        &mut self,
        request: Request,
        surroundings: &mut Surroundings,
    ) -> Result<Value, CommandError> {
        match request {
            Request::Status {} => Ok(json(self.snapshot())),
            Request::Reload {} => self.reload(surroundings).map(|note| json!({ "note": note })),
            Request::Mode { mode } => {
                self.set_mode(mode);
                Ok(Value::Null)
            }
            Request::VmSet { vm, set } => self.set_vm(vm, &set).map(json),
            Request::ClampSet { target, min, max } => {
                let none = Clamp::NONE;
                let clamp = Clamp { min: min.unwrap_or(none.min), max: max.unwrap_or(none.max) };
                self.clamp(ClampOrder::Set(target, clamp)).map(json)
            }
            Request::ClampGet { target } => self.clamp(ClampOrder::Get(target)).map(json),
            Request::ClampList {} => self.clamp(ClampOrder::List).map(json),
            Request::VmPlace { vm, place, mode } => {
                let placement = place.parse::<Placement>();
                let placement = placement.map_err(|e| CommandError::Invalid(e.to_string()))?;
                self.place(&vm, PlaceOrder::Set(placement, mode)).map(json)
            }
            Request::VmPlaceGet { vm } => self.place(&vm, PlaceOrder::Get).map(json),
            Request::VmPlaceClear { vm } => self.place(&vm, PlaceOrder::Clear).map(json),
            Request::Stop {} => Ok(Value::Null),
        }
    }

    fn set_mode(&mut self, mode: Mode) {
        self.settings.mode = mode;
        if let Some(running) = &mut self.running {
            running.apply_settings(&self.settings);
            running.rt.reevaluate();
        }
    }

    fn set_vm(&mut self, vm: String, set: &BTreeMap<String, String>) -> Result<(), CommandError> {
        let overrides = overrides(set)?;
        let Some(running) = &mut self.running else { return Err(CommandError::NoSuchVm(vm)) };
        running.set_vm(&vm, overrides, &self.settings)?;
        running.rt.reevaluate();
        Ok(())
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
        running.tell_places(&[threads]);
        report.map_err(CommandError::Invalid)
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = match &self.running {
            Some(running) => {
                let Running { vms, followers, places, sensor, stats, .. } = running;
                let settings = &self.settings;
                let parts = Parts { settings, vms, followers, places, sensor, stats };
                snapshot(&self.constants, parts)
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

/// Converts a result to JSON. This cannot fail for the types of results in this file.
fn json(result: impl Serialize) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

/// Parses all overrides, or returns the error for the first invalid one.
fn overrides(set: &BTreeMap<String, String>) -> Result<Vec<Override>, CommandError> {
    let checked = set.iter().map(|(key, value)| parse_override(key, value));
    checked.collect::<Result<_, _>>().map_err(|e| CommandError::Invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_vm_are_taken_all_or_none() {
        let set = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            overrides(&pairs.collect())
        };
        assert_eq!(set(&[("mode", "off"), ("wake.grant_us", "500")]).unwrap().len(), 2);
        for wrong in [("wake.grant_us", "-1"), ("no_such_key", "1"), ("place", "all=auto")] {
            let refusal = set(&[("mode", "off"), wrong]).unwrap_err();
            assert!(
                matches!(&refusal, CommandError::Invalid(line) if line.starts_with(wrong.0)),
                "{refusal}"
            );
        }
    }
}
