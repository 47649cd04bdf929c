// SPDX-License-Identifier: GPL-2.0-only
//! Carries decisions out: with SCHED_RR, or, where paracord's scheduler has acted already, by
//! keeping the account.
//!
//! It decides nothing. It takes messages in the order of their decisions, keeps
//! only the latest of each vCPU, writes the journal entry, changes the thread.
//! After [`Actuator::new`] nothing here allocates, waits or logs: it runs on the
//! real-time thread, and what it does is driven by guests.

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
    /// By us: what the thread had, and what it has.
    Realtime(Entry),
    /// By the scheduler; nothing to give back.
    Scheduler { tid: u32, level: Level },
}

impl Held {
    fn tid(&self) -> u32 {
        match self {
            Held::Realtime(entry) => entry.tid,
            Held::Scheduler { tid, .. } => *tid,
        }
    }
}

/// The actuator; owned by the real-time thread.
#[derive(Debug)]
pub struct Actuator {
    journal: Arc<Journal>,
    uclamps: Option<Uclamps>,
    stats: Arc<ActuatorStats>,
    priority: u32,
    default_slice_ns: u64,
    /// Latest message of each vCPU not carried out yet.
    waiting: Vec<Option<Message>>,
    /// Indices with a waiting message, each once, oldest first.
    order: Vec<u32>,
    /// Boosted threads by index.
    boosted: Vec<Option<Held>>,
    /// Those of them whose boost is over and could not be taken back: tried again at each tick.
    owed: Vec<bool>,
}

