// SPDX-License-Identifier: GPL-2.0-only
//! A Perfetto trace of a run. It shows what each CPU runs, what each task does, which task wakes
//! which, and where the scheduler puts a task. The trace is written while the machine runs, so its
//! memory does not grow with the run.

mod encode;
mod recorder;
mod tracks;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use paracord_sim::bpf::TaskId;
use paracord_sim::kernel::{Observer, Place, Task};
use paracord_sim::mix::Mix;
use paracord_sim::time::Ns;

use encode::Encoder;
use recorder::Recorder;

/// A trace of one run, or of several runs that are shown below each other.
pub struct Trace<W: Write> {
    encoder: Rc<RefCell<Encoder<W>>>,
}

impl<W: Write + 'static> Trace<W> {
    /// Makes a trace that is written to `out`.
    pub fn new(out: W) -> Self {
        Self { encoder: Rc::new(RefCell::new(Encoder::new(out))) }
    }

    /// An observer that records a run. If there are several runs, `section` is the heading of the
    /// tracks of this run.
    pub fn observer(&self, mix: &Mix, section: Option<&str>) -> Box<dyn Observer> {
        let recorder = Recorder::new(Rc::clone(&self.encoder), mix.machine.cpus, section);
        Box::new(Telling(recorder))
    }

    /// Completes the trace. All observers must have been dropped.
    ///
    /// # Panics
    /// If an observer still exists.
    pub fn close(self) -> (W, io::Result<()>) {
        let encoder = Rc::into_inner(self.encoder).expect("no run is traced any more");
        encoder.into_inner().close()
    }
}

/// Translates what an observer is told into what the recorder records.
struct Telling<W: Write>(Recorder<W>);

impl<W: Write> Observer for Telling<W> {
    fn switched(&mut self, now: Ns, cpu: usize, _prev: TaskId, next: &Task, next_id: TaskId) {
        self.0.runs(now, cpu, next, next_id);
    }

    fn woken(&mut self, now: Ns, cpu: usize, task: &Task, id: TaskId) {
        self.0.wakes(now, cpu, task, id);
    }

    fn stopping(&mut self, now: Ns, cpu: usize, task: &Task, id: TaskId) {
        self.0.stops(now, cpu, task, id);
    }

    fn enqueued(&mut self, now: Ns, cpu: usize, task: &Task, id: TaskId) {
        self.0.waits(now, cpu, task, id);
    }

    fn ended(&mut self, now: Ns) {
        self.0.ends(now);
    }

    fn placed(&mut self, now: Ns, place: Place, task: &Task, id: TaskId) {
        self.0.is_placed(now, place, task, id);
    }
}
