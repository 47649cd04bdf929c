// SPDX-License-Identifier: GPL-2.0-only
//! Loads as much of the sensor's BPF object as this kernel accepts.

use std::{ffi::OsStr, path::Path};

use libbpf_rs::{Object, ObjectBuilder, OpenMapMut, OpenObject};

use crate::{
    Error, kernel,
    kicks::{self, Watched, posted_interrupts},
    symbols,
};

/// A compiled BPF object.
macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

static SENSOR: &[u8] = object!("sensor.bpf.o");
/// The objects that contain the scheduler. The first one that the kernel accepts is used.
static WITH_SCHEDULER: [&[u8]; 2] = [object!("ext.bpf.o"), object!("ext-without-kick.bpf.o")];

/// How to load the sensor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Do not fail without KVM. Without KVM, threads get records only through
    /// [`crate::Sensor::adopt_stand_in`]. For benchmarks, and for tests on machines without KVM.
    pub without_kvm: bool,
    /// Watch KVM's wakeups of vCPUs even if the hardware posts no interrupts. For tests.
    pub watch_wake_ups: bool,
    /// Also load paracord's scheduler (sched_ext), for [`crate::Sensor::start_scheduler`].
    pub scheduler: bool,
    /// Number of vCPU records that a user other than root may take; 0: no limit.
    pub vcpus_per_user: u32,
}

/// The program that reports where vCPUs run. A kernel may refuse this program, because it reads
/// data structures of cpufreq.
pub(crate) const WHERE: &str = "sensor_where";
/// A program that runs on request and looks up tasks. Kernels since 6.10 accept it.
pub(crate) const ADOPT: &str = "sensor_adopt";
/// The program that tells of new threads. It is of no use without [`ADOPT`].
const FORK: &str = "sensor_fork";
const ADOPTS_SINCE: (u32, u32) = (6, 10);

/// The programs for the KVM tracepoints that show announcements. Each architecture has one of these
/// tracepoints.
const ANNOUNCE_MSR: &str = "sensor_announce_msr";
const ANNOUNCE_HVC: &str = "sensor_announce_hvc";
/// The program for the tracepoint of this architecture.
pub(crate) const ANNOUNCE: &str =
    if cfg!(target_arch = "aarch64") { ANNOUNCE_HVC } else { ANNOUNCE_MSR };

/// The programs at the tracepoints that show the guest's kick, for counters in the guest's own
/// memory. Each architecture has one of these tracepoints.
const BELL_HYPERCALL: &str = "sensor_bell_hypercall";
const BELL_HVC: &str = "sensor_bell_hvc";
/// The program for the tracepoint of this architecture.
pub(crate) const BELL: &str = if cfg!(target_arch = "aarch64") { BELL_HVC } else { BELL_HYPERCALL };

/// End of the name of the map that contains the constant `writes_guests` (bpf/host_line.h).
const WRITES_GUESTS: &[u8] = b"rodata.writes";

/// End of the name of the map that contains the constant `page_shift` (bpf/translate.h).
const PAGE_SHIFT: &[u8] = b"rodata.pages";

/// End of the name of the map that contains the constant `exits_kick` (bpf/sched_boost.h).
const EXITS_KICK: &[u8] = b"rodata.kicks";

/// Name of the map of the scheduler's operations (bpf/sched_ops.h).
const OPERATIONS: &str = "paracord";

/// What the loader knows about the running kernel.
pub(crate) struct Found {
    /// The content of /proc/kallsyms.
    pub symbols: String,
    /// Whether the sensor can write host lines into guests' own memory.
    pub writes_guests: bool,
}

impl Found {
    pub fn look() -> Found {
        let writes_guests = kernel::translates() && kernel::writes_user_memory();
        Found { symbols: symbols::read(), writes_guests }
    }
}

/// Which programs of an object can kick a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kicks {
    /// All of them.
    Everywhere,
    /// The scheduler's operations and timers, but not the sensor's programs. Linux 6.12 does not
    /// let a program at a raw tracepoint kick a CPU.
    InScheduler,
    /// None.
    Nowhere,
}

/// The optional parts of an object that are to be loaded.
#[derive(Clone, Copy)]
struct Parts {
    /// The program [`WHERE`].
    places: bool,
    /// The kicks of the sensor's programs.
    exits_kick: bool,
}

