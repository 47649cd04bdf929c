// SPDX-License-Identifier: GPL-2.0-only
//! The tracks of a run: one per CPU and one per task. Each has at most one open slice.

use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use paracord_sim::bpf::TaskId;

use super::encode::{Encoder, Flow, Type};

/// A track and whether a slice is open in it.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    pub uuid: u64,
    open: bool,
}

impl Track {
    fn new(uuid: u64) -> Self {
        Self { uuid, open: false }
    }

    /// Begins a slice. The open slice, if there is one, ends.
    pub fn begin<W: Write>(&mut self, to: &mut Encoder<W>, now_ns: u64, name: &str, flow: Flow) {
        self.end(to, now_ns);
        to.event(now_ns, self.uuid, Type::SliceBegin, name, flow);
        self.open = true;
    }

    /// Ends the open slice, if there is one.
    pub fn end<W: Write>(&mut self, to: &mut Encoder<W>, now_ns: u64) {
        if std::mem::take(&mut self.open) {
            to.event(now_ns, self.uuid, Type::SliceEnd, "", Flow::None);
        }
    }
}

/// All tracks of a run.
pub struct Tracks {
    pub cpus: Vec<Track>,
    tasks: HashMap<(TaskId, Rc<str>), Track>,
    /// The track under which the tasks' tracks are shown.
    of_tasks: u64,
}

impl Tracks {
    /// Makes the tracks of the CPUs. The tracks of tasks are added when they are needed. `section`
    /// is a heading for all of them.
    pub fn new<W: Write>(to: &mut Encoder<W>, cpus: usize, section: Option<&str>) -> Self {
        let section = section.map_or(0, |name| to.track(name, 0, 0));
        let of_cpus = to.track("CPUs", section, 0);
        let of_tasks = to.track("tasks", section, 1);
        let cpus = (0..).take(cpus);
        let cpus = cpus.map(|cpu| Track::new(to.track(&format!("CPU {cpu}"), of_cpus, cpu)));
        Self { cpus: cpus.collect(), tasks: HashMap::new(), of_tasks }
    }

    /// The track of a task. If a task number is reused for a task of the same name, as in a chain
    /// of forks, the track is reused, too.
    pub fn task<W: Write>(
        &mut self,
        to: &mut Encoder<W>,
        id: TaskId,
        name: &Rc<str>,
    ) -> &mut Track {
        let parent = self.of_tasks;
        self.tasks.entry((id, Rc::clone(name))).or_insert_with(|| {
            let rank = u64::try_from(id).unwrap_or(u64::MAX);
            Track::new(to.track(name, parent, rank))
        })
    }

    /// Ends all open slices.
    pub fn end<W: Write>(&mut self, to: &mut Encoder<W>, now_ns: u64) {
        for track in &mut self.cpus {
            track.end(to, now_ns);
        }
        // The order must not depend on hashes, so that a run always gives the same trace.
        let mut tasks: Vec<&mut Track> = self.tasks.values_mut().collect();
        tasks.sort_by_key(|track| track.uuid);
        for track in tasks {
            track.end(to, now_ns);
        }
    }
}
