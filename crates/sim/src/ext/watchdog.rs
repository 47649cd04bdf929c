// SPDX-License-Identifier: GPL-2.0-only
//! The watchdog unloads the scheduler if a task waits too long: `scx_watchdog_workfn()`,
//! `check_rq_for_timeouts()`.

use super::{exit::eject, flags};
use crate::kernel::{Class, Event, Kernel, State};
use crate::time::NS_PER_MS;

pub fn arm(k: &mut Kernel) {
    k.events.push(k.now + k.ext.timeout_ns / 2, Event::Watchdog);
}

pub fn look(k: &mut Kernel) {
    let (now, timeout_ns) = (k.now, k.ext.timeout_ns);
    let stalled = (k.machine.cpus..k.tasks.len()).find(|id| {
        let task = &k.tasks[*id];
        let waits = task.on_rq && k.rqs[task.cpu].curr != *id;
        waits
            && task.state == State::Runnable
            && task.class() == Class::Normal
            && now - task.ext.runnable_at > timeout_ns
    });
    if let Some(task) = stalled {
        let waited_ms = (now - k.tasks[task].ext.runnable_at) / NS_PER_MS;
        let name = k.tasks[task].name.clone();
        eject(k, flags::EXIT_ERROR_STALL, &format!("{name} failed to run for {waited_ms} ms"));
        return;
    }
    arm(k);
}
