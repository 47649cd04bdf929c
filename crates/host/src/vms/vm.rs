// SPDX-License-Identifier: GPL-2.0-only
//! One VM, and the setup of its threads that the sensor gets.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::sync::Arc;

use paracord_abi::{GuestDriver, PMU_GUEST_OFFSET, feature_names, layout};
use paracord_policy::{PC_REFUSED_ALL, pc_vcpu_setup};
use paracord_sensor::{Life, Sensor};
use tracing::{info, warn};

use crate::boosts::actuator::Effect;
use crate::config::Override;
use crate::counters::VmCounters;
use crate::log_limit::LogLimit;
use crate::quotas::{self, Quotas};
use crate::regions::region::Region;
use crate::settings::{BoostConfig, Mode};
use crate::snapshot::IoTotals;
use crate::vms::identity::Identity;

/// Shortest guest line, in bytes, that contains the guest's performance request.
const LINE_WITH_REQUEST_BYTES: usize =
    offset_of!(layout::paracord_guest_line, perf_limit) + size_of::<u16>();

/// One VM.
#[derive(Debug)]
pub struct Vm {
    /// Identity of the VM.
    pub identity: Identity,
    /// Index of the VM's record in the sensor.
    pub index: u32,
    /// Configuration in force.
    pub config: BoostConfig,
    /// The region that the VM maps.
    pub region: Option<Arc<Region>>,
    /// Why a region that the VM maps is not used.
    pub region_refused: Option<String>,
    /// The last declaration of the guest's driver.
    pub driver: Option<GuestDriver>,
    /// Counters of the VM, if the daemon serves them.
    pub counters: Option<VmCounters>,
    /// vCPU index to KVM vcpu_id.
    pub vcpus: BTreeMap<u32, u32>,
    /// Totals of the VMM threads that were not vCPUs and have ended.
    pub io_gone: IoTotals,
    pub(super) overrides: Vec<Override>,
    pub(super) log: LogLimit,
}

impl Vm {
    pub(super) fn write_config(&self, record: &paracord_sensor::Vm<'_>) {
        let (vcpus, io_threads) = self.config.of_threads();
        record.set_config(vcpus, io_threads);
    }

    /// The setup of one of the vCPUs for the sensor.
    pub(super) fn setup_of(&self, vcpu_id: u32, index: u32, quotas: &Quotas) -> pc_vcpu_setup {
        let (slot_hva, line_bytes, features) = match self.driver.zip(self.region.as_ref()) {
            Some((driver, region)) => {
                (region.slot_hva(vcpu_id).unwrap_or(0), driver.line_bytes, driver.features)
            }
            None => (0, 0, 0),
        };
        let accepts = |feature| features & feature != 0;
        let guest_requests = accepts(layout::PARACORD_F_PERF_REQUEST)
            && line_bytes as usize >= LINE_WITH_REQUEST_BYTES
            && self.config.guest_requests
            && self.config.mode == Mode::On;
        pc_vcpu_setup {
            vm: self.index,
            hints_at_exit: self.config.hints_at_exit.into(),
            slot_hva,
            guest_line_bytes: if accepts(layout::PARACORD_F_BOOST) { line_bytes } else { 0 },
            guest_features: features,
            guest_requests: guest_requests.into(),
            refused: quotas.refused(index).bits(),
            asked_hva: self.asked_hva(vcpu_id).unwrap_or(0),
            reserve: quotas.reserve_of(index),
            io: 0,
        }
    }

    /// The setup of a VMM thread that is not a vCPU for the sensor.
    pub(super) fn io_setup(&self, index: u32, quotas: &Quotas) -> pc_vcpu_setup {
        let refused = if self.config.io { quotas.refused(index).bits() } else { PC_REFUSED_ALL };
        let reserve = quotas.reserve_of(index);
        pc_vcpu_setup { vm: self.index, refused, reserve, io: 1, ..pc_vcpu_setup::default() }
    }

    pub(super) fn quota_line(&self, quotas: &Quotas, effect: Effect) -> Option<String> {
        let of =
            |(&index, &vcpu_id): (&u32, &u32)| Some((vcpu_id, quotas.refusal_of(index, effect)?));
        quotas::line(self.vcpus.iter().filter_map(of))
    }

    /// Address in the VMM at which the guest of a vCPU shows that it has made a request to its
    /// counters.
    fn asked_hva(&self, vcpu_id: u32) -> Option<u64> {
        // The guest makes requests before its driver declares anything, so `driver` does not
        // matter.
        let (_, region) = self.counters.as_ref().zip(self.region.as_ref())?;
        region.slot_hva(vcpu_id)?.checked_add(PMU_GUEST_OFFSET as u64)
    }

    /// Reads the declaration of the guest's driver. Returns true if it has changed.
    pub(super) fn read_driver(&mut self) -> bool {
        let Some(region) = &self.region else { return false };
        let (driver, refused) = match region.guest_driver() {
            Ok(driver) => (driver, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let changed = driver != self.driver || refused != self.region_refused;
        // A guest can load and unload its driver, or write garbage, all day: limit the log.
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

/// Writes the setups of all ready vCPUs of a VM to the sensor.
pub(super) fn write_setups(sensor: &Sensor, quotas: &Quotas, vm: &Vm) {
    for (&index, &vcpu_id) in &vm.vcpus {
        if let Some(vcpu) = sensor.vcpus().get(index).filter(|v| v.life() == Life::Ready) {
            vcpu.set_setup(vm.setup_of(vcpu_id, index, quotas));
        }
    }
}
