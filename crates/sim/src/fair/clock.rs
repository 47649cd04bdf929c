// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs' clocks as the model sees them.

use crate::kernel::{Kernel, fair_state::RqClock};

/// The CPU's clocks are those of now.
pub fn look_at_clock(k: &mut Kernel, cpu: usize) {
    k.update_rq_clock(cpu);
    let clock = RqClock {
        now: k.now,
        task: k.clock_task(cpu),
        pelt: k.native.rq_struct(cpu).clock_pelt.get(),
    };
    k.fair.clocks[cpu] = clock;
}

/// The clocks of all CPUs are those of now, and what runs there has been accounted.
pub fn all_clocks(k: &mut Kernel) {
    for cpu in 0..k.machine.cpus {
        k.update_curr(cpu);
        look_at_clock(k, cpu);
    }
}
