// SPDX-License-Identifier: GPL-2.0-only
//! Decides which mechanisms of the performance policy are active on which CPU. The decision depends
//! on the host's frequency governors and energy model. Both may change or appear later.

use std::path::Path;

use paracord_sensor::{Sensor, scheduler::State};
use tracing::info;

use crate::machine::energy::{self, EnergyError, Model};
use crate::machine::governors;
use crate::settings::PerfSettings;

/// What was found and logged so far.
#[derive(Default)]
pub struct Performance {
    model: Option<Model>,
    told: Option<EnergyError>,
    told_governors: String,
}

impl Performance {
    /// Reads the host's files below `root` (`/`) and configures the scheduler. Does nothing if the
    /// scheduler does not run.
    pub fn look(&mut self, sensor: &Sensor, perf: &PerfSettings, root: &Path) {
        if sensor.scheduler() != State::Running {
            return;
        }
        let policies = governors::policies(&root.join("sys"));
        if perf.requests {
            self.tell_governors(governors::summary(&policies));
        }
        let listening = governors::listening(&policies);
        // Placement adds up the requests of tasks, so it works only if requests are on.
        if perf.placement && perf.requests && !listening.is_empty() && self.model.is_none() {
            self.read_model(sensor, root);
        }
        let places = |model: &Model| (0..model.energy.cpus).all(|cpu| listening.contains_key(&cpu));
        let placing = perf.placement && self.model.as_ref().is_some_and(places);
        sensor.set_perf_features(|cpu| perf.features(listening.get(&cpu).copied(), placing));
    }

    fn tell_governors(&mut self, line: String) {
        if self.told_governors != line {
            info!("{line}");
            self.told_governors = line;
        }
    }

    fn read_model(&mut self, sensor: &Sensor, root: &Path) {
        match energy::read(root) {
            Ok(model) => {
                sensor.set_energy(&model.energy, &model.cpus);
                info!(
                    "tasks are placed by the kernel's energy model of {} CPUs",
                    model.energy.cpus
                );
                self.model = Some(model);
            }
            Err(why) if self.told.as_ref() != Some(&why) => {
                if why != EnergyError::Equal {
                    info!("tasks are not placed by energy: {why}");
                }
                self.told = Some(why);
            }
            Err(_) => {}
        }
    }
}
