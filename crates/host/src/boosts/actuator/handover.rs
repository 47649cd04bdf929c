// SPDX-License-Identifier: GPL-2.0-only
//! Boosts go on while paracord's scheduler comes or goes: none of them is lost.

use std::sync::atomic::Ordering;

use paracord_sys::sched;

use super::stats::bump;
use super::{Actuator, Held, VcpuTable};
use crate::boosts::journal::{ENTRIES, Entry, Restored};
use crate::boosts::thread::Level;

/// How far the boost goes that a thread has.
fn level_now(entry: &Entry) -> Level {
    match sched::get(entry.tid) {
        Ok(now) if now.priority == entry.boost_priority => Level::Full,
        _ => Level::Interrupt,
    }
}

impl Actuator {
    /// The scheduler is in force from now on: boosts go on as its own, and so do all later ones. It follows what guests ask
    /// for by itself.
    /// `changed` is told each index whose boost is none any more.
    pub fn scheduler_came(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        self.stats.in_scheduler.store(true, Ordering::Relaxed);
        for index in 0..ENTRIES {
            self.end_request(table, index);
            let Some(held @ Held::Realtime(entry)) = self.boosted[index as usize] else { continue };
            // Its boost is over: it is given back at the next tick.
            if self.owed[index as usize] {
                continue;
            }
            if table.live_thread(index).is_none_or(|thread| thread.tid != entry.tid) {
                bump(&self.stats.gone);
                self.clear(index, held);
                changed(index);
                continue;
            }
            let level = level_now(&entry);
            match entry.restore() {
                Ok(Restored::Done) => {
                    self.journal.disarm(index);
                    let tid = entry.tid;
                    self.boosted[index as usize] = Some(Held::Scheduler { tid, level });
                }
                Ok(Restored::Gone) => {
                    bump(&self.stats.gone);
                    self.clear(index, held);
                    changed(index);
                }
                Ok(Restored::NotOurs) => {
                    bump(&self.stats.changed_by_others);
                    self.clear(index, held);
                    changed(index);
                }
                // It stays real-time until its boost ends.
                Err(error) => self.stats.failed(&error),
            }
        }
        self.count_requests();
    }

    /// The scheduler is gone: boosts in force go on as real-time ones, and so do all later ones.
    /// `changed` as above.
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
