// SPDX-License-Identifier: GPL-2.0-only
//! Which threads the actuator boosts, and how.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use paracord_host::boosts::actuator::{Action, Actuator, Message};
use paracord_sys::sched::{self, SchedAttr, policy};

use crate::setting::{BOOST, BOOST_FOR_IRQ, PRIORITY, PROC, Setting, nice};

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn leaves_real_time_threads_and_changes_by_others_alone() {
    let mut s = Setting::new("rt", &SchedAttr::realtime(policy::FIFO, 3));
    let before = s.sleeper.attr();
    s.act(&[BOOST]);
    s.act(&[Action::Unboost]);
    assert_eq!(s.sleeper.attr(), before);
    assert_eq!(s.actuator.stats().snapshot().refused_rt, 1);

    let mut s = Setting::new("other", &nice(0));
    s.act(&[BOOST]);
    sched::set(s.sleeper.tid, &nice(11)).unwrap();
    s.act(&[Action::Unboost]);
    assert_eq!(s.sleeper.attr().nice, 11);
    assert_eq!(s.actuator.stats().snapshot().changed_by_others, 1);
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn the_latest_decision_wins() {
    let mut s = Setting::new("latest", &nice(0));
    s.act(&[BOOST, Action::Unboost, BOOST]);
    assert_eq!(s.sleeper.attr().policy, policy::RR);
    s.act(&[Action::Unboost, BOOST, Action::Unboost]);
    assert_eq!(s.sleeper.attr().policy, policy::OTHER);
    let stats = s.actuator.stats().snapshot();
    assert_eq!((stats.boosts, stats.unboosts, stats.coalesced, stats.boosted_now), (1, 1, 4, 0));
    assert_eq!(stats.actuation_latency.count(), 2);
}

#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn an_interrupt_goes_behind_full_boosts_and_is_raised_once() {
    let mut s = Setting::new("level", &nice(2));
    let before = s.sleeper.attr();
    s.act(&[BOOST_FOR_IRQ]);
    assert_eq!((s.sleeper.attr().policy, s.sleeper.attr().priority), (policy::RR, PRIORITY - 1));
    // If the daemon is killed at this moment, the journal undoes the boost.
    let report = s.journal.restore_all(Path::new(PROC));
    assert_eq!((report.restored, s.sleeper.attr()), (1, before));

    let mut s = Setting::new("raised", &nice(2));
    s.act(&[BOOST_FOR_IRQ]);
    s.act(&[BOOST]);
    assert_eq!(s.sleeper.attr().priority, PRIORITY);
    s.act(&[BOOST_FOR_IRQ]);
    assert_eq!(s.sleeper.attr().priority, PRIORITY, "a level only rises");
    let stats = s.actuator.stats().snapshot();
    assert_eq!((stats.boosts, stats.raised, stats.boosted_now), (1, 1, 1));
    s.act(&[Action::Unboost]);
    assert_eq!(s.sleeper.attr(), before);

    let mut s = Setting::new("taken", &nice(2));
    s.act(&[BOOST_FOR_IRQ]);
    sched::set(s.sleeper.tid, &nice(11)).unwrap();
    s.act(&[BOOST]);
    assert_eq!(s.sleeper.attr().nice, 11, "somebody else decided");
}

/// Two cases: a message that was sent before the policy knew of the quota, and a boost by the
/// scheduler that would become a real-time boost when the scheduler is gone.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_thread_with_a_cpu_quota_does_not_become_real_time() {
    let mut s = Setting::new("quota", &nice(0));
    s.table.is_refused.store(true, Ordering::Relaxed);
    s.act(&[BOOST]);
    assert_eq!((s.sleeper.attr().policy, s.journal.entry(0)), (policy::OTHER, None));
    let stats = s.actuator.stats().snapshot();
    assert_eq!((stats.refused_quota, stats.boosted_now), (1, 0));

    let own = Setting::new("quota-ext", &nice(0));
    let mut actuator = Actuator::new(Arc::clone(&own.journal), PRIORITY).with_scheduler();
    own.table.is_refused.store(true, Ordering::Relaxed);
    let tid = own.sleeper.tid;
    actuator.take(Message { action: BOOST, index: 0, tid, decided_ns: 0 });
    actuator.carry_out(&own.table, |_| ());
    assert_eq!(
        actuator.stats().snapshot().boosted_now,
        1,
        "the scheduler makes no thread real-time"
    );
    actuator.scheduler_gone(&own.table, |_| ());
    assert_eq!(
        (own.sleeper.attr().policy, actuator.stats().snapshot().boosted_now),
        (policy::OTHER, 0)
    );
}

/// With actuator auto, the scheduler may start or stop while vCPUs are boosted.
#[test]
#[ignore = "needs CAP_SYS_NICE"]
fn a_boost_goes_on_when_the_scheduler_comes_and_when_it_goes() {
    let mut s = Setting::new("comes", &nice(3));
    let kept = |s: &Setting| {
        let stats = s.actuator.stats().snapshot();
        (stats.boosts, stats.unboosts, stats.boosted_now)
    };
    for (boost, priority) in [(BOOST, PRIORITY), (BOOST_FOR_IRQ, PRIORITY - 1)] {
        s.act(&[boost]);
        let before = kept(&s);
        s.actuator.scheduler_came(&s.table, |_| ());
        let now = s.sleeper.attr();
        assert_eq!((now.policy, now.nice, s.journal.entry(0)), (policy::OTHER, 3, None));
        assert!(s.actuator.stats().is_actuated(0));
        s.actuator.scheduler_gone(&s.table, |_| ());
        let now = s.sleeper.attr();
        assert_eq!((now.policy, now.priority), (policy::RR, priority), "the same level");
        assert_eq!(s.journal.entry(0).unwrap().thread.tid, s.sleeper.tid);
        assert_eq!(kept(&s).2, before.2);
        s.act(&[Action::Unboost]);
        assert_eq!((s.sleeper.attr().policy, s.sleeper.attr().nice), (policy::OTHER, 3));
    }
    // Another program has changed the thread in the meantime. The actuator does not change the
    // thread, which no longer counts as boosted.
    s.act(&[BOOST]);
    sched::set(s.sleeper.tid, &nice(7)).unwrap();
    s.actuator.scheduler_came(&s.table, |_| ());
    assert_eq!((s.sleeper.attr().nice, kept(&s).2, s.journal.entry(0)), (7, 0, None));
}
