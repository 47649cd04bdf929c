// SPDX-License-Identifier: GPL-2.0-only
//! Hands active boosts over when paracord's scheduler is loaded or unloaded, so that no boost is
//! lost.

use std::sync::atomic::Ordering;

use paracord_sys::sched;

use super::stats::bump;
use super::{Actuator, Held, VcpuTable};
use crate::boosts::journal::{ENTRIES, Entry, Restored};
use crate::boosts::thread::Level;

/// The level of the boost that a thread has now.
fn level_now(entry: &Entry) -> Level {
    match sched::get(entry.thread.tid) {
        Ok(now) if now.priority == entry.boost_priority => Level::Full,
        _ => Level::Interrupt,
    }
}

impl Actuator {
    /// Turns the active real-time boosts into boosts by the scheduler. All later boosts also take
    /// effect in the scheduler. The scheduler must be active. Because the scheduler itself follows
    /// the performance requests of guests, vCPU threads get their own clamps back. Calls `changed`
    /// with each index whose boost has ended.
    pub fn scheduler_came(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        self.stats.in_scheduler.store(true, Ordering::Relaxed);
        for index in 0..ENTRIES {
            self.end_request(table, index);
            let Some(held @ Held::Realtime(entry)) = self.boosted[index as usize] else { continue };
            // The boost is over, but the thread could not be restored: the next tick tries again.
            if self.owed[index as usize] {
                continue;
            }
            let tid = entry.thread.tid;
            if table.live_thread(index).is_none_or(|thread| thread.tid != tid) {
                bump(&self.stats.gone);
                self.clear(index, held);
                changed(index);
                continue;
            }
            let level = level_now(&entry);
            match entry.restore() {
                Ok(Restored::Done) => {
                    self.journal.disarm(index);
                    self.boosted[index as usize] = Some(Held::Scheduler { tid, level });
                }
                // The thread is calling execve(2), see `unboost`.
                Ok(Restored::Gone) => self.owed[index as usize] = true,
                Ok(Restored::NotOurs) => {
                    bump(&self.stats.changed_by_others);
                    self.clear(index, held);
                    changed(index);
                }
                // The thread could not be restored: it stays real-time until its boost ends.
                Err(error) => self.stats.failed(&error),
            }
        }
        self.count_requests();
    }

    /// Turns the active boosts into real-time boosts. All later boosts take effect in the actuator.
    /// To be called when the scheduler has been unloaded or is about to be unloaded. Calls
    /// `changed` with each index whose boost has ended.
    pub fn scheduler_gone(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        self.stats.in_scheduler.store(false, Ordering::Relaxed);
        for index in 0..ENTRIES {
            if let Some(held @ Held::Scheduler { tid, level }) = self.boosted[index as usize] {
                self.clear(index, held);
                if !self.boost(table, index, tid, level) {
                    changed(index);
                }
            }
        }
    }
}
