// SPDX-License-Identifier: GPL-2.0-only
//! What threads have after their boosts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use paracord_host::boosts::actuator::{Action, Actuator, Message};
use paracord_host::boosts::journal::{Entry, Journal, RestoreReport};
use paracord_host::boosts::thread::{Process, Thread};
use paracord_sys::sched::{self, SchedAttr, policy};

use crate::setting::{BOOST, BOOST_FOR_IRQ, ENDED, PRIORITY, PROC, Setting, Sleeper, nice};

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn gives_back_exactly_what_the_thread_had() {
    let cases = [
        nice(0),
        nice(-7),
        SchedAttr { policy: policy::BATCH, ..nice(5) },
        SchedAttr { policy: policy::IDLE, ..nice(0) },
        SchedAttr { flags: sched::FLAG_RESET_ON_FORK, ..nice(3) },
        // A thread with its own slice, which kernels before 6.12 ignore.
        SchedAttr { runtime_ns: 7_000_000, ..nice(1) },
    ];
    for (n, case) in cases.iter().enumerate() {
        let mut s = Setting::new(&format!("back{n}"), case);
        let before = s.sleeper.attr();
        s.act(&[BOOST]);
        let boosted = s.sleeper.attr();
        assert_eq!((boosted.policy, boosted.priority), (policy::RR, PRIORITY));
        assert_eq!(boosted.flags, sched::FLAG_RESET_ON_FORK, "children must not inherit a boost");
        assert_eq!(s.journal.entry(0).unwrap().thread.tid, s.sleeper.tid);
        s.act(&[Action::Unboost]);
        assert_eq!(s.sleeper.attr(), before);
        assert_eq!(s.journal.entry(0), None);
    }
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_thread_at_its_end_is_not_touched() {
    let mut s = Setting::new("gone", &nice(0));
    s.table.live.store(false, Ordering::Relaxed);
    s.act(&[BOOST]);
    assert_eq!((s.sleeper.attr().policy, s.journal.entry(0)), (policy::OTHER, None));
    s.table.live.store(true, Ordering::Relaxed);
    s.act(&[BOOST]);
    s.act(&[Action::Gone]);
    assert_eq!(s.journal.entry(0), None);
    assert_eq!(s.actuator.stats().snapshot().boosted_now, 0);
    let restore = SchedAttr { runtime_ns: 0, ..nice(0) };
    sched::set(s.sleeper.tid, &restore).unwrap();
    // This message comes too late: the index belongs to another thread now.
    s.table.thread.tid += 1;
    s.act(&[BOOST]);
    assert_eq!(s.sleeper.attr().policy, policy::OTHER);
    assert_eq!(s.actuator.stats().snapshot().gone, 2);
}

/// The tid of a thread that has ended may belong to another thread by now.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_boost_is_not_raised_at_the_end_of_its_thread() {
    let mut s = Setting::new("not-raised", &nice(0));
    s.act(&[BOOST_FOR_IRQ]);
    s.table.live.store(false, Ordering::Relaxed);
    s.act(&[BOOST]);
    assert_eq!(s.sleeper.attr().priority, PRIORITY - 1);
    let stats = s.actuator.stats().snapshot();
    assert_eq!((stats.raised, stats.gone), (0, 1));
}

