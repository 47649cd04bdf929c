// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Turns requests into `uclamp.min` of the vCPUs' threads. This works on any host with
//! CONFIG_UCLAMP_TASK, without paracord's daemon.

use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};
use std::time::Instant;

use paracord_sys::clock::NS_PER_MS;
use paracord_sys::sched::{self, Util};

use super::backend::Backend;
use super::domain::Request;
use super::headroom::Headroom;

/// Minimum time between two changes of a vCPU's clamp. A guest that writes its register as fast as
/// it can exit causes at most one system call per millisecond. Linux' governor has the same limit
/// by default.
const EVERY_NS: u64 = NS_PER_MS;
/// Thread ID of a vCPU that has no registered thread.
const NO_THREAD: u32 = 0;
/// Error number of "no such process" (asm-generic/errno-base.h).
const ESRCH: i32 = 3;

/// The kernel refuses clamps, because it was built without them (CONFIG_UCLAMP_TASK) or because a
/// sandbox forbids them. After the first refusal, requests have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the kernel refuses utilisation clamps of vCPU threads: {} (CONFIG_UCLAMP_TASK, seccomp)",
    io::Error::from_raw_os_error(*errno)
)]
pub struct UclampRefused {
    /// The error of sched_setattr(2).
    pub errno: i32,
}

/// The host's kernel. Tests replace it.
trait Host: Debug + Send + Sync {
    fn min(&self, tid: u32) -> io::Result<u32>;
    fn set_min(&self, tid: u32, min: Util) -> io::Result<()>;
    /// Time since a fixed moment in the past; never 0.
    fn now_ns(&self) -> u64;
}

#[derive(Debug)]
struct Kernel {
    start: Instant,
}

impl Host for Kernel {
    fn min(&self, tid: u32) -> io::Result<u32> {
        Ok(sched::util_clamps(tid)?.0)
    }

    fn set_min(&self, tid: u32, min: Util) -> io::Result<()> {
        sched::set_util_clamps(tid, min, Util::Keep)
    }

    fn now_ns(&self) -> u64 {
        // A u64 holds 584 years of nanoseconds.
        self.start.elapsed().as_nanos() as u64 | 1
    }
}

/// The thread of one vCPU, on its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Thread {
    /// The request of the vCPU's policy, on the host's capacity scale.
    asked: AtomicU32,
    /// A lock for the members below. A guest's access that finds it taken does not wait: `flush()`
    /// makes the change later.
    busy: AtomicBool,
    tid: AtomicU32,
    /// The clamp that the thread had when it was registered. `give_back()` restores it.
    before: AtomicU32,
    applied: AtomicU32,
    /// Time of the last change; 0: no change yet.
    applied_ns: AtomicU64,
}

/// The back end. It restores the earlier clamp of a thread when the thread is unregistered, and the
/// clamps of all threads when it is dropped.
#[derive(Debug)]
pub struct UclampBackend {
    threads: Vec<Thread>,
    headroom: Headroom,
    host: Box<dyn Host>,
    /// Error number of the first refusal; 0: nothing was refused.
    refused: AtomicI32,
    changes: AtomicU64,
}

impl UclampBackend {
    /// Makes a back end for `vcpus` vCPUs. [`register`](UclampBackend::register) names their
    /// threads.
    pub fn new(vcpus: u32, headroom: Headroom) -> UclampBackend {
        UclampBackend::on(Box::new(Kernel { start: Instant::now() }), vcpus, headroom)
    }

