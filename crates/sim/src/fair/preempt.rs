// SPDX-License-Identifier: GPL-2.0-only
//! Wakeup preemption: whether a task that wakes preempts the running task.

use crate::{
    kernel::fair_state::{EntityId, Fair},
    mix::Policy,
};

impl Fair {
    /// `wakeup_preempt_fair()`: whether the CPU must select a task. `fork`: the task is new. Groups
    /// with `cpu.idle` matter here only by their weight.
    ///
    /// NEXT_BUDDY is left out, because it is off since 7.0, and with it the only use of WF_SYNC
    /// here. PREEMPT_SHORT is left out, because no task has a slice of its own.
    pub fn wakeup_preempts(
        &mut self,
        curr: EntityId,
        woken: EntityId,
        policy: Policy,
        fork: bool,
    ) -> bool {
        if curr == woken || self.entities[woken].throttled {
            return false;
        }
        let (curr_idle, woken_idle) = (self.entities[curr].idle, self.entities[woken].idle);
        if curr_idle && !woken_idle {
            self.unprotect(curr);
            return true;
        }
        let cpu = self.cpu_of(curr);
        let may = curr_idle == woken_idle
            && policy == Policy::Other
            && !fork
            && !self.entities[woken].delayed;
        if may && self.pick_next(cpu) == Some(woken) {
            self.unprotect(curr);
            return true;
        }
        self.update_protection(cpu, curr);
        false
    }
}