/// Runs `body` without CAP_SYS_NICE. Without this capability, no thread may clear
/// SCHED_FLAG_RESET_ON_FORK, which a boost sets.
fn without_sys_nice(body: impl FnOnce()) {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let before = capabilities(None).unwrap();
    let mut fewer = before;
    fewer.effective.remove(CapabilitySet::SYS_NICE);
    set_capabilities(None, fewer).unwrap();
    body();
    set_capabilities(None, before).unwrap();
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_thread_that_cannot_be_given_back_keeps_its_entry_until_it_can_or_is_gone() {
    let mut s = Setting::new("owed", &nice(-3));
    let before = s.sleeper.attr();
    s.act(&[BOOST]);
    let entry = s.journal.entry(0);
    without_sys_nice(|| s.act(&[Action::Unboost]));
    assert_eq!((s.sleeper.attr().policy, s.journal.entry(0)), (policy::RR, entry));
    let stats = s.actuator.stats().snapshot();
    assert_eq!((stats.errors, stats.unboosts, stats.boosted_now), (1, 0, 1));
    // The daemon tries again, as long as it is alive.
    s.actuator.reconcile(&s.table, |_| ());
    assert_eq!((s.sleeper.attr(), s.journal.entry(0)), (before, None));

    // The daemon is no longer alive: a later process finds the entry.
    s.act(&[BOOST]);
    without_sys_nice(|| s.actuator.restore_all(&s.table));
    assert!(!s.journal.is_clear());
    let report = s.journal.restore_all(Path::new(PROC));
    assert_eq!((report.restored, s.sleeper.attr(), s.journal.is_clear()), (1, before, true));

    // The thread is boosted again before it could be restored: the retry must not restore it.
    let mut s = Setting::new("owed-again", &nice(0));
    s.act(&[BOOST]);
    without_sys_nice(|| s.act(&[Action::Unboost]));
    s.act(&[BOOST]);
    s.actuator.reconcile(&s.table, |_| ());
    assert_eq!(s.sleeper.attr().policy, policy::RR);
    without_sys_nice(|| s.act(&[Action::Unboost]));
    s.act(&[Action::Gone]);
    assert_eq!((s.journal.entry(0), s.actuator.stats().snapshot().boosted_now), (None, 0));
}

/// An earlier daemon that boosted another thread has died, and the supervisor could not restore
/// that thread.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn the_entry_of_a_thread_of_an_earlier_run_is_not_overwritten() {
    let mut s = Setting::new("earlier", &nice(0));
    let other = Sleeper::start(&nice(5));
    let entry =
        Entry { thread: other.thread(), process: ENDED, before: nice(5), boost_priority: PRIORITY };
    s.journal.arm(0, &entry);
    s.act(&[BOOST]);
    s.act(&[Action::Unboost]);
    s.act(&[Action::Gone]);
    s.actuator.restore_all(&s.table);
    assert_eq!((s.sleeper.attr().policy, s.journal.entry(0)), (policy::OTHER, Some(entry)));

    // A boost by the scheduler has no entry. Its end does not clear the other thread's entry
    // either.
    let mut actuator = Actuator::new(Arc::clone(&s.journal), PRIORITY).with_scheduler();
    for action in [BOOST, Action::Unboost, BOOST] {
        actuator.take(Message { action, index: 0, tid: s.sleeper.tid, decided_ns: 0 });
        actuator.carry_out(&s.table, |_| ());
    }
    actuator.scheduler_gone(&s.table, |_| ());
    assert_eq!((s.sleeper.attr().policy, s.journal.entry(0)), (policy::OTHER, Some(entry)));
    // Once the other thread is restored, the index can be used.
    s.journal.disarm(0);
    s.act(&[BOOST]);
    assert_eq!(s.journal.entry(0).unwrap().thread.tid, s.sleeper.tid);
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn the_journal_alone_restores_and_knows_a_reused_tid() {
    let mut s = Setting::new("journal", &nice(4));
    let before = s.sleeper.attr();
    s.act(&[BOOST]);
    let path = s.dir.join("journal");
    let entry = s.journal.entry(0).unwrap();
    let other = Journal::open(&path, Path::new(PROC)).unwrap().unwrap();
    // The same tid with another start time is another thread, which must not be touched.
    let mut reused = entry;
    reused.thread.start_ticks += 1;
    other.arm(0, &reused);
    assert_eq!(other.restore_all(Path::new(PROC)), RestoreReport { gone: 1, ..Default::default() });
    assert_eq!(s.sleeper.attr().policy, policy::RR);
    other.arm(0, &entry);
    let report = other.restore_all(Path::new(PROC));
    assert_eq!(report, RestoreReport { restored: 1, ..Default::default() });
    assert_eq!(s.sleeper.attr(), before);
}

/// An unprivileged user may lower the priority of a real-time thread, but may not clear
/// SCHED_FLAG_RESET_ON_FORK.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_boost_ends_although_its_priority_was_lowered() {
    let mut s = Setting::new("lowered", &nice(3));
    let before = s.sleeper.attr();
    s.act(&[BOOST]);
    sched::set(s.sleeper.tid, &SchedAttr::realtime(policy::RR, 2)).unwrap();
    s.act(&[Action::Unboost]);
    assert_eq!((s.sleeper.attr(), s.journal.entry(0)), (before, None));
    // If the flag is clear, or the priority is higher, a privileged process has made the change.
    let lower = SchedAttr { flags: 0, ..SchedAttr::realtime(policy::RR, 2) };
    for others in [lower, SchedAttr::realtime(policy::RR, PRIORITY + 1)] {
        s.act(&[BOOST]);
        sched::set(s.sleeper.tid, &others).unwrap();
        s.act(&[Action::Unboost]);
        assert_eq!((s.sleeper.attr().priority, s.journal.entry(0)), (others.priority, None));
        sched::set(s.sleeper.tid, &before).unwrap();
    }
}

