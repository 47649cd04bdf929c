// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Requests become `uclamp.min` of the vCPUs' threads: any host with CONFIG_UCLAMP_TASK, without
//! paracord's daemon.

use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

use paracord_sys::sched::{self, Util};

use super::backend::Backend;
use super::domain::Request;

/// A vCPU's clamp changes at most this often: a guest that writes its register as fast as it can
/// exit makes one system call a millisecond. Linux' governor has the same limit by default.
const EVERY_NS: u64 = 1_000_000;
/// No thread was registered.
const NO_THREAD: u32 = 0;

/// Whether the host's governor adds its quarter of headroom to a clamp.
///
/// The guest's governor has added one already. schedutil applied clamps before its own until 6.8
/// ("sched/cpufreq: Rework schedutil governor performance estimation"), so that a request came out a quarter
/// too high; later ones apply them after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headroom {
    /// The governor takes a clamp as it is.
    AsAsked,
    /// It adds a quarter: a fifth is taken off before.
    Added,
}

impl Headroom {
    /// Of the host's kernel; `root` is `/`. A release that cannot be read counts as a new one.
    pub fn of_host(root: &Path) -> Headroom {
        let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
        let numbers: Vec<u32> = release
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_digit())
            .take(2)
            .filter_map(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [major, minor] if (major, minor) < (6, 8) => Headroom::Added,
            _ => Headroom::AsAsked,
        }
    }

    fn clamp_for(self, util: u16) -> u32 {
        match self {
            Headroom::AsAsked => util.into(),
            Headroom::Added => u32::from(util) * 4 / 5,
        }
    }
}

/// One vCPU's thread. On a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Thread {
    tid: AtomicU32,
    /// What the thread had; given back at the end.
    before: AtomicU32,
    wanted: AtomicU32,
    applied: AtomicU32,
    applied_ns: AtomicU64,
    /// Somebody makes the system call; who finds it set leaves the rest to `flush()`.
    busy: AtomicBool,
}

/// The back end. Threads have what they had before again when it is dropped.
#[derive(Debug)]
pub struct UclampBackend {
    threads: Vec<Thread>,
    headroom: Headroom,
    start: Instant,
    /// Set by the first refusal: the kernel has no clamps, or a sandbox forbids them.
    refused: OnceLock<String>,
    changes: AtomicU64,
}

impl UclampBackend {
    /// For `vcpus` vCPUs, whose threads are told by [`register`](UclampBackend::register).
    pub fn new(vcpus: u32, headroom: Headroom) -> UclampBackend {
        let thread = |_| Thread {
            tid: AtomicU32::new(NO_THREAD),
            before: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            applied: AtomicU32::new(0),
            applied_ns: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        };
        UclampBackend {
            threads: (0..vcpus).map(thread).collect(),
            headroom,
            start: Instant::now(),
            refused: OnceLock::new(),
            changes: AtomicU64::new(0),
        }
    }

    /// vCPU `vcpu` is run by thread `tid`. False without such a vCPU.
    ///
    /// # Errors
    /// What sched_getattr(2) returns; the vCPU's requests have no effect then.
    pub fn register(&self, vcpu: u32, tid: u32) -> io::Result<bool> {
        let Some(thread) = self.threads.get(vcpu as usize) else { return Ok(false) };
        let (min, _) = sched::util_clamps(tid)?;
        thread.before.store(min, Relaxed);
        thread.applied.store(min, Relaxed);
        thread.wanted.store(min, Relaxed);
        // Pairs with the load in apply(): who sees the thread sees what it had.
        thread.tid.store(tid, Release);
        Ok(true)
    }

    /// Makes the changes that came too soon after others. To be called each few milliseconds while
    /// vCPUs run; it makes no system call where there is nothing to change.
    pub fn flush(&self) {
        for thread in &self.threads {
            self.apply(thread);
        }
    }

    /// Why the kernel refused a clamp, in one line; requests have no effect since. `None`: it did not.
    pub fn refusal(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// Clamps that were changed so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    fn now_ns(&self) -> u64 {
        // Never 0, which stands for "not yet"; 584 years fit.
        self.start.elapsed().as_nanos() as u64 | 1
    }

