// SPDX-License-Identifier: GPL-2.0-only
//! Loads the sensor's object: the most of it that this kernel takes.

use std::{ffi::OsStr, fs, path::Path};

use libbpf_rs::{Object, ObjectBuilder, OpenObject};

use crate::{
    Error, kernel,
    kicks::{self, Watched, posted_interrupts},
};

/// A compiled BPF object.
macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

static SENSOR: &[u8] = object!("sensor.bpf.o");
/// With the scheduler, best first.
static WITH_SCHEDULER: [&[u8]; 2] = [object!("ext.bpf.o"), object!("ext-without-kick.bpf.o")];

/// How to load the sensor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Go on without KVM: threads reach the sensor by [`crate::Sensor::adopt_stand_in`]
    /// only. For benchmarks and tests of machines without KVM.
    pub without_kvm: bool,
    /// Watch KVM's wakeups of vCPUs even where the hardware posts no interrupts. For tests.
    pub watch_wake_ups: bool,
    /// With paracord's scheduler (sched_ext), for [`crate::Sensor::start_scheduler`].
    pub scheduler: bool,
    /// Records of vCPUs that a user other than root may take; 0: no limit.
    pub vcpus_per_user: u32,
}

/// The program that a kernel may refuse for what it reads of cpufreq.
pub(crate) const WHERE: &str = "sensor_where";
/// The one for kernels that let programs that are run by hand look for tasks, since 6.10.
pub(crate) const ADOPT: &str = "sensor_adopt";
const ADOPTS_SINCE: (u32, u32) = (6, 10);

/// The scheduler's operations (bpf/sched_ops.h).
const OPERATIONS: &str = "paracord";

fn open(bytes: &[u8], watched: Watched, places: bool) -> Result<OpenObject, Error> {
    let mut object = ObjectBuilder::default().open_memory(bytes).map_err(Error::bpf("open"))?;
    for mut program in object.progs_mut() {
        let name = program.name();
        let is_left_out = (!places && name == OsStr::new(WHERE))
            || (name == OsStr::new(ADOPT) && kernel::release() < ADOPTS_SINCE);
        if !watched.loads(name) || is_left_out {
            program.set_autoload(false);
        }
    }
    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::bpf("counting CPUs"))?;
    for mut map in object.maps_mut() {
        if map.name() == OsStr::new(OPERATIONS) && !kernel::keeps_core_order() {
            // `core_sched_before()` is left out.
            let first = map.initial_value_mut().and_then(|value| value.first_chunk_mut());
            if let Some(operation) = first {
                *operation = [0u8; size_of::<usize>()];
            }
        }
        if ["bells", "cpus", "rqs"].iter().any(|name| map.name() == OsStr::new(name)) {
            let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
            map.set_max_entries(cpus).map_err(Error::bpf("sizing cpus"))?;
        }
    }
    Ok(object)
}

/// The most of an object that this kernel's BTF and verifier take.
fn load(bytes: &[u8], options: &Options) -> Result<(Object, Watched), Error> {
    load_with(bytes, options, true).or_else(|_| load_with(bytes, options, false))
}

/// The same, with or without the program that tells where vCPUs are.
fn load_with(bytes: &[u8], options: &Options, places: bool) -> Result<(Object, Watched), Error> {
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let wake_ups = options.watch_wake_ups || posted_interrupts(Path::new("/sys/module"));
    for watched in kicks::candidates(&kallsyms, wake_ups) {
        let attempt = open(bytes, watched, places)
            .and_then(|object| object.load().map_err(Error::bpf("load")));
        if let Ok(object) = attempt {
            return Ok((object, watched));
        }
    }
    let object = open(bytes, Watched::NOTHING, places)?.load().map_err(Error::bpf("load"))?;
    Ok((object, Watched::NOTHING))
}

/// With the scheduler if it is asked for; whether that one can kick.
pub(crate) fn load_best(options: &Options) -> Result<(Object, Watched, bool), Error> {
    if !options.scheduler {
        return load(SENSOR, options).map(|(object, watched)| (object, watched, false));
    }
    let [with_kick, without_kick] = WITH_SCHEDULER;
    match load(with_kick, options) {
        Ok((object, watched)) => Ok((object, watched, true)),
        Err(_) => load(without_kick, options).map(|(object, watched)| (object, watched, false)),
    }
}
