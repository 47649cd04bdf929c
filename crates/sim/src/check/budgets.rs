// SPDX-License-Identifier: GPL-2.0-only
//! Checks that no vCPU runs boosted for longer than its budget allows, whatever its guest says, and
//! that every CPU keeps time for other tasks. The times are measured by the simulator, not by the
//! policy.

use crate::{
    kernel::{Kernel, Program, State, Task},
    time::Ns,
};

/// How much a vCPU may exceed its budget. The next period pays this debt. The policy checks budgets
/// at ticks. The policy counts from the switch or exit at which it boosts. The simulator counts
/// from the last time at which it charged the task, which is a little earlier.
fn vcpu_overrun_ns(k: &Kernel) -> Ns {
    const MARGIN_NS: Ns = 500_000;
    k.machine.tick_ns() + MARGIN_NS
}

/// How much boosted vCPUs may exceed the budget of a CPU. vCPUs on the same CPU are charged one
/// after the other, each at its own tick or exit, so one may be boosted while the debt of another
/// is not known yet. Random mixes with many vCPUs per CPU reach 9 ms at 250 Hz.
fn cpu_overrun_ns(k: &Kernel) -> Ns {
    const MOST_NS: Ns = 20_000_000;
    (3 * k.machine.tick_ns()).min(MOST_NS)
}

/// Boosted running time per CPU, up to the current budget period.
#[derive(Default)]
pub struct Boosted {
    period: u64,
    by_cpu: Vec<Ns>,
}

/// In each period, boosted vCPUs must not use a CPU's kept share.
pub fn kept_share(k: &mut Kernel, seen: &mut Boosted) {
    let config = paracord_policy::defaults();
    let period = k.now / config.period_ns;
    let overrun_ns = cpu_overrun_ns(k);
    seen.by_cpu.resize(k.machine.cpus, 0);
    if period == seen.period {
        return;
    }
    seen.period = period;
    for cpu in 0..k.machine.cpus {
        let boosted_ns = k.boosted_ns(cpu);
        let boosted = boosted_ns - std::mem::replace(&mut seen.by_cpu[cpu], boosted_ns);
        let most = config.period_ns - config.cpu_kept_ns + overrun_ns;
        if boosted > most {
            k.fault(format!(
                "CPU {cpu} has run boosted vCPUs for {boosted} ns of a period, {most} are allowed"
            ));
        }
    }
}

/// Since its start, a vCPU must not have used more than its budget.
pub fn boosted_time(k: &mut Kernel) {
    let config = paracord_policy::defaults();
    let over = |task: &Task| {
        let Program::Guest(vcpu) = &task.program else { return None };
        let periods = (k.now - task.start_ns) / config.period_ns + 1;
        let most = periods * config.vcpu_budget_ns + vcpu_overrun_ns(k);
        let boosted = vcpu.boosted_ns;
        (task.state != State::Dead && boosted > most).then(|| {
            format!("{} has run boosted for {boosted} ns, its budget allows {most}", task.name)
        })
    };
    let faults: Vec<_> = k.tasks.iter().filter_map(over).collect();
    faults.into_iter().for_each(|fault| k.fault(fault));
}
