// SPDX-License-Identifier: GPL-2.0-only
//! Records what happens in a run as slices, instants and arrows.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use paracord_sim::bpf::TaskId;
use paracord_sim::kernel::{Place, State, Task};
use paracord_sim::time::Ns;

use super::encode::{Encoder, Flow, Type};
use super::tracks::Tracks;

/// `SCX_DSQ_GLOBAL`. The number of each other queue is the number of its CPU.
const DSQ_GLOBAL: u64 = 0x8000_0000_0000_0001;

/// Records one run.
pub struct Recorder<W: Write> {
    encoder: Rc<RefCell<Encoder<W>>>,
    cpus: usize,
    tracks: Tracks,
    /// Arrows that begin at the waker of a task, and end where the task begins to wait.
    woken: HashMap<TaskId, u64>,
}

impl<W: Write> Recorder<W> {
    /// Begins a run on a machine with `cpus` CPUs.
    pub fn new(encoder: Rc<RefCell<Encoder<W>>>, cpus: usize, section: Option<&str>) -> Self {
        let tracks = Tracks::new(&mut encoder.borrow_mut(), cpus, section);
        Self { encoder, cpus, tracks, woken: HashMap::new() }
    }

    /// A CPU runs a task from now on.
    pub fn runs(&mut self, now_ns: Ns, cpu: usize, task: &Task, id: TaskId) {
        let to = &mut self.encoder.borrow_mut();
        if id < self.cpus {
            self.tracks.cpus[cpu].end(to, now_ns);
            return;
        }
        self.tracks.cpus[cpu].begin(to, now_ns, &task.name, Flow::None);
        let track = self.tracks.task(to, id, &task.name);
        track.begin(to, now_ns, &format!("runs on CPU {cpu}"), Flow::None);
    }

    /// A task that was running stops running.
    pub fn stops(&mut self, now_ns: Ns, cpu: usize, task: &Task, id: TaskId) {
        if id < self.cpus {
            return;
        }
        let to = &mut self.encoder.borrow_mut();
        let track = self.tracks.task(to, id, &task.name);
        match task.state {
            State::Runnable => {
                track.begin(to, now_ns, &format!("waits for CPU {cpu}"), Flow::None);
            }
            State::Sleeping => track.begin(to, now_ns, "sleeps", Flow::None),
            State::Dead => track.end(to, now_ns),
        }
    }

    /// A CPU wakes a task.
    pub fn wakes(&mut self, now_ns: Ns, cpu: usize, task: &Task, id: TaskId) {
        let to = &mut self.encoder.borrow_mut();
        let flow = to.flow();
        let track = self.tracks.cpus[cpu].uuid;
        to.event(now_ns, track, Type::Instant, &format!("wakes {}", task.name), Flow::From(flow));
        self.woken.insert(id, flow);
    }

    /// A task waits in a CPU's run queue.
    pub fn waits(&mut self, now_ns: Ns, cpu: usize, task: &Task, id: TaskId) {
        let to = &mut self.encoder.borrow_mut();
        let flow = self.woken.remove(&id).map_or(Flow::None, Flow::To);
        let track = self.tracks.task(to, id, &task.name);
        track.begin(to, now_ns, &format!("waits for CPU {cpu}"), flow);
    }

    /// The scheduler has put a task into a queue.
    pub fn is_placed(&mut self, now_ns: Ns, place: Place, task: &Task, id: TaskId) {
        let name = match place {
            Place::Shared(DSQ_GLOBAL) => "into the global queue".to_owned(),
            Place::Shared(queue) => format!("into the queue of CPU {queue}"),
            Place::Local { cpu, front, preempts } => {
                let how = match (front, preempts) {
                    (_, true) => ", preempts",
                    (true, _) => ", at its front",
                    _ => "",
                };
                format!("to CPU {cpu}{how}")
            }
        };
        let to = &mut self.encoder.borrow_mut();
        let track = self.tracks.task(to, id, &task.name).uuid;
        to.event(now_ns, track, Type::Instant, &name, Flow::None);
    }
    /// The run has ended.
    pub fn ends(&mut self, now_ns: Ns) {
        self.tracks.end(&mut self.encoder.borrow_mut(), now_ns);
    }
}
