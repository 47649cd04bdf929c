// SPDX-License-Identifier: GPL-2.0-only
//! Random VMs. They have few vCPUs, because a person reads the file of a failure.

use super::{Drawing, MS, US};
use crate::mix::{Guest, Vm};

impl Drawing {
    pub(super) fn vms(&mut self) {
        let some = self.draw.vms && self.rng.chance(450);
        for kind in 0..if some { self.rng.between(1, 2) } else { 0 } {
            let guest = match self.rng.below(5) {
                0 | 1 => Guest::Spin,
                2 => Guest::Idle,
                3 => Guest::Hold,
                _ => {
                    let period_ns = self.rng.between(2, 40) * MS;
                    let busy_ns = self.rng.between(20, period_ns / 4 / US) * US;
                    Guest::Periodic { period_ns, busy_ns }
                }
            };
            let affinity = self.draw.affinity && self.rng.chance(200);
            let vm = Vm {
                name: format!("vm{kind}"),
                count: u32::try_from(self.rng.between(1, 3)).unwrap_or(1),
                vcpus: u32::try_from(self.rng.between(1, 4)).unwrap_or(1),
                group: self.group(),
                cpus: affinity.then(|| self.affinity()),
                exits_per_s: u32::try_from(self.rng.between(100, 2000)).unwrap_or(1000),
                guest,
            };
            self.mix.vms.push(vm);
        }
    }
}
