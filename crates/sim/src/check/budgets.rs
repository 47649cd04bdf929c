// SPDX-License-Identifier: GPL-2.0-only
//! No vCPU runs boosted for longer than its budget, whatever its guest says.

use crate::{
    kernel::{Kernel, Program, State},
    mix::Ns,
};

/// What a budget may be overrun by per period, as debt that the next one pays: until somebody looks, a tick.
const OVERRUN_NS: Ns = 10_000_000;

pub fn boosted_time(k: &mut Kernel) {
    let config = paracord_policy::defaults();
    for id in k.machine.cpus..k.tasks.len() {
        let task = &k.tasks[id];
        if !matches!(task.program, Program::Guest(_)) || task.state == State::Dead {
            continue;
        }
        let Some(record) = k.native.vcpu_index(id).and_then(|index| k.native.vcpu_record(index))
        else {
            continue;
        };
        let periods = (k.now - task.start_ns) / config.period_ns + 1;
        let most = periods * config.vcpu_budget_ns + OVERRUN_NS;
        let boosted = record.counters.boosted_ns;
        if boosted > most {
            let name = task.name.clone();
            k.fault(format!("{name} has run boosted for {boosted} ns, its budget allows {most}"));
        }
    }
}
