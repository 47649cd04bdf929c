// SPDX-License-Identifier: GPL-2.0-only
//! Threads of the test process that stand in for vCPUs. A process may change the affinity of its
//! own threads.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use paracord_sys::affinity::CpuMask;
use paracord_sys::proc;

/// A thread that sleeps until this value is dropped.
pub(crate) struct Sleeper {
    pub tid: u32,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    pub fn start() -> Sleeper {
        let (tell, told) = channel();
        let (end, wait) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            tell.send(tid).unwrap();
            let _ = wait.recv();
        });
        Sleeper { tid: told.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    pub fn cpus(&self) -> CpuMask {
        proc::allowed_cpus(Path::new("/proc"), self.tid).unwrap()
    }

    pub fn start_ticks(&self) -> u64 {
        proc::thread_start_ticks(Path::new("/proc"), self.tid).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
