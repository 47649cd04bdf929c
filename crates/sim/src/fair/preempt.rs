// SPDX-License-Identifier: GPL-2.0-only
//! Whether a task that wakes takes the CPU from the one that runs.

use crate::{
    kernel::fair_state::{EntityId, Fair},
    mix::Policy,
};

impl Fair {
    fn depth(&self, se: EntityId) -> usize {
        std::iter::successors(self.parent(se), |se| self.parent(*se)).count()
    }

    /// `find_matching_se()`: the two entities of one queue that two tasks are in.
    fn matching(&self, mut one: EntityId, mut other: EntityId) -> Option<(EntityId, EntityId)> {
        let (mut depth, mut others) = (self.depth(one), self.depth(other));
        loop {
            if depth == others && self.entities[one].queue == self.entities[other].queue {
                return Some((one, other));
            }
            if depth >= others {
                one = self.parent(one)?;
                depth -= 1;
            }
            if others > depth {
                other = self.parent(other)?;
                others -= 1;
            }
        }
    }

    /// `wakeup_preempt_fair()`: whether the CPU is to look who runs next. `fork`: the task is new.
    ///
    /// Left out: NEXT_BUDDY, which is off since 7.0, and with it the only use of WF_SYNC here; PREEMPT_SHORT, as no
    /// task has a slice of its own; a waker that is not eligible any more, as the pick finds that.
    pub fn wakeup_preempts(
        &mut self,
        curr: EntityId,
        task: EntityId,
        policy: Policy,
        fork: bool,
    ) -> bool {
        if curr == task || self.is_throttled(self.entities[task].queue) {
            return false;
        }
        let Some((curr, woken)) = self.matching(curr, task) else { return false };
        if curr == woken {
            return false;
        }
        let (curr_idle, woken_idle) = (self.entities[curr].idle, self.entities[woken].idle);
        if curr_idle && !woken_idle {
            self.unprotect(curr);
            return true;
        }
        if curr_idle != woken_idle
            || policy != Policy::Other
            || fork
            || self.entities[woken].delayed
        {
            return false;
        }
        self.pick_eevdf(self.entities[curr].queue) == Some(woken)
    }
}
