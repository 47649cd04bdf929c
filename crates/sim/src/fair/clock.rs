// SPDX-License-Identifier: GPL-2.0-only
//! The clocks of the CPUs, as the model reads them.

use crate::kernel::{Kernel, fair_state::RqClock};

/// Reads the clocks of a CPU.
pub fn look_at_clock(k: &mut Kernel, cpu: usize) {
    k.update_rq_clock(cpu);
    let clock = RqClock {
        now: k.now,
        task: k.clock_task(cpu),
        pelt: k.native.rq_struct(cpu).clock_pelt.get(),
    };
    k.fair.clocks[cpu] = clock;
}

/// Reads the clocks of all CPUs, after charging their running tasks.
pub fn all_clocks(k: &mut Kernel) {
    for cpu in 0..k.machine.cpus {
        k.update_curr(cpu);
        look_at_clock(k, cpu);
    }
}
