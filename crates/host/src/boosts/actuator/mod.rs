// SPDX-License-Identifier: GPL-2.0-only
//! Carries out decisions: the actuator makes threads SCHED_RR. If paracord's scheduler has already
//! carried out a decision, the actuator only keeps account of the boost.
//!
//! The actuator decides nothing. It takes messages in the order of their decisions, keeps only the
//! latest message of each vCPU, writes the journal entry, and changes the thread. After
//! [`Actuator::new`] nothing in this module allocates, waits or logs: the code runs on the
//! real-time thread, and guests determine how often it runs.

mod handover;
mod message;
mod stats;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use paracord_sys::clock::now_ns;
use paracord_sys::sched::{self, SchedAttr, policy};

use crate::boosts::journal::{ENTRIES, Entry, Journal, Restored};
use crate::boosts::thread::Level;
use crate::boosts::uclamp::{Asked, Uclamps};
use stats::bump;

pub use message::{Action, Message, VcpuTable};
pub use stats::{ActuatorStats, Effect};

/// A boost in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// By the actuator. The entry contains the earlier attributes of the thread, and the priority
    /// of the boost.
    Realtime(Entry),
    /// By paracord's scheduler. There is nothing to restore.
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
    /// By vCPU index, the latest message that is not carried out yet.
    waiting: Vec<Option<Message>>,
    /// Indices with a waiting message, each once, oldest first.
    order: Vec<u32>,
    /// Boosts in force, by index.
    boosted: Vec<Option<Held>>,
    /// Marks boosts that are over, but whose thread could not be restored. Each tick tries again.
    owed: Vec<bool>,
    /// The last entry of each index, until a message says that its thread has ended or has called
    /// execve(2). In the latter case, the thread may still be real-time although its boost counts as
    /// ended: under its former ID, the thread could not be restored.
    last: Vec<Option<Entry>>,
}

impl Actuator {
    /// Creates an actuator that boosts threads to `priority`. To be called on a thread with normal
    /// scheduling: the slice of that thread is taken as the default slice.
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

    /// Returns this actuator, changed so that it also turns the requests of guests into clamps of
    /// their vCPU threads.
    #[must_use]
    pub fn with_uclamps(self, uclamps: Uclamps) -> Actuator {
        Actuator { uclamps: Some(uclamps), ..self }
    }

    /// Handles a performance request of the guest for vCPU `index`: at least `request`, and at most
    /// `limit` (0: no limit).
    pub fn ask(&mut self, table: &impl VcpuTable, index: u32, tid: u32, request: u32, limit: u32) {
        let live = || table.live_thread(index).filter(|thread| thread.tid == tid);
        let Some((uclamps, thread)) = self.uclamps.as_mut().zip(live()) else { return };
        // If the scheduler is in force, this message was sent before the scheduler came into force.
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

    /// The counters.
    pub fn stats(&self) -> Arc<ActuatorStats> {
        Arc::clone(&self.stats)
    }

    /// Sets the priority of later boosts. Boosts in force keep their priority.
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
    /// same vCPU comes first. A message with an index out of range is dropped.
    pub fn take(&mut self, message: Message) {
        let Some(waiting) = self.waiting.get_mut(message.index as usize) else {
            bump(&self.stats.errors);
            return;
        };
        match waiting.replace(message) {
            None => self.order.push(message.index),
            // Only this message contains the ID that the thread has now.
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

    /// Drops boosts of threads that have ended although no message about their end has arrived, and
    /// tries again to restore threads that could not be restored before. Calls `changed` with each
    /// index whose boost ended.
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
    /// The entry of a thread that is not live any more stays. If the thread has called execve(2), the
    /// supervisor restores it ([`Entry::restore_checked`]).
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

    fn count_requests(&self) {
        let count = self.uclamps.as_ref().map_or(0, Uclamps::count);
        self.stats.requests_now.store(count as u32, Ordering::Relaxed);
    }

    fn end_request(&mut self, table: &impl VcpuTable, index: u32) {
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
        // The policy refuses boosts of such a thread too. This boost was decided before the policy
        // knew of the limit, or was a boost by the scheduler that would become a real-time boost.
        if table.is_refused(index) {
            bump(&self.stats.refused_quota);
            return false;
        }
        // If the entry is armed, it belongs to a thread that an earlier run changed and that is not
        // restored yet (leftovers.rs). The entry is the only record of the attributes that this
        // other thread had.
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
        // The default slice is recorded as 0, so that the thread gets back "the default" and not a
        // fixed number.
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
            // The thread ended between the check and the call, and its tid may name another thread
            // by now. This other thread gets back the attributes that were read above.
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

    /// Raises a boost to `level`. The journal entry covers both priorities, so it stays as it is.
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
            // A thread that ends is no longer live by now. So this one is calling execve(2), and its
            // message is about to come.
            Ok(Restored::Gone) => {}
            Ok(Restored::Done | Restored::NotOurs) => {
                self.clear(index, held);
                return true;
            }
            Err(error) => self.stats.failed(&error),
        }
        // The thread is still real-time. Its journal entry stays, because a later attempt must know
        // the attributes that the thread had.
        self.owed[index as usize] = true;
        false
    }

    /// Gives a thread, whose ID is `tid` now, the attributes that it had before its boost.
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

    /// Forgets a thread that has called execve(2), and has the ID `tid` since then: that of its
    /// process.
    fn forget_as(&mut self, index: u32, tid: u32) -> bool {
        let last = self.last[index as usize].take();
        let is_boosted = self.boosted[index as usize].is_some();
        let changed = self.forget(index);
        let Some(entry) = last.filter(|entry| entry.process.pid == tid) else { return changed };
        match self.give_back(&Held::Realtime(entry), tid) {
            // The boost came after the thread had lost its former ID, and has met another thread.
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
        // A boost by the scheduler has no entry. If there is an armed entry in this case, it
        // belongs to a thread of an earlier run.
        if let Held::Realtime(_) = held {
            self.journal.disarm(index);
        }
        self.stats.ended(index);
    }
}
