// SPDX-License-Identifier: GPL-2.0-only
//! An actuator with a journal, and one vCPU whose thread sleeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use paracord_host::boosts::actuator::{Action, Actuator, Message, VcpuTable};
use paracord_host::boosts::journal::Journal;
use paracord_host::boosts::thread::{Level, Process, Thread};
use paracord_sys::proc;
use paracord_sys::sched::{self, SchedAttr};

pub const PRIORITY: u32 = 8;
pub const BOOST: Action = Action::Boost(Level::Full);
pub const BOOST_FOR_IRQ: Action = Action::Boost(Level::Interrupt);
pub const PROC: &str = "/proc";
/// A process whose thread group leader has ended.
pub const ENDED: Process = Process { pid: 4_000_000, start_ticks: 99 };

/// A thread that sleeps until this value is dropped.
pub struct Sleeper {
    pub tid: u32,
    pub start_ticks: u64,
    end: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sleeper {
    pub fn start(attr: &SchedAttr) -> Sleeper {
        let (tell, told) = channel();
        let (end, wait) = channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let _ = wait.recv();
        });
        let tid = told.recv().unwrap();
        sched::set(tid, attr).unwrap();
        let start_ticks = proc::thread_start_ticks(Path::new(PROC), tid).unwrap();
        Sleeper { tid, start_ticks, end: Some(end), thread: Some(thread) }
    }

    pub fn attr(&self) -> SchedAttr {
        sched::get(self.tid).unwrap()
    }

    pub fn thread(&self) -> Thread {
        Thread { tid: self.tid, start_ticks: self.start_ticks }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        drop(self.end.take());
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A table in which vCPU 0 is the sleeper, while `live` is set.
pub struct Table {
    pub thread: Thread,
    pub process: Process,
    pub live: AtomicBool,
    pub is_refused: AtomicBool,
}

impl VcpuTable for Table {
    fn live_thread(&self, index: u32) -> Option<Thread> {
        (index == 0 && self.live.load(Ordering::Relaxed)).then_some(self.thread)
    }

    fn process(&self, _index: u32) -> Process {
        self.process
    }

    fn is_refused(&self, _index: u32) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

pub struct Setting {
    pub dir: PathBuf,
    pub journal: Arc<Journal>,
    pub actuator: Actuator,
    pub table: Table,
    pub sleeper: Sleeper,
}

impl Setting {
    pub fn new(name: &str, attr: &SchedAttr) -> Setting {
        let dir = std::env::temp_dir().join(format!("paracord-act-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let journal = Arc::new(Journal::create(&dir.join("journal"), Path::new(PROC)).unwrap());
        let sleeper = Sleeper::start(attr);
        let thread = sleeper.thread();
        Setting {
            dir,
            actuator: Actuator::new(Arc::clone(&journal), PRIORITY),
            journal,
            table: Table {
                thread,
                process: ENDED,
                live: AtomicBool::new(true),
                is_refused: AtomicBool::new(false),
            },
            sleeper,
        }
    }

    pub fn act(&mut self, actions: &[Action]) {
        for &action in actions {
            self.actuator.take(Message { action, index: 0, tid: self.sleeper.tid, decided_ns: 0 });
        }
        self.actuator.carry_out(&self.table, |_| ());
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub fn nice(value: i32) -> SchedAttr {
    SchedAttr { nice: value, ..SchedAttr::default() }
}
