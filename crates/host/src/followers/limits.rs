// SPDX-License-Identifier: GPL-2.0-only
//! The CPU limits that control groups set for the existing threads.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::Followers;
use super::setups::Bounds;
use crate::boosts::actuator::Effect;
use crate::quotas::{self, Subject};
use crate::settings::Mode;
use crate::vms::{Vm, Vms};

impl Followers {
    /// Reads the CPU limits of one thread.
    pub(super) fn read_limits(&mut self, thread: Subject) {
        self.quotas.look(self.sensor.reserves(), [thread], Instant::now());
    }

    /// The CPU limits of thread `index`, as last read.
    pub(super) fn bounds(&self, index: u32) -> Bounds {
        let refused = self.quotas.refused(index).bits();
        Bounds { refused, reserve: self.quotas.reserve_of(index) }
    }

    /// Reads the CPU limits of all threads, and passes changes on to the sensor. Returns true if
    /// the limits of any thread have changed. In that case, the caller must make the policy
    /// evaluate every vCPU.
    pub fn poll_quotas(&mut self, vms: &mut Vms) -> bool {
        let now = Instant::now();
        let changed = self.quotas.look(self.sensor.reserves(), vms.all_threads(), now);
        let of_io = changed.iter().filter_map(|one| vms.process_of_io(one.index));
        for pid in of_io.collect::<BTreeSet<u32>>() {
            self.set_up_io(pid, vms);
        }
        let effect = self.stats.effect();
        let mut to_log = Vec::new();
        for vm in vms.iter() {
            let mut ours =
                changed.iter().filter(|one| vm.vcpus.contains_key(&one.index)).peekable();
            if ours.peek().is_none() {
                continue;
            }
            self.set_up_vcpus(vm, vms);
            if ours.any(|one| one.refusal(effect)) {
                to_log.push(vm.identity.pid);
            }
        }
        for pid in to_log {
            // Limit the log: the user who runs the VM may also be the one who sets the quotas.
            let may_log = vms.may_log(pid);
            if let Some(vm) = vms.get(pid).filter(|_| may_log) {
                self.log_limits(vm);
            }
        }
        // The sensor now knows which reserve record each thread has, so unused records can be given
        // back.
        self.quotas.give_back();
        !changed.is_empty()
    }

    fn log_limits(&self, vm: &Vm) {
        match self.limits_of(vm) {
            Some(line) => warn!(vm = vm.identity.name, "not boosted: {line}"),
            None => info!(
                vm = vm.identity.name,
                "no CPU limit any more that boosts would get past: boosted again"
            ),
        }
    }

    /// Interval at which [`refill_reserves`](Followers::refill_reserves) is due. `None` if there is
    /// nothing to refill.
    pub fn refill_interval(&self) -> Option<Duration> {
        self.quotas.refill_interval().filter(|_| self.stats.effect() == Effect::Realtime)
    }

    /// Updates the time that CPU quotas leave for boosts.
    pub fn refill_reserves(&mut self) {
        self.quotas.refill(self.sensor.reserves(), Instant::now());
    }

    /// The CPU limit of thread `index`, and whether the limit keeps the thread from being boosted.
    pub fn quota_of(&self, vm: &Vm, index: u32) -> (Option<String>, bool) {
        let quota = self.quotas.of(index).map(str::to_owned);
        let effect = self.stats.effect();
        let not_boosted = self.quotas.refused(index).binds(effect) && vm.config.mode == Mode::On;
        (quota, not_boosted)
    }

    /// Describes in one line the vCPUs of a VM that are not boosted because of their CPU limits.
    pub fn not_boosted(&self, vm: &Vm) -> Option<String> {
        (vm.config.mode == Mode::On).then(|| self.limits_of(vm)).flatten()
    }

    fn limits_of(&self, vm: &Vm) -> Option<String> {
        let effect = self.stats.effect();
        let of = |(&index, &vcpu_id): (&u32, &u32)| {
            Some((vcpu_id, self.quotas.refusal_of(index, effect)?))
        };
        quotas::line(vm.vcpus.iter().filter_map(of))
    }
}
