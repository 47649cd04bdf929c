// SPDX-License-Identifier: GPL-2.0-only
//! Clamps: bounds of what tasks and control groups may request (bpf/sched_clamp.h).

use std::{io::Read, mem::offset_of};

use libbpf_rs::Iter;
use paracord_policy::{
    PC_CLAMP_GROUP, PC_CLAMP_TASK, PC_CLAMP_UNSET, pc_clamp, pc_clamp_call, pc_kernel_clamp,
};

use crate::{Error, Sensor, object::run};

/// The owner of a clamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClampOf {
    /// A thread, by its thread ID.
    Task(u32),
    /// A control group with the cpu controller, by its ID (the inode number of its directory).
    Group(u64),
}

/// Bounds of what may be requested, 0..=1024.
#[derive(Clone, Copy, Debug)]
pub struct Clamps {
    /// The clamps as they were set.
    pub own: pc_clamp,
    /// The effective clamps: `own`, limited by the clamps of the ancestor groups. For a task, these
    /// are the values from the time when the task was last enqueued.
    pub effective: pc_clamp,
}

/// Clamps that an ordinary thread has requested from the kernel (sched_setattr(2)): a minimum, a
/// maximum or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClamps {
    /// Thread ID.
    pub tid: u32,
    /// Minimum, 0..=1024; `None`: not requested.
    pub min: Option<u32>,
    /// Maximum, 0..=1024; `None`: not requested.
    pub max: Option<u32>,
}

impl Sensor {
    /// Reads the clamps. `None` if paracord's scheduler has no task or group with this ID.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel refuses to run the program, or the scheduler was not loaded.
    pub fn clamps(&self, of: ClampOf) -> Result<Option<Clamps>, Error> {
        self.call(of, None)
    }

    /// Sets the clamps. They last as long as the scheduler and the task or group exist. Returns
    /// `None` in the same case as [`clamps`](Self::clamps).
    ///
    /// # Errors
    /// As for [`clamps`](Self::clamps).
    pub fn set_clamp(&self, of: ClampOf, clamp: pc_clamp) -> Result<Option<Clamps>, Error> {
        self.call(of, Some(clamp))
    }

    /// All ordinary threads that have requested clamps from the kernel.
    ///
    /// # Errors
    /// [`Error::Bpf`] if the kernel refuses to run the program, or the scheduler was not loaded.
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
