// SPDX-License-Identifier: GPL-2.0-only
//! Carries out the policy's decisions. The actuator makes boosted threads real-time (SCHED_RR). If
//! paracord's scheduler has already carried out a decision, the actuator only keeps track of the
//! boost, and only if the sensor reports it.
//!
//! The actuator decides nothing. It takes messages in the order in which the decisions were made,
//! and keeps only the latest message about each vCPU. To carry out a decision, it writes the
//! journal entry and then changes the thread. After [`Actuator::new`], nothing in this module
//! allocates, waits or logs. The reason is that this code runs on the real-time thread, and guests
//! determine how often it runs.

mod handover;
mod message;
mod requests;
mod stats;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paracord_sys::clock::now_ns;
use paracord_sys::sched::{self, SchedAttr, policy};

use crate::boosts::journal::{ENTRIES, Entry, Journal, Restored};
use crate::boosts::thread::Level;
use crate::boosts::uclamp::Uclamps;
use stats::bump;

pub use message::{Action, Message, VcpuTable};
pub use stats::{ActuatorStats, Effect};

/// An active boost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The actuator has made the thread real-time. The entry contains the attributes that the
    /// thread had before, and the priority of the boost.
    Realtime(Entry),
    /// Paracord's scheduler boosts the thread, so there is nothing to restore.
    Scheduler { tid: u32, level: Level },
}

impl Held {
    fn tid(&self) -> u32 {
        match self {
            Held::Realtime(entry) => entry.thread.tid,
            Held::Scheduler { tid, .. } => *tid,
        }
    }
}

/// The actuator, owned by the real-time thread.
#[derive(Debug)]
pub struct Actuator {
    journal: Arc<Journal>,
    uclamps: Option<Uclamps>,
    stats: Arc<ActuatorStats>,
    priority: u32,
    default_slice_ns: u64,
    /// For each vCPU index, the latest message that has not been carried out yet.
    waiting: Vec<Option<Message>>,
    /// Indices that have a waiting message. Each index appears once, the oldest first.
    order: Vec<u32>,
    /// Active boosts, by index.
    boosted: Vec<Option<Held>>,
    /// Marks the indices whose boost is over but whose thread could not be restored. Each tick
    /// tries again.
    owed: Vec<bool>,
    /// The last journal entry of each index. It is kept until a message says that the entry's
    /// thread has ended or has called execve(2). After execve(2), the thread may still be real-time
    /// although its boost counts as ended, because it could not be restored under its former ID.
    last: Vec<Option<Entry>>,
}

impl Actuator {
    /// Creates an actuator that boosts threads to `priority`. To be called on a thread with normal
    /// scheduling, because the actuator takes the slice of that thread as the default slice.
    pub fn new(journal: Arc<Journal>, priority: u32) -> Actuator {
        Actuator {
            journal,
            uclamps: None,
            stats: Arc::new(ActuatorStats::new()),
            priority,
            default_slice_ns: sched::default_slice_ns(),
            waiting: vec![None; ENTRIES as usize],
            order: Vec::with_capacity(ENTRIES as usize),
            boosted: vec![None; ENTRIES as usize],
            owed: vec![false; ENTRIES as usize],
            last: vec![None; ENTRIES as usize],
        }
    }

    /// Returns this actuator, changed so that boosts take effect in paracord's scheduler.
    #[must_use]
    pub fn with_scheduler(self) -> Actuator {
        self.stats.in_scheduler.store(true, Ordering::Relaxed);
        self
    }

    /// Returns this actuator, changed so that it also turns the performance requests of guests into
    /// clamps of the guests' vCPU threads.
    #[must_use]
    pub fn with_uclamps(self, uclamps: Uclamps) -> Actuator {
        Actuator { uclamps: Some(uclamps), ..self }
    }

    /// The counters.
    pub fn stats(&self) -> Arc<ActuatorStats> {
        Arc::clone(&self.stats)
    }

    /// Sets the priority of later boosts. Active boosts keep their priority.
    pub fn set_priority(&mut self, priority: u32) {
        self.priority = priority;
    }