    fn apply(&self, thread: &Thread) {
        let tid = thread.tid.load(Acquire);
        let wanted = thread.wanted.load(Relaxed);
        if tid == NO_THREAD
            || wanted == thread.applied.load(Relaxed)
            || self.refused.get().is_some()
        {
            return;
        }
        let (now, last) = (self.now_ns(), thread.applied_ns.load(Relaxed));
        if (last != 0 && now.saturating_sub(last) < EVERY_NS) || thread.busy.swap(true, Acquire) {
            return;
        }
        let wanted = thread.wanted.load(Relaxed);
        match sched::set_util_clamps(tid, Util::To(wanted), Util::Keep) {
            Ok(()) => {
                self.changes.fetch_add(1, Relaxed);
            }
            // The VM is about to end.
            Err(error) if error.raw_os_error() == Some(ESRCH) => {}
            Err(error) => {
                let _ = self.refused.set(format!(
                    "the kernel refuses utilisation clamps of vCPU threads: {error} (CONFIG_UCLAMP_TASK, \
                     seccomp)"
                ));
            }
        }
        thread.applied.store(wanted, Relaxed);
        thread.applied_ns.store(now, Relaxed);
        thread.busy.store(false, Release);
    }
}

/// No such thread (asm-generic/errno-base.h).
const ESRCH: i32 = 3;

impl Backend for UclampBackend {
    fn request(&self, vcpu: u32, request: Request) {
        let Some(thread) = self.threads.get(vcpu as usize) else { return };
        let before = thread.before.load(Relaxed);
        // What an operator gave the thread is the least in any case.
        thread.wanted.store(self.headroom.clamp_for(request.util).max(before), Relaxed);
        self.apply(thread);
    }
}

impl Drop for UclampBackend {
    fn drop(&mut self) {
        for thread in &self.threads {
            let (tid, before) = (thread.tid.load(Acquire), thread.before.load(Relaxed));
            let changed = thread.applied.load(Relaxed) != before;
            if tid != NO_THREAD && changed && self.refused.get().is_none() {
                let back = if before == 0 { Util::Reset } else { Util::To(before) };
                // The thread may have ended.
                let _ = sched::set_util_clamps(tid, back, Util::Keep);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn a_quarter_is_taken_off_where_the_governor_adds_it() {
        let root = std::env::temp_dir().join(format!("paracord-release-{}", std::process::id()));
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        let of = |release: &str| {
            fs::write(root.join("proc/sys/kernel/osrelease"), release).unwrap();
            Headroom::of_host(&root)
        };
        assert_eq!((of("6.7.12-amd64\n"), of("5.15.0\n")), (Headroom::Added, Headroom::Added));
        assert_eq!((of("6.8.0\n"), of("7.2.12+deb13\n")), (Headroom::AsAsked, Headroom::AsAsked));
        assert_eq!(of("unknown\n"), Headroom::AsAsked);
        fs::remove_dir_all(root).unwrap();
        assert_eq!(Headroom::Added.clamp_for(1024) * 5 / 4, 1023);
        assert_eq!(Headroom::AsAsked.clamp_for(300), 300);
    }

    /// With a real thread and the real system call, where this machine's kernel has clamps; where not, that
    /// is what is reported.
    #[test]
    fn a_request_is_the_threads_clamp_until_the_end() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let backend = UclampBackend::new(1, Headroom::AsAsked);
        assert!(backend.register(0, tid).unwrap() && !backend.register(1, tid).unwrap());
        let request = |util| backend.request(0, Request { khz: 1, util });
        let clamp = || sched::util_clamps(tid).unwrap().0;
        request(300);
        if let Some(why) = backend.refusal() {
            assert!(why.contains("CONFIG_UCLAMP_TASK"), "{why}");
            assert_eq!((clamp(), backend.changes()), (0, 0));
            return;
        }
        assert_eq!(clamp(), 300);
        // Too soon after the first: the last one is made up for later.
        (0..1000).for_each(|i| request(i % 500));
        request(444);
        std::thread::sleep(Duration::from_nanos(2 * EVERY_NS));
        backend.flush();
        assert_eq!(clamp(), 444);
        let changes = backend.changes();
        backend.flush();
        assert_eq!(backend.changes(), changes);
        drop(backend);
        assert_eq!(clamp(), 0);
    }

    #[test]
    fn a_vcpu_without_a_thread_changes_nothing() {
        let backend = UclampBackend::new(1, Headroom::AsAsked);
        backend.request(0, Request { khz: 1, util: 7 });
        backend.request(9, Request { khz: 1, util: 7 });
        backend.flush();
        assert_eq!((backend.changes(), backend.refusal()), (0, None));
    }
}
