// SPDX-License-Identifier: GPL-2.0-only
//! Starts the rest of the daemon after KVM and the sensor have been loaded.

use std::path::PathBuf;
use std::sync::Arc;

use paracord_sensor::scheduler::{State, Unrecorded};
use paracord_sensor::{Refusals, Sensor};
use tracing::warn;

use super::Surroundings;
use super::error::{DaemonError, system};
use super::running::Running;
use crate::boosts::actuator::Actuator;
use crate::boosts::journal::Journal;
use crate::boosts::rt_thread::RtThread;
use crate::boosts::sensor_table::SensorTable;
use crate::boosts::uclamp::Uclamps;
use crate::counters::Counters;
use crate::followers::Followers;
use crate::ivshmem::Ivshmem;
use crate::log_limit::LogLimit;
use crate::place::{PlaceJournal, Places};
use crate::regions::host_lines::HostLines;
use crate::run_dir::uclamp_path;
use crate::scheduler::Choice;
use crate::scheduler::clamps::Clamps;
use crate::scheduler::imports::Imports;
use crate::scheduler::performance::Performance;
use crate::settings::Settings;
use crate::supervisor::lock_memory;
use crate::vms::Vms;

impl Running {
    /// Starts the daemon's threads, and finds the VMs that are already running.
    pub fn start(
        settings: &Settings,
        journal: &Arc<Journal>,
        surroundings: &mut Surroundings,
        sensor: Arc<Sensor>,
        choice: Choice,
    ) -> Result<Running, DaemonError> {
        let proc_root = surroundings.proc_root.clone();
        let scheduler = sensor.scheduler();
        let table = Arc::new(SensorTable::new(Arc::clone(&sensor)));
        let mut actuator = Actuator::new(Arc::clone(journal), settings.rt.vcpu_priority);
        if scheduler == State::Running {
            actuator = actuator.with_scheduler();
            sensor.set_own_boosts(true);
        }
        let uclamps = uclamp_path(&settings.run_dir);
        actuator = actuator.with_uclamps(Uclamps::open(&uclamps, &proc_root)?);
        let placements = PlaceJournal::open(&settings.run_dir, &proc_root)?
            .ok_or_else(|| DaemonError::NoJournal(settings.run_dir.clone()))?;
        let stats = actuator.stats();
        let rt = RtThread::start(Arc::clone(&sensor), Arc::clone(&table), actuator, &settings.rt)
            .map_err(system("real-time thread (needs CAP_SYS_NICE)"))?;
        let host_lines =
            HostLines::start(Arc::clone(&sensor), Arc::clone(&stats), Arc::clone(rt.shared()))
                .map_err(system("host line thread"))?;
        let ivshmem = Ivshmem::start(&settings.run_dir, &settings.region_dir, &proc_root)
            .inspect_err(|error| warn!("guests have no interrupts for samples: {error}"))
            .ok();
        let counters = Counters::new(Arc::clone(&sensor), ivshmem, settings.rt.actuator_priority);
        let vms = Vms::new(Arc::clone(&sensor), table, Arc::clone(&stats), proc_root.clone());
        let followers = Followers::new(
            Arc::clone(&sensor),
            Arc::clone(&stats),
            host_lines,
            counters,
            proc_root.clone(),
        );
        let places = Places::new(Arc::new(placements), proc_root.clone(), PathBuf::from("/"));
        let mut running = Running {
            // A scheduler that has already ended counts as running here, so that the first check
            // reports its end.
            scheduler: if scheduler == State::Absent { scheduler } else { State::Running },
            clamps: Clamps::default(),
            performance: Performance::default(),
            imports: Imports::new(&settings.run_dir),
            proc_root,
            vms,
            followers,
            places,
            rt,
            stats,
            sensor,
            refused: Refusals::default(),
            unrecorded: Unrecorded::default(),
            choice,
            log: LogLimit::default(),
        };
        (surroundings.loaded)(&running.sensor);
        running.scan(settings);
        lock_memory();
        Ok(running)
    }
}