    fn on(host: Box<dyn Host>, vcpus: u32, headroom: Headroom) -> UclampBackend {
        UclampBackend {
            threads: (0..vcpus).map(|_| Thread::default()).collect(),
            headroom,
            host,
            refused: AtomicI32::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Registers thread `tid` as the thread that runs vCPU `vcpu`. If the vCPU has a request
    /// already, from a restored snapshot, the request is applied. Returns false if there is no such
    /// vCPU.
    ///
    /// # Errors
    /// The error of sched_getattr(2). The vCPU's requests then have no effect.
    pub fn register(&self, vcpu: u32, tid: u32) -> io::Result<bool> {
        let Some(thread) = self.threads.get(vcpu as usize) else { return Ok(false) };
        let before = self.host.min(tid)?;
        self.give_back(thread);
        thread.lock();
        thread.before.store(before, Relaxed);
        thread.applied.store(before, Relaxed);
        thread.applied_ns.store(0, Relaxed);
        thread.tid.store(tid, Relaxed);
        thread.unlock();
        self.apply(thread);
        Ok(true)
    }

    /// Restores the earlier clamp of the thread of vCPU `vcpu`. Call this before the thread ends,
    /// because its ID may be reused afterwards.
    pub fn unregister(&self, vcpu: u32) {
        if let Some(thread) = self.threads.get(vcpu as usize) {
            self.give_back(thread);
        }
    }

    /// Makes the changes that were postponed because they came too soon after an earlier change.
    /// Call this every few milliseconds while vCPUs run. If there are no postponed changes, it
    /// makes no system call.
    pub fn flush(&self) {
        for thread in &self.threads {
            self.apply(thread);
        }
    }

    /// Why requests have no effect; `None` if they have an effect.
    pub fn refusal(&self) -> Option<UclampRefused> {
        let errno = self.refused.load(Relaxed);
        (errno != 0).then_some(UclampRefused { errno })
    }

    /// Number of changes of clamps so far.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Applies a vCPU's request. This is part of a guest's access, so it does not wait for other
    /// threads.
    fn apply(&self, thread: &Thread) {
        let last = thread.applied_ns.load(Relaxed);
        let wanted = thread.wanted(self.headroom);
        if wanted == thread.applied.load(Relaxed) || self.refused.load(Relaxed) != 0 {
            return;
        }
        let now = self.host.now_ns();
        if (last != 0 && now.saturating_sub(last) < EVERY_NS) || !thread.try_lock() {
            return;
        }
        let tid = thread.tid.load(Relaxed);
        if tid != NO_THREAD {
            // Read the request again. The request and the thread may have changed before the lock
            // was taken.
            let wanted = thread.wanted(self.headroom);
            match self.host.set_min(tid, Util::To(wanted)) {
                Ok(()) => {
                    self.changes.fetch_add(1, Relaxed);
                    thread.applied.store(wanted, Relaxed);
                    thread.applied_ns.store(now, Relaxed);
                }
                // The thread ended without being unregistered.
                Err(error) if error.raw_os_error() == Some(ESRCH) => {
                    thread.tid.store(NO_THREAD, Relaxed);
                }
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(ESRCH);
                    let _ = self.refused.compare_exchange(0, errno, Relaxed, Relaxed);
                }
            }
        }
        thread.unlock();
    }

    fn give_back(&self, thread: &Thread) {
        thread.lock();
        let tid = thread.tid.swap(NO_THREAD, Relaxed);
        let before = thread.before.swap(0, Relaxed);
        if tid != NO_THREAD && thread.applied.load(Relaxed) != before {
            let back = if before == 0 { Util::Reset } else { Util::To(before) };
            // This may fail, because the thread may have ended.
            let _ = self.host.set_min(tid, back);
        }
        thread.applied.store(0, Relaxed);
        thread.unlock();
    }
}

impl Thread {
    /// The clamp for the request, but at least the clamp that the thread had when it was
    /// registered.
    fn wanted(&self, headroom: Headroom) -> u32 {
        headroom.clamp_for(self.asked.load(Relaxed)).max(self.before.load(Relaxed))
    }

    /// Tries to take the lock. The Acquire pairs with the Release of unlock(): the new holder of
    /// the lock sees what the previous holder did.
    fn try_lock(&self) -> bool {
        !self.busy.swap(true, Acquire)
    }

