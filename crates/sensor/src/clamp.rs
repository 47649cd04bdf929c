// SPDX-License-Identifier: GPL-2.0-only
//! What tasks and control groups may ask for (bpf/sched_clamp.h).

use paracord_policy::{PC_CLAMP_GROUP, PC_CLAMP_TASK, pc_clamp, pc_clamp_call};

use crate::{Error, Sensor, load::run};

/// Whom a clamp is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClampOf {
    /// A thread, by its id.
    Task(u32),
    /// A control group that has the cpu controller, by its id (the inode number of its directory).
    Group(u64),
}

/// Ends of what may be asked for, 0..=1024.
#[derive(Clone, Copy, Debug)]
pub struct Clamps {
    /// As set.
    pub own: pc_clamp,
    /// In force: within the groups above; of a task as of when it was last queued.
    pub effective: pc_clamp,
}

impl Sensor {
    /// The clamps; `None` when there is nobody of that id under paracord's scheduler.
    ///
    /// # Errors
    /// [`Error::Bpf`] when the kernel refuses to run the program, or the scheduler was not loaded.
    pub fn clamps(&self, of: ClampOf) -> Result<Option<Clamps>, Error> {
        self.call(of, None)
    }

    /// Sets them; they end with the scheduler, the task or the group. `None` as [`clamps`](Self::clamps).
    ///
    /// # Errors
    /// As [`clamps`](Self::clamps).
    pub fn set_clamp(&self, of: ClampOf, clamp: pc_clamp) -> Result<Option<Clamps>, Error> {
        self.call(of, Some(clamp))
    }

    fn call(&self, of: ClampOf, set: Option<pc_clamp>) -> Result<Option<Clamps>, Error> {
        let (kind, id) = match of {
            ClampOf::Task(tid) => (PC_CLAMP_TASK, tid.into()),
            ClampOf::Group(id) => (PC_CLAMP_GROUP, id),
        };
        let mut call = pc_clamp_call {
            kind,
            id,
            set: set.is_some().into(),
            own: set.unwrap_or_default(),
            ..pc_clamp_call::default()
        };
        run(&self.program("ext_clamp")?, "ext_clamp", &mut call)?;
        Ok((call.found != 0).then_some(Clamps { own: call.own, effective: call.clamp }))
    }
}
