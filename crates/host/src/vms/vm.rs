// SPDX-License-Identifier: GPL-2.0-only
//! One VM.

use std::collections::BTreeMap;
use std::sync::Arc;

use paracord_abi::{GuestDriver, feature_names};
use paracord_sensor::{Announced, Capabilities};
use tracing::{info, warn};

use crate::config::Override;
use crate::log_limit::VmLog;
use crate::regions::announced::{AnnouncedRegion, Writes};
use crate::regions::region::Region;
use crate::settings::BoostConfig;
use crate::snapshot::IoTotals;
use crate::vms::identity::Identity;

/// One VM.
#[derive(Debug)]
pub struct Vm {
    /// Identity of the VM.
    pub identity: Identity,
    /// Index of the VM's record in the sensor.
    pub index: u32,
    /// Effective configuration.
    pub config: BoostConfig,
    /// The region that the VM maps.
    pub region: Option<Arc<Region>>,
    /// The region in the guest's own memory, if the VM maps none.
    pub announced: Option<AnnouncedRegion>,
    /// Why a region that the VM maps, or that its guest has announced, is not used.
    pub region_refused: Option<String>,
    /// The last declaration of the guest's driver.
    pub driver: Option<GuestDriver>,
    /// The KVM vcpu_id of each vCPU, by the index of its record.
    pub vcpus: BTreeMap<u32, u32>,
    /// Totals of the ended VMM threads that were not vCPUs.
    pub io_gone: IoTotals,
    pub(super) overrides: Vec<Override>,
    /// The limit on log lines that this VM can cause.
    pub log: VmLog,
    /// Whether the region may have moved, so that the registry must look for it again.
    pub(super) search: bool,
}

impl Vm {
    /// A VM without a region and without vCPUs.
    pub(crate) fn new(identity: Identity, index: u32, config: BoostConfig, log: VmLog) -> Vm {
        Vm {
            identity,
            index,
            config,
            region: None,
            announced: None,
            region_refused: None,
            driver: None,
            vcpus: BTreeMap::new(),
            io_gone: IoTotals::default(),
            overrides: Vec::new(),
            log,
            search: false,
        }
    }

    pub(super) fn write_config(&self, record: &paracord_sensor::Vm<'_>) {
        let (vcpus, io_threads) = self.config.of_threads();
        record.set_config(vcpus, io_threads);
    }

    /// Reads the declaration of the guest's driver. Returns true if it has changed.
    pub(super) fn read_driver(&mut self) -> bool {
        let Some(region) = &self.region else { return false };
        let (driver, refused) = match region.guest_driver() {
            Ok(driver) => (driver, None),
            // Keep the driver: the sensor reads the guest lines in the vCPUs' context, and does not
            // need the file.
            Err(error) if error.is_pause() => return false,
            Err(error) => (None, Some(error.to_string())),
        };
        self.note_driver(driver, refused)
    }

    /// Takes over the guest's last announcement. If the VM maps a region, the mapped region takes
    /// precedence. Returns true if anything has changed.
    ///
    /// `sensor`: what the sensor can do.
    pub(super) fn read_announcement(
        &mut self,
        announced: Option<&Announced>,
        sensor: &Capabilities,
    ) -> bool {
        if self.region.is_some() || !self.config.use_region {
            return self.announced.take().is_some();
        }
        if announced.is_none() && self.announced.is_none() && self.driver.is_none() {
            // Return early, so that the reason why a mapped region is not used is kept.
            return false;
        }
        let lines = sensor.host_lines && self.config.host_line;
        let writes = Writes {
            lines,
            domains: lines && self.config.frequencies,
            answers: lines && self.config.counters && sensor.counters_in_memory,
        };
        let check = |announced| AnnouncedRegion::check(announced, writes);
        let (region, refused) = match announced.map(check).transpose() {
            Ok(region) => (region, None),
            Err(error) => (None, Some(format!("announced by the guest: {error}"))),
        };
        let driver = region.as_ref().and_then(|region| region.driver);
        let moved = region != self.announced;
        self.announced = region;
        self.note_driver(driver, refused) || moved
    }

    /// Whether the sensor writes host lines into the guest's own memory.
    pub fn has_host_line_in_memory(&self) -> bool {
        self.announced.as_ref().is_some_and(|region| region.has_host_line)
    }

    fn note_driver(&mut self, driver: Option<GuestDriver>, refused: Option<String>) -> bool {
        let changed = driver != self.driver || refused != self.region_refused;
        // A guest can load and unload its driver, or write garbage, all day, so limit the log.
        if changed && self.log.allow() {
            match (&driver, &refused) {
                (_, Some(reason)) => {
                    warn!(vm = self.identity.name, "guest driver refused: {reason}")
                }
                (Some(driver), None) => {
                    let features = feature_names(driver.features).join(",");
                    info!(vm = self.identity.name, features, "guest driver present");
                }
                (None, None) => info!(vm = self.identity.name, "guest driver gone"),
            }
        }
        self.driver = driver;
        self.region_refused = refused;
        changed
    }
}