    /// Takes the lock. This is never called inside a guest's access. A holder of the lock makes
    /// only one short system call.
    fn lock(&self) {
        while !self.try_lock() {
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.busy.store(false, Release);
    }
}

impl Backend for UclampBackend {
    fn request(&self, vcpu: u32, request: Request) {
        let Some(thread) = self.threads.get(vcpu as usize) else { return };
        thread.asked.store(request.util.into(), Relaxed);
        self.apply(thread);
    }
}

impl Drop for UclampBackend {
    fn drop(&mut self) {
        for thread in &self.threads {
            self.give_back(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// A kernel whose threads have a clamp of 64 at first. It records the calls that it gets.
    #[derive(Debug, Default)]
    struct Fake {
        calls: Mutex<Vec<(u32, Util)>>,
        errno: AtomicI32,
        now_ns: AtomicU64,
    }

    impl Host for Arc<Fake> {
        fn min(&self, tid: u32) -> io::Result<u32> {
            if tid == 404 { Err(io::Error::from_raw_os_error(ESRCH)) } else { Ok(64) }
        }

        fn set_min(&self, tid: u32, min: Util) -> io::Result<()> {
            self.calls.lock().unwrap().push((tid, min));
            let errno = self.errno.load(Relaxed);
            if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
        }

        fn now_ns(&self) -> u64 {
            self.now_ns.load(Relaxed) | 1
        }
    }

    impl Fake {
        fn take(&self) -> Vec<(u32, Util)> {
            std::mem::take(&mut self.calls.lock().unwrap())
        }

        fn pass(&self, ns: u64) {
            self.now_ns.fetch_add(ns, Relaxed);
        }
    }

    fn backend() -> (UclampBackend, Arc<Fake>) {
        let fake = Arc::new(Fake::default());
        (UclampBackend::on(Box::new(Arc::clone(&fake)), 2, Headroom::AsAsked), fake)
    }

    fn ask(backend: &UclampBackend, vcpu: u32, util: u16) {
        backend.request(vcpu, Request { khz: util.into(), util });
    }

    #[test]
    fn a_guest_that_writes_all_the_time_makes_one_call_a_millisecond() {
        let (backend, fake) = backend();
        assert!(backend.register(0, 7).unwrap());
        for i in 0..10_000 {
            ask(&backend, 0, 100 + i % 900);
            fake.pass(1_000);
        }
        assert_eq!(fake.take().len(), 10);
        // The last change came too soon. `flush()` makes it later, once.
        ask(&backend, 0, 777);
        fake.pass(EVERY_NS);
        backend.flush();
        backend.flush();
        assert_eq!(fake.take(), [(7, Util::To(777))]);
        assert_eq!(backend.changes(), 11);
    }

    #[test]
    fn a_request_for_less_than_the_thread_had_changes_nothing() {
        let (backend, fake) = backend();
        assert!(backend.register(0, 7).unwrap());
        ask(&backend, 0, 63);
        assert_eq!(fake.take(), []);
    }

    #[test]
    fn threads_get_back_what_they_had() {
        let (backend, fake) = backend();
        assert!(backend.register(0, 7).unwrap() && backend.register(1, 8).unwrap());
        ask(&backend, 0, 500);
        ask(&backend, 1, 500);
        fake.take();
        backend.unregister(0);
        backend.unregister(0);
        ask(&backend, 0, 600);
        assert_eq!(fake.take(), [(7, Util::To(64))], "another thread may have the ID 7 now");
        drop(backend);
        assert_eq!(fake.take(), [(8, Util::To(64))]);
    }

    #[test]
    fn what_was_asked_before_there_was_a_thread_is_applied_to_it() {
        let (backend, fake) = backend();
        ask(&backend, 0, 500);
        ask(&backend, 9, 500);
        backend.flush();
        assert_eq!(fake.take(), []);
        assert!(backend.register(0, 7).unwrap());
        assert_eq!(fake.take(), [(7, Util::To(500))]);
        // A vCPU that was unplugged and is plugged in again.
        assert!(backend.register(0, 9).unwrap());
        assert_eq!(fake.take(), [(7, Util::To(64)), (9, Util::To(500))]);
        assert!(!backend.register(2, 7).unwrap());
        assert_eq!(backend.register(0, 404).unwrap_err().raw_os_error(), Some(ESRCH));
    }

    #[test]
    fn a_refusal_is_told_and_the_last_call_but_a_thread_that_is_gone_is_not_one() {
        let (backend, fake) = backend();
        assert!(backend.register(0, 7).unwrap() && backend.register(1, 8).unwrap());
        fake.errno.store(ESRCH, Relaxed);
        (500..600).for_each(|util| ask(&backend, 0, util));
        assert_eq!((fake.take().len(), backend.refusal()), (1, None));
        let eopnotsupp = 95;
        fake.errno.store(eopnotsupp, Relaxed);
        (500..600).for_each(|util| ask(&backend, 1, util));
        assert_eq!(fake.take().len(), 1);
        let refusal = backend.refusal().unwrap();
        assert_eq!(refusal, UclampRefused { errno: eopnotsupp });
        assert!(refusal.to_string().contains("CONFIG_UCLAMP_TASK"), "{refusal}");
        assert_eq!(backend.changes(), 0);
    }

    /// Uses the real system call if this machine's kernel has clamps. Otherwise, the refusal must
    /// be reported.
    #[test]
    fn a_request_is_the_real_threads_clamp_until_the_end() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let backend = UclampBackend::new(1, Headroom::AsAsked);
        assert!(backend.register(0, tid).unwrap());
        let clamp = || sched::util_clamps(tid).unwrap().0;
        ask(&backend, 0, 300);
        if backend.refusal().is_none() {
            assert_eq!((clamp(), backend.changes()), (300, 1));
        }
        drop(backend);
        assert_eq!(clamp(), 0);
    }
}
