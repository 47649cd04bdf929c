// SPDX-License-Identifier: GPL-2.0-only
//! What tasks and control groups may ask for (bpf/sched_clamp.h).

use std::{io::Read, mem::offset_of};

use libbpf_rs::Iter;
use paracord_policy::{
    PC_CLAMP_GROUP, PC_CLAMP_TASK, PC_CLAMP_UNSET, pc_clamp, pc_clamp_call, pc_kernel_clamp,
};

use crate::{Error, Sensor, object::run};

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

/// Clamps that an ordinary thread asked the kernel for (sched_setattr(2)); at least one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClamps {
    /// Thread id.
    pub tid: u32,
    /// 0..=1024; `None`: not asked for.
    pub min: Option<u32>,
    /// As `min`.
    pub max: Option<u32>,
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

    /// Every ordinary thread that has clamps of the kernel's.
    ///
    /// # Errors
    /// [`Error::Bpf`] when the kernel does not run the program, or the scheduler was not loaded.
    pub fn kernel_clamps(&self) -> Result<Vec<KernelClamps>, Error> {
        const STEP: &str = "ext_kernel_clamps";
        let link = self.program(STEP)?.attach().map_err(Error::bpf(STEP))?;
        let mut bytes = Vec::new();
        Iter::new(&link)
            .map_err(Error::bpf(STEP))?
            .read_to_end(&mut bytes)
            .map_err(|error| Error::Bpf { step: STEP, source: error.into() })?;
        Ok(bytes.chunks_exact(size_of::<pc_kernel_clamp>()).map(kernel_clamps).collect())
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

fn kernel_clamps(record: &[u8]) -> KernelClamps {
    let word = |at: usize| {
        let bytes = record.get(at..).and_then(<[u8]>::first_chunk);
        u32::from_ne_bytes(bytes.copied().unwrap_or_default())
    };
    let asked = |at| Some(word(at)).filter(|value| *value != PC_CLAMP_UNSET);
    KernelClamps {
        tid: word(offset_of!(pc_kernel_clamp, tid)),
        min: asked(offset_of!(pc_kernel_clamp, min)),
        max: asked(offset_of!(pc_kernel_clamp, max)),
    }
}
