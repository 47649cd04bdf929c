// SPDX-License-Identifier: GPL-2.0-only
//! Performance requests of guests, which become clamps of the vCPU threads.

use std::sync::atomic::Ordering;

use super::stats::{Effect, bump};
use super::{Actuator, VcpuTable};
use crate::boosts::uclamp::{Asked, Uclamps};

impl Actuator {
    /// Handles a guest's performance request for vCPU `index`. The guest asks for at least
    /// `request` and at most `limit` (0: no limit).
    pub fn ask(&mut self, table: &impl VcpuTable, index: u32, tid: u32, request: u32, limit: u32) {
        let live = || table.live_thread(index).filter(|thread| thread.tid == tid);
        let Some((uclamps, thread)) = self.uclamps.as_mut().zip(live()) else { return };
        // If the scheduler is active, ignore this request: it was sent before the scheduler became
        // active.
        if self.stats.lacks_clamps() || self.stats.effect() == Effect::Scheduler {
            return;
        }
        let result = uclamps.ask(index, thread, request, limit);
        // If the thread ended between the check and the call, its tid may name another thread by
        // now: undo the change.
        if matches!(result, Ok(Asked::InForce)) && live().is_none() {
            let _ = uclamps.release(index);
        }
        self.count_requests();
        match result {
            Ok(_) => bump(&self.stats.requests),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.stats.no_clamps.store(true, Ordering::Relaxed);
            }
            Err(error) => self.stats.failed(&error),
        }
    }

    pub(super) fn count_requests(&self) {
        let count = self.uclamps.as_ref().map_or(0, Uclamps::count);
        self.stats.requests_now.store(count as u32, Ordering::Relaxed);
    }

    pub(super) fn end_request(&mut self, table: &impl VcpuTable, index: u32) {
        let Some(uclamps) = &mut self.uclamps else { return };
        match table.live_thread(index) {
            Some(thread) if uclamps.is_of(index, thread) => {
                if let Err(error) = uclamps.release(index) {
                    self.stats.failed(&error);
                }
            }
            _ => uclamps.forget(index),
        }
    }
}
