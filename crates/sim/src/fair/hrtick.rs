// SPDX-License-Identifier: GPL-2.0-only
//! A timer that ends a slice at its virtual deadline. Without the timer, the slice would end at the
//! next tick. (HRTICK is on where the kernel rearms timers when it returns to user mode, as on
//! x86.)
//!
//! Left out: interrupts do not delay this timer.

use crate::kernel::{Event, events::short, fair_state::Fair};

/// `hrtick_start()`: the shortest time for which the timer is set.
const LEAST_NS: i64 = 10_000;
/// `hrtick_needs_rearm()`: the timer is not changed if the difference would be less than this.
const SAME_NS: u64 = 5_000;

impl Fair {
    /// `hrtick_start_fair()`, `hrtick_start()`: sets the timer to the time when the running task
    /// will have used up its request, if other tasks wait.
    pub fn hrtick_start(&mut self, cpu: usize) {
        let Some(task) = self.running(cpu) else { return };
        if self.queues[cpu].h_nr_queued <= 1 {
            return;
        }
        let entity = &self.entities[task];
        let left = entity.deadline - entity.vruntime;
        if left < 0 {
            self.resched.push(cpu);
            return;
        }
        let left_ns = super::weight::running_ns(left, entity.h_weight).max(LEAST_NS);
        let at_ns = self.clocks[cpu].now.saturating_add_signed(left_ns);
        let timeline = &mut self.timelines[cpu];
        if timeline.hrtick_at.is_some_and(|is| is.abs_diff(at_ns) <= SAME_NS) {
            return;
        }
        timeline.hrtick_at = Some(at_ns);
        timeline.hrtick_seq = timeline.hrtick_seq.wrapping_add(1);
        let event = Event::Hrtick { cpu: short(cpu), seq: timeline.hrtick_seq };
        self.due.push((at_ns, event));
    }

    /// `hrtick_update()`: another task has come, so the running task is no longer alone.
    pub fn hrtick_update(&mut self, cpu: usize) {
        if self.timelines[cpu].hrtick_at.is_none() {
            self.hrtick_start(cpu);
        }
    }

    /// The CPU becomes idle (`hrtick_schedule_exit()`).
    pub fn hrtick_cancel(&mut self, cpu: usize) {
        self.timelines[cpu].hrtick_at = None;
    }

    /// `hrtick()`. Returns false if this timer was cancelled.
    pub fn hrtick_fires(&mut self, cpu: usize, seq: u32) -> bool {
        let timeline = &mut self.timelines[cpu];
        timeline.hrtick_seq == seq && timeline.hrtick_at.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{eevdf::machine, weight::NICE_0_LOAD};

    #[test]
    fn a_slice_ends_at_the_virtual_deadline() {
        let (mut fair, tasks) = machine::cpu(&[2 * NICE_0_LOAD, NICE_0_LOAD]);
        fair.set_next(tasks[0], true);
        let at_ns = fair.timelines[0].hrtick_at.expect("a timer");
        assert_eq!(at_ns, 1_400_000);
        machine::passes(&mut fair, at_ns);
        assert_eq!(fair.resched, [0]);
    }

    #[test]
    fn who_is_alone_needs_no_timer() {
        let (mut fair, tasks) = machine::cpu(&[NICE_0_LOAD]);
        fair.set_next(tasks[0], true);
        assert_eq!(fair.timelines[0].hrtick_at, None);
        fair.begin_task(1, 0, NICE_0_LOAD, false);
        fair.enqueue_task(fair.of_task(1), true);
        assert!(fair.timelines[0].hrtick_at.is_some());
    }
}
