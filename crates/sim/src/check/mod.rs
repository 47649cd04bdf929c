// SPDX-License-Identifier: GPL-2.0-only
//! Rules that must hold in every run. They are checked every few milliseconds of simulated time. A
//! check changes nothing.

mod budgets;
mod quotas;
mod sums;
mod waits;

use crate::kernel::Kernel;
use crate::time::NS_PER_US;

pub use waits::EVERY_NS;

/// Maximum number of preemptions on a CPU between two checks: one per four microseconds.
/// Preemptions by wakeups stay below this, because a task that wakes has slept before and runs
/// afterwards.
const PREEMPTIONS_MAX: u64 = EVERY_NS / 4_000;

/// What the checks remember.
#[derive(Default)]
pub struct Seen {
    preemptions: Vec<u64>,
    waits: waits::Waits,
    boosted: budgets::Boosted,
    quotas: quotas::Quotas,
}

/// Makes all checks.
pub fn look(k: &mut Kernel, seen: &mut Seen) {
    waits::look(k, &mut seen.waits);
    nobody_takes_turns_all_the_time(k, seen);
    sums::run_queues(k);
    k.note_mixed_cores();
    quotas::look(k, &mut seen.quotas);
    if k.sensed && k.ext.ended.is_none() {
        budgets::kept_share(k, &mut seen.boosted);
        sums::scheduler(k);
        sums::steps(k);
    }
}

/// Makes the checks for the end of a run.
pub fn look_at_end(k: &mut Kernel) {
    if let Some(ticks) = k.planted.counted_ticks.filter(|ticks| *ticks != crate::bpf::planted()) {
        k.fault(format!("a counter has lost {} of {ticks} updates", ticks - crate::bpf::planted()));
    }
    if k.sensed {
        budgets::boosted_time(k);
        sums::vcpus(k);
    }
}

fn nobody_takes_turns_all_the_time(k: &mut Kernel, seen: &mut Seen) {
    seen.preemptions.resize(k.machine.cpus, 0);
    for cpu in 0..k.machine.cpus {
        let before = std::mem::replace(&mut seen.preemptions[cpu], k.rqs[cpu].preemptions);
        let count = k.rqs[cpu].preemptions - before;
        if count > PREEMPTIONS_MAX {
            let name = k.tasks[k.rqs[cpu].curr].name.clone();
            let us = EVERY_NS / NS_PER_US;
            k.fault(format!("CPU {cpu} has preempted {count} tasks in {us} us, {name} among them"));
        }
    }
}
