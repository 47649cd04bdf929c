// SPDX-License-Identifier: GPL-2.0-only
//! CPU limits of control groups above vCPUs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::vm::write_setups;
use super::{Vm, Vms};
use crate::boosts::actuator::Effect;
use crate::settings::Mode;

impl Vms {
    /// Reads the CPU limits of control groups above vCPUs, and passes changes on to the sensor.
    /// Returns true if the limits of any vCPU have changed: the caller must then have the policy
    /// evaluate every vCPU.
    pub fn poll_quotas(&mut self) -> bool {
        let vcpus = self.sensor.vcpus();
        let vcpus_of = self.by_pid.values().flat_map(|vm| vm.vcpus.keys().copied());
        let indices = vcpus_of.chain(self.io.keys().copied());
        let threads = indices.filter_map(|index| Some((index, vcpus.get(index)?.tid())));
        let changed = self.quotas.look(self.sensor.reserves(), threads, Instant::now());
        let of_io = changed.iter().filter_map(|one| self.io.get(&one.index).map(|io| io.pid));
        let pids: BTreeSet<u32> = of_io.collect();
        for pid in pids {
            self.set_up_io(pid);
        }
        for vm in self.by_pid.values_mut() {
            let mut ours =
                changed.iter().filter(|one| vm.vcpus.contains_key(&one.index)).peekable();
            if ours.peek().is_none() {
                continue;
            }
            write_setups(&self.sensor, &self.quotas, vm);
            // The user who runs the VM may be the one who sets quotas: limit the log.
            let effect = self.stats.effect();
            if ours.any(|one| one.refusal(effect)) && vm.log.allow() {
                match vm.quota_line(&self.quotas, effect) {
                    Some(line) => warn!(vm = vm.identity.name, "not boosted: {line}"),
                    None => info!(
                        vm = vm.identity.name,
                        "no CPU limit any more that boosts would get past: boosted again"
                    ),
                }
            }
        }
        self.quotas.give_back();
        !changed.is_empty()
    }

    /// How often [`refill_reserves`](Vms::refill_reserves) is due. `None` if there is nothing to
    /// do.
    pub fn refill_interval(&self) -> Option<Duration> {
        self.quotas.refill_interval().filter(|_| self.stats.effect() == Effect::Realtime)
    }

    /// Updates the time that CPU quotas leave for boosts.
    pub fn refill_reserves(&mut self) {
        self.quotas.refill(self.sensor.reserves(), Instant::now());
    }

    /// The CPU limit above vCPU `index`, and whether the limit keeps the vCPU from being boosted.
    pub fn quota_of(&self, vm: &Vm, index: u32) -> (Option<String>, bool) {
        let quota = self.quotas.of(index).map(str::to_owned);
        let effect = self.stats.effect();
        let not_boosted = self.quotas.refused(index).binds(effect) && vm.config.mode == Mode::On;
        (quota, not_boosted)
    }

    /// Describes in one line the vCPUs of a VM that are not boosted because of their CPU limits.
    pub fn not_boosted(&self, vm: &Vm) -> Option<String> {
        let is_on = vm.config.mode == Mode::On;
        is_on.then(|| vm.quota_line(&self.quotas, self.stats.effect())).flatten()
    }
}