    /// Indices of the threads that are boosted now.
    pub fn boosted_indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0..ENTRIES).filter(|&index| self.boosted[index as usize].is_some())
    }

    /// Whether any thread is boosted.
    pub fn is_active(&self) -> bool {
        self.stats.is_active()
    }

    /// Takes a message. [`carry_out`](Self::carry_out) acts on it, unless a later message about the
    /// same vCPU has replaced it. A message with an index out of range is dropped.
    pub fn take(&mut self, message: Message) {
        let Some(waiting) = self.waiting.get_mut(message.index as usize) else {
            bump(&self.stats.errors);
            return;
        };
        match waiting.replace(message) {
            None => self.order.push(message.index),
            // Only the replaced message contains the ID that the thread has after execve(2), so act
            // on this message now.
            Some(Message { action: Action::Exec, index, tid, .. }) => {
                self.forget_as(index, tid);
            }
            Some(_) => bump(&self.stats.coalesced),
        }
    }

    /// Carries out the waiting messages. Calls `changed` with each index whose boost began or
    /// ended.
    pub fn carry_out(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        for n in 0..self.order.len() {
            let index = self.order[n];
            let Some(message) = self.waiting[index as usize].take() else { continue };
            let acted = match message.action {
                Action::Boost(level) => self.boost(table, index, message.tid, level),
                Action::Unboost => self.unboost(table, index),
                Action::Gone => {
                    self.last[index as usize] = None;
                    self.forget(index)
                }
                Action::Exec => self.forget_as(index, message.tid),
            };
            if acted {
                self.stats.carried_out(now_ns().saturating_sub(message.decided_ns));
                changed(index);
            }
        }
        self.order.clear();
    }

    /// Drops the boosts of threads that have ended, even if no message about their end has arrived.
    /// Also tries again to restore threads that could not be restored before. Calls `changed` with
    /// each index whose boost ended.
    pub fn reconcile(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        for index in 0..ENTRIES {
            let Some(held) = self.boosted[index as usize] else { continue };
            if table.live_thread(index).is_none_or(|thread| thread.tid != held.tid()) {
                self.forget(index);
                changed(index);
            } else if self.owed[index as usize] && self.unboost(table, index) {
                changed(index);
            }
        }
    }

    /// Drops the waiting messages, and restores every thread that is boosted or clamped.
    ///
    /// The journal entry of a thread that is no longer live stays. If that thread has called
    /// execve(2), the supervisor restores it ([`Entry::restore_checked`]).
    pub fn restore_all(&mut self, table: &impl VcpuTable) {
        self.order.clear();
        for index in 0..ENTRIES {
            let waiting = self.waiting[index as usize].take();
            if let Some(Message { action: Action::Exec, tid, .. }) = waiting {
                self.forget_as(index, tid);
            }
            if table.live_thread(index).is_some() {
                self.unboost(table, index);
            }
            self.end_request(table, index);
        }
    }

    fn boost(&mut self, table: &impl VcpuTable, index: u32, tid: u32, level: Level) -> bool {
        let live = || table.live_thread(index).filter(|thread| thread.tid == tid);
        let Some(thread) = live() else {
            bump(&self.stats.gone);
            return false;
        };
        self.owed[index as usize] = false;
        // If the thread is boosted already, there is nothing new to tell the guest.
        match &mut self.boosted[index as usize] {
            Some(Held::Realtime(entry)) => {
                let entry = *entry;
                self.raise(&entry, level);
                return false;
            }
            Some(Held::Scheduler { level: held, .. }) => {
                *held = level.max(*held);
                return false;
            }
            None => {}
        }
        if self.stats.effect() == Effect::Scheduler {
            self.hold(index, Held::Scheduler { tid, level });
            return true;
        }
        // The policy does not boost a refused thread either. So this boost was either decided
        // before the policy knew of the refusal, or it was a boost by the scheduler that
        // `scheduler_gone` would turn into a real-time boost.
        if table.is_refused(index) {
            bump(&self.stats.refused_quota);
            return false;
        }
        // If the entry is armed, it belongs to another thread, which an earlier run changed and
        // which has not been restored yet (leftovers.rs). The entry is the only record of that
        // thread's original attributes, so it must not be overwritten.
        if self.journal.is_armed(index) {
            return false;
        }
        let mut before = match sched::get(thread.tid) {
            Ok(before) => before,
            Err(error) => {
                self.stats.failed(&error);
                return false;
            }
        };
        if before.is_realtime() {
            bump(&self.stats.refused_rt);
            return false;
        }
        // Record the default slice as 0, so that the restored thread uses the default again,
        // instead of a fixed slice.
        if before.runtime_ns == self.default_slice_ns {
            before.runtime_ns = 0;
        }
        let (process, boost_priority) = (table.process(index), self.priority);
        let entry = Entry { thread, process, before, boost_priority };
        self.journal.arm(index, &entry);
        let given = SchedAttr::realtime(policy::RR, entry.priority_at(level));
        if let Err(error) = sched::set(thread.tid, &given) {
            self.journal.disarm(index);
            self.stats.failed(&error);
            return false;
        }
        self.last[index as usize] = Some(entry);
        if live().is_none() {
            // The thread ended between the check and the call, so by now its tid may name another
            // thread. Give that other thread the attributes that were read above.
            let _ = entry.restore();
            self.journal.disarm(index);
            bump(&self.stats.gone);
            return false;
        }
        self.hold(index, Held::Realtime(entry));
        true
    }

    fn hold(&mut self, index: u32, held: Held) {
        self.boosted[index as usize] = Some(held);
        self.stats.began(index);
    }

    /// Raises a boost to `level`. The journal entry covers both priorities, so it does not change.
    fn raise(&self, entry: &Entry, level: Level) {
        let lower = entry.priority_at(Level::Interrupt);
        if level == Level::Interrupt || lower == entry.boost_priority {
            return;
        }
        match sched::get(entry.thread.tid) {
            Ok(now) if now.policy == policy::RR && now.priority == lower => {}
            Ok(_) => return, // raised already, or changed by somebody else
            Err(error) => return self.stats.failed(&error),
        }
        let given = SchedAttr::realtime(policy::RR, entry.boost_priority);
        match sched::set(entry.thread.tid, &given) {
            Ok(()) => bump(&self.stats.raised),
            Err(error) => self.stats.failed(&error),
        }
    }

    fn unboost(&mut self, table: &impl VcpuTable, index: u32) -> bool {
        let Some(held) = self.boosted[index as usize] else { return false };
        if table.live_thread(index).is_none_or(|thread| thread.tid != held.tid()) {
            bump(&self.stats.gone);
            self.clear(index, held);
            return true;
        }
        match self.give_back(&held, held.tid()) {
            // A thread that exits would no longer be live here. So this thread is calling
            // execve(2), and the message about that call is about to arrive.
            Ok(Restored::Gone) => {}
            Ok(Restored::Done | Restored::NotOurs) => {
                self.clear(index, held);
                return true;
            }
            Err(error) => self.stats.failed(&error),
        }
        // The thread is still real-time. Its journal entry stays, because a later attempt needs the
        // attributes that the thread had before.
        self.owed[index as usize] = true;
        false
    }

    /// Restores the attributes that a thread had before its boost. `tid` is the current ID of the
    /// thread.
    fn give_back(&self, held: &Held, tid: u32) -> std::io::Result<Restored> {
        let Held::Realtime(entry) = held else {
            bump(&self.stats.unboosts);
            return Ok(Restored::Done);
        };
        let restored = entry.restore_as(tid)?;
        match restored {
            Restored::Done => bump(&self.stats.unboosts),
            Restored::NotOurs => bump(&self.stats.changed_by_others),
            Restored::Gone => {}
        }
        Ok(restored)
    }

    /// Forgets a thread that has called execve(2). Since that call, the thread has the ID `tid`,
    /// which is the ID of its process.
    fn forget_as(&mut self, index: u32, tid: u32) -> bool {
        let last = self.last[index as usize].take();
        let is_boosted = self.boosted[index as usize].is_some();
        let changed = self.forget(index);
        let Some(entry) = last.filter(|entry| entry.process.pid == tid) else { return changed };
        match self.give_back(&Held::Realtime(entry), tid) {
            // The boost was carried out after the thread had lost its former ID. So the boost
            // changed another thread.
            Ok(Restored::NotOurs) if is_boosted => {
                let _ = entry.restore();
            }
            Ok(_) => {}
            Err(error) => {
                self.stats.failed(&error);
                // The next start of the daemon tries again.
                self.journal.arm(index, &entry);
            }
        }
        changed
    }

    fn forget(&mut self, index: u32) -> bool {
        if let Some(uclamps) = &mut self.uclamps {
            uclamps.forget(index);
        }
        self.count_requests();
        let held = self.boosted[index as usize];
        if let Some(held) = held {
            self.clear(index, held);
        }
        self.stats.boosts_of[index as usize].store(0, Ordering::Relaxed);
        held.is_some()
    }

    fn clear(&mut self, index: u32, held: Held) {
        self.boosted[index as usize] = None;
        self.owed[index as usize] = false;
        // A boost by the scheduler has no entry. If the entry of this index is armed anyway, it
        // belongs to a thread of an earlier run.
        if let Held::Realtime(_) = held {
            self.journal.disarm(index);
        }
        self.stats.ended(index);
    }
}