fn open(bytes: &[u8], watched: Watched, found: &Found, parts: Parts) -> Result<OpenObject, Error> {
    let mut object = ObjectBuilder::default().open_memory(bytes).map_err(Error::bpf("open"))?;
    for mut program in object.progs_mut() {
        let name = program.name();
        let announces = name == OsStr::new(ANNOUNCE_MSR) || name == OsStr::new(ANNOUNCE_HVC);
        let rings = name == OsStr::new(BELL_HYPERCALL) || name == OsStr::new(BELL_HVC);
        let is_left_out = (!parts.places && name == OsStr::new(WHERE))
            || (announces && (name != OsStr::new(ANNOUNCE) || !kernel::translates()))
            || (rings && (name != OsStr::new(BELL) || !found.writes_guests))
            || ((name == OsStr::new(ADOPT) || name == OsStr::new(FORK))
                && kernel::release() < ADOPTS_SINCE);
        if !watched.loads(name) || is_left_out {
            program.set_autoload(false);
        }
    }
    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::bpf("counting CPUs"))?;
    for mut map in object.maps_mut() {
        if map.name() == OsStr::new(OPERATIONS) && !kernel::keeps_core_order() {
            // Leaves out `core_sched_before()`, the first member of the operations.
            begin_with(&mut map, [0u8; size_of::<usize>()]);
        }
        if map.name().as_encoded_bytes().ends_with(WRITES_GUESTS) && found.writes_guests {
            begin_with(&mut map, 1u32.to_ne_bytes());
        }
        if map.name().as_encoded_bytes().ends_with(PAGE_SHIFT) {
            begin_with(&mut map, rustix::param::page_size().trailing_zeros().to_ne_bytes());
        }
        if map.name().as_encoded_bytes().ends_with(EXITS_KICK) && !parts.exits_kick {
            begin_with(&mut map, 0u32.to_ne_bytes());
        }
        if ["bells", "cpus", "rqs"].iter().any(|name| map.name() == OsStr::new(name)) {
            let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
            map.set_max_entries(cpus).map_err(Error::bpf("sizing cpus"))?;
        }
    }
    Ok(object)
}

/// Stores the first bytes of a map's initial value.
fn begin_with<const N: usize>(map: &mut OpenMapMut<'_>, bytes: [u8; N]) {
    if let Some(first) = map.initial_value_mut().and_then(|value| value.first_chunk_mut()) {
        *first = bytes;
    }
}

/// Loads as much of an object as this kernel's BTF and verifier accept.
fn load(
    bytes: &[u8],
    options: &Options,
    found: &Found,
    exits_kick: bool,
) -> Result<(Object, Watched), Error> {
    let load = |places| load_parts(bytes, options, found, Parts { places, exits_kick });
    load(true).or_else(|_| load(false))
}

fn load_parts(
    bytes: &[u8],
    options: &Options,
    found: &Found,
    parts: Parts,
) -> Result<(Object, Watched), Error> {
    let wake_ups = options.watch_wake_ups || posted_interrupts(Path::new("/sys/module"));
    for watched in kicks::candidates(&found.symbols, wake_ups) {
        let attempt = open(bytes, watched, found, parts)
            .and_then(|object| object.load().map_err(Error::bpf("load")));
        if let Ok(object) = attempt {
            return Ok((object, watched));
        }
    }
    let object = open(bytes, Watched::NOTHING, found, parts)?.load().map_err(Error::bpf("load"))?;
    Ok((object, Watched::NOTHING))
}

/// Loads the sensor, with the scheduler if `options` ask for it, and with as many kicks as this
/// kernel accepts.
pub(crate) fn load_best(
    options: &Options,
    found: &Found,
) -> Result<(Object, Watched, Kicks), Error> {
    let load = |object, kicks| {
        let loaded = load(object, options, found, kicks == Kicks::Everywhere);
        loaded.map(|(object, watched)| (object, watched, kicks))
    };
    if !options.scheduler {
        return load(SENSOR, Kicks::Nowhere);
    }
    let [with_kick, without_kick] = WITH_SCHEDULER;
    load(with_kick, Kicks::Everywhere)
        .or_else(|_| load(with_kick, Kicks::InScheduler))
        .or_else(|_| load(without_kick, Kicks::Nowhere))
}