impl Actuator {
    /// An actuator that gives `priority`. Call it on a thread of normal
    /// scheduling: its slice is taken as the default one.
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
        }
    }

    /// The same, but boosts take effect in paracord's scheduler.
    #[must_use]
    pub fn with_scheduler(self) -> Actuator {
        self.stats.in_scheduler.store(true, Ordering::Relaxed);
        self
    }

    /// The same, and what guests ask for becomes their vCPUs' clamps.
    #[must_use]
    pub fn with_uclamps(self, uclamps: Uclamps) -> Actuator {
        Actuator { uclamps: Some(uclamps), ..self }
    }

    /// The guest of vCPU `index` asks for `request` and at most `limit` (0: no limit).
    pub fn ask(&mut self, table: &impl VcpuTable, index: u32, tid: u32, request: u32, limit: u32) {
        let live = || table.live_thread(index).filter(|thread| thread.tid == tid);
        let Some((uclamps, thread)) = self.uclamps.as_mut().zip(live()) else { return };
        // Under the scheduler: told before it was in force.
        if self.stats.lacks_clamps() || self.stats.effect() == Effect::Scheduler {
            return;
        }
        let result = uclamps.ask(index, thread, request, limit);
        // It ended between the look and the call: its tid may name another thread by now.
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

    /// Priority of later boosts; those in force keep theirs.
    pub fn set_priority(&mut self, priority: u32) {
        self.priority = priority;
    }

    /// Indices boosted now.
    pub fn boosted_indices(&self) -> impl Iterator<Item = u32> + '_ {
        (0..ENTRIES).filter(|&index| self.boosted[index as usize].is_some())
    }

    /// Whether anything is boosted.
    pub fn is_active(&self) -> bool {
        self.stats.is_active()
    }

    /// Takes a message; [`carry_out`](Self::carry_out) acts on it unless a later one about the same
    /// vCPU comes first. Messages with an index out of range are dropped.
    pub fn take(&mut self, message: Message) {
        let Some(waiting) = self.waiting.get_mut(message.index as usize) else {
            bump(&self.stats.errors);
            return;
        };
        if waiting.replace(message).is_some() {
            bump(&self.stats.coalesced);
        } else {
            self.order.push(message.index);
        }
    }

    /// Carries out what waits. `changed` is told each index whose boost began or ended.
    pub fn carry_out(&mut self, table: &impl VcpuTable, mut changed: impl FnMut(u32)) {
        for n in 0..self.order.len() {
            let index = self.order[n];
            let Some(message) = self.waiting[index as usize].take() else { continue };
            let acted = match message.action {
                Action::Boost(level) => self.boost(table, index, message.tid, level),
                Action::Unboost => self.unboost(table, index),
                Action::Gone => self.forget(index),
            };
            if acted {
                self.stats.carried_out(now_ns().saturating_sub(message.decided_ns));
                changed(index);
            }
        }
        self.order.clear();
    }

    /// Drops boosts of threads that are not live any more (their message was lost), and takes back those that could not
    /// be taken back before.
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

    /// Restores every thread.
    pub fn restore_all(&mut self, table: &impl VcpuTable) {
        self.order.clear();
        self.waiting.fill(None);
        for index in 0..ENTRIES {
            self.unboost(table, index);
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
        // One that is boosted began before: nothing that the guest is told.
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
        // The policy refuses as well. It decided before it was told, or the scheduler's boosts become real-time ones.
        if table.is_refused(index) {
            bump(&self.stats.refused_quota);
            return false;
        }
        // The entry is that of a thread of an earlier run that is not restored yet (leftovers.rs): what it had stands
        // nowhere else.
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
        // The default slice is given back as "default", not as a number.
        if before.runtime_ns == self.default_slice_ns {
            before.runtime_ns = 0;
        }
        let entry = Entry {
            tid: thread.tid,
            start_ticks: thread.start_ticks,
            before,
            boost_priority: self.priority,
        };
        self.journal.arm(index, &entry);
        let given = SchedAttr::realtime(policy::RR, entry.priority_at(level));
        if let Err(error) = sched::set(thread.tid, &given) {
            self.journal.disarm(index);
            self.stats.failed(&error);
            return false;
        }
        if live().is_none() {
            // It ended between the look and the call, and its tid may name
            // another thread by now: that one gets back what the look saw.
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

    /// The journal's entry stands for both priorities, so there is nothing to write in it.
    fn raise(&self, entry: &Entry, level: Level) {
        let lower = entry.priority_at(Level::Interrupt);
        if level == Level::Interrupt || lower == entry.boost_priority {
            return;
        }
        match sched::get(entry.tid) {
            Ok(now) if now.policy == policy::RR && now.priority == lower => {}
            Ok(_) => return, // raised already, or changed by somebody else
            Err(error) => return self.stats.failed(&error),
        }
        let given = SchedAttr::realtime(policy::RR, entry.boost_priority);
        match sched::set(entry.tid, &given) {
            Ok(()) => bump(&self.stats.raised),
            Err(error) => self.stats.failed(&error),
        }
    }

    fn unboost(&mut self, table: &impl VcpuTable, index: u32) -> bool {
        let Some(held) = self.boosted[index as usize] else { return false };
        if table.live_thread(index).is_none_or(|thread| thread.tid != held.tid()) {
            bump(&self.stats.gone);
        } else if let Err(error) = self.give_back(&held) {
            // It still is real-time, and whoever comes later must know what it had: the journal's entry stays.
            self.stats.failed(&error);
            self.owed[index as usize] = true;
            return false;
        }
        self.clear(index, held);
        true
    }

    fn give_back(&self, held: &Held) -> std::io::Result<()> {
        let Held::Realtime(entry) = held else {
            bump(&self.stats.unboosts);
            return Ok(());
        };
        bump(match entry.restore()? {
            Restored::Done => &self.stats.unboosts,
            Restored::Gone => &self.stats.gone,
            Restored::NotOurs => &self.stats.changed_by_others,
        });
        Ok(())
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
        // A boost of the scheduler's has no entry: what stands there is a thread's of an earlier run.
        if let Held::Realtime(_) = held {
            self.journal.disarm(index);
        }
        self.stats.ended(index);
    }
}
