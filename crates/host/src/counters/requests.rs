// SPDX-License-Identifier: GPL-2.0-only
//! Where a guest's requests for the counters of a vCPU come from, and where the answers go.

use std::io;
use std::sync::Arc;

use paracord_abi::{PMU_GUEST_BYTES, PMU_HOST_BYTES};
use paracord_sensor::Sensor;

use crate::regions::region::Region;

/// The requests and answers of a vCPU.
pub enum Requests {
    /// Requests and answers are in the file of a region.
    File {
        /// The region.
        region: Arc<Region>,
        /// The slot in the region.
        vcpu_id: u32,
    },
    /// Requests and answers are in the guest's own memory. The sensor copies the requests, and
    /// writes the answers (bpf/pmu_mail.h).
    Memory {
        /// The sensor.
        sensor: Arc<Sensor>,
        /// Index of the vCPU.
        index: u32,
    },
}

impl Requests {
    /// Returns a copy of the guest's last batch of requests. `None` if no batch is known.
    ///
    /// # Errors
    /// As [`Region::read_asks`].
    pub fn read(&self) -> io::Result<Option<[u8; PMU_GUEST_BYTES]>> {
        match self {
            Requests::File { region, vcpu_id } => region.read_asks(*vcpu_id).map(Some),
            Requests::Memory { sensor, index } => Ok(sensor.pmu_mails().batch(*index)),
        }
    }

    /// Writes an answer.
    ///
    /// # Errors
    /// As [`Region::write_answer`].
    pub fn answer(&self, answer: &[u8; PMU_HOST_BYTES]) -> io::Result<()> {
        match self {
            Requests::File { region, vcpu_id } => region.write_answer(*vcpu_id, answer),
            Requests::Memory { sensor, index } => {
                sensor.pmu_mails().answer(*index, answer);
                Ok(())
            }
        }
    }
}
