// SPDX-License-Identifier: GPL-2.0-only
//! Clamps of real threads.

use super::*;
use crate::place::sleeper::Sleeper;

/// Runs `body` with a thread that lives until `body` returns.
fn with_thread(body: impl FnOnce(Thread)) {
    let sleeper = Sleeper::start();
    body(Thread { tid: sleeper.tid, start_ticks: sleeper.start_ticks() });
}

fn uclamps(name: &str) -> (std::path::PathBuf, Uclamps) {
    let path = std::env::temp_dir().join(format!("paracord-uclamps-{name}-{}", std::process::id()));
    keep(&path, Path::new("/proc")).unwrap();
    let uclamps = Uclamps::open(&path, Path::new("/proc")).unwrap();
    (path, uclamps)
}

fn is_supported(thread: Thread) -> bool {
    sched::set_util_clamps(thread.tid, Util::Keep, Util::To(PC_CAPACITY)).is_ok()
}

#[test]
fn an_entry_is_what_was_written() {
    let clamps = Uclamp {
        thread: Thread { tid: 7, start_ticks: 99 },
        had: (NONE, 800),
        given: (300, 800),
        given_before: (NONE, 800),
    };
    let mut words = [0; WORDS];
    words[1..].copy_from_slice(&clamps.words());
    assert_eq!(Uclamp::from_words(7, words), clamps);
    assert_eq!(clamps.host(), pc_clamp { min: 0, max: 800 });
}

#[test]
fn a_thread_gets_what_its_guest_asks_for_within_its_own_and_gets_its_own_back() {
    with_thread(|thread| {
        let (path, mut uclamps) = uclamps("ask");
        // On a kernel without clamps, `uclamps` holds no clamps, and the error shows why.
        if !is_supported(thread) {
            let error = uclamps.ask(3, thread, 500, 0).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
            return assert_eq!(uclamps.count(), 0);
        }
        sched::set_util_clamps(thread.tid, Util::Keep, Util::To(600)).unwrap();
        let now = || sched::util_clamps(thread.tid).unwrap();
        assert_eq!(uclamps.ask(3, thread, 500, 0).unwrap(), Asked::InForce);
        assert_eq!(now(), (500, 600));
        assert_eq!(uclamps.ask(3, thread, 9999, 0).unwrap(), Asked::InForce);
        assert_eq!((now(), uclamps.count()), ((600, 600), 1));
        assert_eq!(uclamps.ask(3, thread, 0, 0).unwrap(), Asked::Nothing);
        assert_eq!((now(), uclamps.count()), ((0, 600), 0));
        // The daemon dies while the thread has clamps from a request. Dropping `uclamps` stands in
        // for the death of the daemon.
        uclamps.ask(3, thread, 100, 200).unwrap();
        drop(uclamps);
        let mut report = RestoreReport::default();
        restore_all(&path, Path::new("/proc"), &mut report).unwrap();
        assert_eq!((now(), report.clamps), ((0, 600), 1));
        std::fs::remove_file(path).unwrap();
    });
}

/// The entry is the only record of the clamps that the thread of the earlier run had.
#[test]
fn the_entry_of_a_thread_of_an_earlier_run_is_neither_used_nor_forgotten() {
    with_thread(|thread| {
        let (path, mut uclamps) = uclamps("earlier");
        let other = Thread { tid: 4_000_000, start_ticks: 99 };
        let clamps = Uclamp { thread: other, had: (0, 0), given: (1, 1), given_before: (1, 1) };
        let journal = uclamps.journal.as_ref().unwrap();
        journal.arm(3, other.tid, clamps.words());
        let entry = journal.entry(3);
        assert_eq!(uclamps.ask(3, thread, 500, 0).unwrap(), Asked::Nothing);
        uclamps.release(3).unwrap();
        uclamps.forget(3);
        assert_eq!((uclamps.journal.as_ref().unwrap().entry(3), uclamps.count()), (entry, 0));
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn what_somebody_else_has_set_meanwhile_stays() {
    with_thread(|thread| {
        let (path, mut uclamps) = uclamps("others");
        if is_supported(thread) {
            uclamps.ask(0, thread, 500, 0).unwrap();
            sched::set_util_clamps(thread.tid, Util::To(77), Util::Keep).unwrap();
            uclamps.release(0).unwrap();
            assert_eq!(sched::util_clamps(thread.tid).unwrap().0, 77);
        }
        std::fs::remove_file(path).unwrap();
    });
}