/// A boosted thread that calls execve(2). Two sleepers stand in for the thread before and after the
/// call. `between`: what happens before the actuator handles the message about the call.
fn after_exec(name: &str, between: impl FnOnce(&mut Setting, u32)) -> (Setting, Sleeper) {
    let mut s = Setting::new(name, &nice(3));
    let after = Sleeper::start(&nice(0));
    s.table.process = Process { pid: after.tid, start_ticks: after.start_ticks };
    s.act(&[BOOST]);
    let before = std::mem::replace(&mut s.sleeper, Sleeper::start(&nice(0)));
    drop(before);
    sched::set(after.tid, &SchedAttr::realtime(policy::RR, PRIORITY)).unwrap();
    between(&mut s, after.tid);
    s.actuator.take(Message { action: Action::Exec, index: 0, tid: after.tid, decided_ns: 0 });
    s.actuator.carry_out(&s.table, |_| ());
    (s, after)
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_thread_that_has_called_execve_is_restored_under_its_new_id() {
    type Between = fn(&mut Setting, u32);
    let exec = |tid| Message { action: Action::Exec, index: 0, tid, decided_ns: 0 };
    let cases: [(&str, Between); 4] = [
        ("exec", |_, _| ()),
        ("exec-unboost", |s, _| s.act(&[Action::Unboost])),
        // The record is no longer ready, and the message is still in the ring buffer.
        ("exec-reconcile", |s, _| {
            s.table.live.store(false, Ordering::Relaxed);
            s.actuator.reconcile(&s.table, |_| ());
        }),
        // The former ID of the thread belongs to another thread.
        ("exec-reused", |s, _| {
            s.table.live.store(false, Ordering::Relaxed);
            s.act(&[Action::Unboost]);
        }),
    ];
    for (name, between) in cases {
        let (s, after) = after_exec(name, between);
        assert_eq!((after.attr().policy, after.attr().nice), (policy::OTHER, 3), "{name}");
        assert_eq!((s.journal.entry(0), s.actuator.stats().snapshot().boosted_now), (None, 0));
    }
    // Neither a later message of the same batch nor the end of the daemon drops the message about
    // the call.
    let (_, after) = after_exec("exec-coalesced", |s, tid| {
        s.actuator.take(exec(tid));
        s.actuator.take(Message { action: Action::Unboost, ..exec(tid) });
    });
    assert_eq!(after.attr().policy, policy::OTHER);
    let (_, after) = after_exec("exec-end", |s, tid| {
        s.actuator.take(exec(tid));
        s.actuator.restore_all(&s.table);
    });
    assert_eq!(after.attr().policy, policy::OTHER);
}

/// Until the message about execve(2) comes, the actuator cannot end the boost, and the entry stays
/// for the supervisor.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_boost_whose_thread_has_lost_its_id_is_owed() {
    after_exec("exec-owed", |s, tid| {
        s.act(&[Action::Unboost]);
        s.actuator.reconcile(&s.table, |_| ());
        assert!(s.journal.is_armed(0));
        s.actuator.restore_all(&s.table);
        assert!(s.journal.is_armed(0));
        let report = s.journal.restore_all(Path::new(PROC));
        assert_eq!(report, RestoreReport { restored: 1, ..Default::default() });
        assert_eq!(sched::get(tid).unwrap().nice, 3);
    });
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn the_journal_alone_restores_a_thread_that_has_called_execve() {
    let s = Setting::new("journal-exec", &nice(4));
    let after = Sleeper::start(&SchedAttr::realtime(policy::RR, PRIORITY));
    let restore = |start_ticks| {
        let entry = Entry {
            thread: Thread { tid: 4_000_000, start_ticks: 99 },
            process: Process { pid: after.tid, start_ticks },
            before: nice(4),
            boost_priority: PRIORITY,
        };
        s.journal.arm(0, &entry);
        s.journal.restore_all(Path::new(PROC))
    };
    let gone = RestoreReport { gone: 1, ..Default::default() };
    assert_eq!((restore(after.start_ticks + 1), after.attr().policy), (gone, policy::RR));
    let restored = RestoreReport { restored: 1, ..Default::default() };
    assert_eq!((restore(after.start_ticks), after.attr().nice), (restored, 4));
}
