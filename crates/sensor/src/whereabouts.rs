// SPDX-License-Identifier: GPL-2.0-only
//! Where vCPUs run, and how fast their CPUs are (bpf/whereabouts.h).

use paracord_policy::{PC_WHERE_MAX, pc_where, pc_where_one};

use crate::{Error, Sensor, object::run};

const PROGRAM: &str = "sensor_where";

/// Where one vCPU runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// Host CPU that the vCPU runs on or ran on last.
    pub cpu: u32,
    /// Frequency of this CPU relative to its highest frequency, 1..=1024. 0: the kernel does not
    /// report the frequency.
    pub frequency: u32,
    /// Time that the thread has spent waiting for a CPU so far.
    pub waited_ns: u64,
}

impl Sensor {
    /// Calls `found` with the whereabouts of each of these vCPUs.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel refused the program when the sensor was loaded, or refuses to
    /// run it now.
    pub fn whereabouts(
        &self,
        indices: &[u32],
        mut found: impl FnMut(u32, Whereabouts),
    ) -> Result<(), Error> {
        let program = self.program(PROGRAM)?;
        for some in indices.chunks(PC_WHERE_MAX as usize) {
            let mut call = pc_where {
                count: some.len() as u32,
                invariance_key: self.invariance_key,
                ..pc_where::default()
            };
            for (one, index) in call.of.iter_mut().zip(some) {
                *one = pc_where_one { vcpu: *index, ..pc_where_one::default() };
            }
            run(&program, PROGRAM, &mut call)?;
            for one in &call.of[..some.len()] {
                let place = Whereabouts {
                    cpu: one.cpu,
                    frequency: one.frequency,
                    waited_ns: one.waited_ns,
                };
                found(one.vcpu, place);
            }
        }
        Ok(())
    }
}
