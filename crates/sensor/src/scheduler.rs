// SPDX-License-Identifier: GPL-2.0-only
//! paracord's scheduler (bpf/sched_ops.h): starts and stops it, and reports its state.

use std::{
    ffi::OsStr,
    fs, io,
    ptr::NonNull,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use libbpf_rs::{AsRawLibbpf, Link, MapCore, Object, libbpf_sys};
use paracord_policy::{fair, pc_energy, pc_ext_exit, pc_rq, pc_unrecorded, topology::near};

use crate::{Array, Error, kernel::keeps_turns_on_cores, object::map_array, topology};

const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
const MAP: &str = "paracord";
/// Longest time that another scheduler may take to unload.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// State of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The scheduler was not started, or was stopped.
    #[default]
    Absent,
    /// The scheduler runs the host's ordinary tasks.
    Running,
    /// The kernel has unloaded the scheduler.
    Ended {
        /// The kernel's name for the reason.
        reason: String,
        /// The kernel's message, which is often empty.
        message: String,
    },
}

/// Number of existing control groups that have no record of their own. Their tasks count as tasks
/// of the nearest ancestor group that has a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Groups for which no record was left.
    pub full: u32,
    /// Groups that are nested too deeply.
    pub deep: u32,
}

/// Whether the kernel has sched_ext.
pub(crate) fn is_there() -> bool {
    fs::exists(STATE).unwrap_or_default()
}

/// Whether a kernel with this version (`uname -v`) is PREEMPT_RT.
///
/// No file shows whether a kernel is PREEMPT_RT: /sys/kernel/realtime exists only in kernels with
/// the out-of-tree patches.
#[must_use]
pub fn is_preempt_rt(version: &str) -> bool {
    version.contains("PREEMPT_RT")
}

/// Version of the running kernel (`uname -v`).
pub(crate) fn kernel_version() -> String {
    fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default()
}

/// Checks whether a scheduler may be started, as far as this can be known without starting it.
///
/// # Errors
/// [`Error::NoSchedExt`] and [`Error::OtherScheduler`] name the obstacle.
fn may_start() -> Result<(), Error> {
    let start = Instant::now();
    loop {
        match fs::read_to_string(STATE).as_deref().map(str::trim) {
            Err(_) => return Err(Error::NoSchedExt),
            Ok("disabled") => return Ok(()),
            // A scheduler is being unloaded, for example paracord's own after a restart of the
            // daemon.
            Ok("disabling") if start.elapsed() < PATIENCE => thread::sleep(LOOK),
            Ok(_) => return Err(Error::OtherScheduler(loaded())),
        }
    }
}

fn loaded() -> String {
    fs::read_to_string(NAME).map_or_else(|_| "unknown".into(), |name| name.trim().to_owned())
}

/// Whether a CPU is offline. The kernel tells the scheduler about CPUs that go online or offline
/// later, but not about CPUs that are offline already. CPUs that cannot be taken offline have no
/// file `online`, and count as online.
fn is_offline(cpu: usize) -> bool {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/online"))
        .is_ok_and(|online| online.trim() == "0")
}

fn online_cpus() -> u32 {
    // SAFETY: the call takes and returns plain integers.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(online).unwrap_or(1)
}

const NOT_ENDED: pc_ext_exit =
    pc_ext_exit { kind: 0, reserved: 0, code: 0, reason: [0; 128], message: [0; 1024] };

/// Like `MapMut::attach_struct_ops()`, but for an object that is borrowed elsewhere. The scheduler
/// can be attached again after its link was dropped.
fn attach(object: &Object) -> Result<Link, libbpf_rs::Error> {
    let missing = || libbpf_rs::Error::from(io::Error::from(io::ErrorKind::NotFound));
    let map = object.maps().find(|map| map.name() == OsStr::new(MAP)).ok_or_else(missing)?;
    // SAFETY: the map belongs to a loaded object, which outlives the call. libbpf only reads what
    // it stored in the map when it loaded the object, and makes two system calls.
    let link = unsafe { libbpf_sys::bpf_map__attach_struct_ops(map.as_libbpf_object().as_ptr()) };
    let link = NonNull::new(link).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: libbpf has just returned this link, and nothing else owns it.
    Ok(unsafe { Link::from_ptr(link) })
}

