// SPDX-License-Identifier: GPL-2.0-only
//! paracord's scheduler (bpf/sched_ops.h): starting it, and what became of it.

use std::{
    ffi::OsStr,
    fs, io, thread,
    time::{Duration, Instant},
};

use libbpf_rs::{Link, MapCore, Object};
use paracord_policy::{fair, pc_energy, pc_ext_exit, pc_rq, pc_unrecorded};

use crate::{Array, Error, load::map_array, topology};

const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
const MAP: &str = "paracord";
/// How long a scheduler may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// How the scheduler fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It was not asked for.
    #[default]
    Absent,
    /// It has the host's ordinary tasks.
    Running,
    /// The kernel has unloaded it.
    Ended {
        /// The kernel's word for the reason.
        reason: String,
        /// The kernel's message, often empty.
        message: String,
    },
}

/// Control groups, there now, whose tasks count as those of the next group above: they have no record of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// No record was left.
    pub full: u32,
    /// They lie too deep.
    pub deep: u32,
}

/// Whether a scheduler may be loaded at all, before the kernel is asked.
///
/// # Errors
/// [`Error::NoSchedExt`] and [`Error::OtherScheduler`] say what stands in the way.
pub(crate) fn may_start() -> Result<(), Error> {
    let start = Instant::now();
    loop {
        match fs::read_to_string(STATE).as_deref().map(str::trim) {
            Err(_) => return Err(Error::NoSchedExt),
            Ok("disabled") => return Ok(()),
            // One that is on its way out, as ours is after a restart of the daemon.
            Ok("disabling") if start.elapsed() < PATIENCE => thread::sleep(LOOK),
            Ok(_) => return Err(Error::OtherScheduler(loaded())),
        }
    }
}

fn loaded() -> String {
    fs::read_to_string(NAME).map_or_else(|_| "unknown".into(), |name| name.trim().to_owned())
}

/// Lays the ring of CPUs, sets their slices, and hands the host's ordinary tasks to the scheduler.
pub(crate) fn start(object: &mut Object) -> Result<Scheduler, Error> {
    let exit = map_array(object, "ext_exit")?;
    let rqs = map_array::<pc_rq>(object, "rqs")?;
    let energy = map_array(object, "energy")?;
    let unrecorded = map_array(object, "unrecorded")?;
    let slice_ns = fair::slice_ns(online_cpus());
    let next = topology::ring(&topology::read(), rqs.len());
    for (cpu, next) in next.into_iter().enumerate() {
        let offline = is_offline(cpu);
        rqs.prepare(u32::try_from(cpu).unwrap_or(u32::MAX), next, slice_ns, offline);
    }
    let mut map = object
        .maps_mut()
        .find(|map| map.name() == OsStr::new(MAP))
        .ok_or_else(|| Error::Map { map: MAP, source: io::ErrorKind::NotFound.into() })?;
    match map.attach_struct_ops() {
        Ok(link) => Ok(Scheduler { exit, rqs, energy, unrecorded, _link: link }),
        Err(source) => Err(match may_start() {
            Err(other @ Error::OtherScheduler(_)) => other,
            _ => Error::Scheduler(source),
        }),
    }
}

/// The kernel tells the scheduler of CPUs that come and go, not of those that are gone. Some have no such file.
fn is_offline(cpu: usize) -> bool {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"))
        .is_ok_and(|online| online.trim() == "0")
}

fn online_cpus() -> u32 {
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

fn text(bytes: &[core::ffi::c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The scheduler in force. Dropping it unloads it.
pub(crate) struct Scheduler {
    exit: Array<pc_ext_exit>,
    rqs: Array<pc_rq>,
    energy: Array<pc_energy>,
    unrecorded: Array<pc_unrecorded>,
    _link: Link,
}

impl Scheduler {
    /// Puts mechanisms in force, CPU by CPU.
    pub(crate) fn set_features(&self, features: impl Fn(u32) -> u32) {
        for cpu in 0..u32::try_from(self.rqs.len()).unwrap_or(u32::MAX) {
            self.rqs.set_features(cpu, features(cpu));
        }
    }

    /// Stores the energy model, and each CPU's domain and capacity in it. Nothing acts on it before
    /// `PC_PERF_PLACE` is in force.
    pub(crate) fn set_energy(&self, model: &pc_energy, cpus: &[(u32, u32)]) {
        for (cpu, (domain, capacity)) in (0..).zip(cpus) {
            self.rqs.set_place(cpu, *domain, *capacity);
        }
        self.energy.write(0, model);
    }

    /// Control groups without a record.
    pub(crate) fn unrecorded(&self) -> Unrecorded {
        let now = self.unrecorded.read(0);
        now.map_or_else(Unrecorded::default, |now| Unrecorded { full: now.full, deep: now.deep })
    }

    /// How it fares.
    pub(crate) fn state(&self) -> State {
        match self.exit.read(0) {
            Some(why) if why.kind != 0 => {
                State::Ended { reason: text(&why.reason), message: text(&why.message) }
            }
            _ => State::Running,
        }
    }
}