fn text(bytes: &[core::ffi::c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The scheduler. Dropping this value unloads the scheduler.
pub(crate) struct Scheduler {
    exit: Array<pc_ext_exit>,
    rqs: Array<pc_rq>,
    energy: Array<pc_energy>,
    unrecorded: Array<pc_unrecorded>,
    /// The link, while the scheduler is started.
    link: Mutex<Option<Link>>,
}

impl Scheduler {
    /// Finds the scheduler's records in a loaded object. Does not start the scheduler.
    pub(crate) fn find(object: &Object) -> Result<Self, Error> {
        Ok(Self {
            exit: map_array(object, "ext_exit")?,
            rqs: map_array(object, "rqs")?,
            energy: map_array(object, "energy")?,
            unrecorded: map_array(object, "unrecorded")?,
            link: Mutex::default(),
        })
    }

    fn link(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes the machine's topology to the scheduler, sets the slices of the CPUs, and hands
    /// the host's ordinary tasks to the scheduler, unless it already has them. Returns when the
    /// scheduler has them.
    pub(crate) fn start(&self, object: &Object) -> Result<(), Error> {
        let mut link = self.link();
        if link.is_some() {
            return Ok(());
        }
        may_start()?;
        let slice_ns = fair::slice_ns(online_cpus());
        let near = near(&topology::read(self.rqs.len()));
        let tickless = keeps_turns_on_cores().then(topology::tickless).unwrap_or_default();
        for (cpu, near) in near.into_iter().enumerate() {
            let offline = is_offline(cpu);
            let cpu = u32::try_from(cpu).unwrap_or(u32::MAX);
            self.rqs.prepare(cpu, near, slice_ns, offline, tickless.contains(cpu));
        }
        self.exit.write(0, &NOT_ENDED);
        match attach(object) {
            Ok(attached) => *link = Some(attached),
            Err(source) => {
                return Err(match may_start() {
                    Err(other @ Error::OtherScheduler(_)) => other,
                    _ => Error::Scheduler(source),
                });
            }
        }
        Ok(())
    }

    /// Gives the host's ordinary tasks back to the kernel's own scheduler. Returns when that
    /// scheduler has them.
    pub(crate) fn stop(&self) {
        drop(self.link().take());
    }

    /// Sets, for each CPU, the mechanisms of the performance policy that are active.
    pub(crate) fn set_features(&self, features: impl Fn(u32) -> u32) {
        for cpu in 0..u32::try_from(self.rqs.len()).unwrap_or(u32::MAX) {
            self.rqs.set_features(cpu, features(cpu));
        }
    }

    /// Stores the energy model, and each CPU's domain and capacity in it. They have no effect until
    /// `PC_PERF_PLACE` is active.
    pub(crate) fn set_energy(&self, model: &pc_energy, cpus: &[(u32, u32)]) {
        for (cpu, (domain, capacity)) in (0..).zip(cpus) {
            self.rqs.set_place(cpu, *domain, *capacity);
        }
        self.energy.write(0, model);
    }

    /// Number of control groups without a record.
    pub(crate) fn unrecorded(&self) -> Unrecorded {
        let now = self.unrecorded.read(0);
        now.map_or_else(Unrecorded::default, |now| Unrecorded { full: now.full, deep: now.deep })
    }

    /// The scheduler's state.
    pub(crate) fn state(&self) -> State {
        if self.link().is_none() {
            return State::Absent;
        }
        match self.exit.read(0) {
            Some(why) if why.kind != 0 => {
                State::Ended { reason: text(&why.reason), message: text(&why.message) }
            }
            _ => State::Running,
        }
    }
}
