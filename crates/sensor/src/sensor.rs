// SPDX-License-Identifier: GPL-2.0-only
//! The loaded and attached sensor: its records and its operations.

use std::{
    ffi::OsStr,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, Program, ProgramMut};
use paracord_policy::{
    PC_CAPACITY, PC_NO_QUEUE, PC_TICK_MAX, pc_adoption, pc_announcement, pc_clamp, pc_cpu,
    pc_domain_image, pc_energy, pc_pmu_mail, pc_reserve, pc_task, pc_tick, pc_vcpu, pc_vm,
};

use crate::{
    Array, Error, Options, Refusals, Reserves, Vcpu, kernel,
    load::{ADOPT, ANNOUNCE, BELL, Found, Kicks, WHERE, load_best},
    object::{find_map, map_array, run},
    scheduler::{self, Scheduler},
    symbols,
    users::{self, Users},
};

/// The features of this kernel that the sensor can use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The sensor sees VM exits. It can therefore find vCPU threads and end boosts at exits.
    pub kvm_exit: bool,
    /// The function of KVM that the reason IRQ depends on. `None`: the sensor does not see
    /// interrupts for a preempted vCPU.
    pub kick: Option<&'static str>,
    /// The hardware posts interrupts, so KVM's wakeups are watched in addition to its kicks.
    pub wake_ups: bool,
    /// The frequencies of host CPUs, and the CPUs on which vCPUs run, can be read.
    pub whereabouts: bool,
    /// The sensor sees announcements of regions in guests' own memory.
    pub announcements: bool,
    /// The sensor sees requests for counters in guests' own memory, and can write the answers.
    pub counters_in_memory: bool,
    /// The sensor can write host lines into regions in guests' own memory.
    pub host_lines: bool,
    /// BTF contains KVM's types, so vCPU IDs and preempt counts can be read.
    pub kvm_btf: bool,
    /// The sensor can kick CPUs. Under paracord's scheduler, the boost of a waiting vCPU, and the
    /// end of a boost, then take effect immediately.
    pub boosts_kick: bool,
    /// The scheduler can kick CPUs, so it can hold back tasks whose quota is used up.
    pub scheduler_kicks: bool,
}

/// Programs that run on request and are not attached.
const BY_HAND: [&str; 3] = ["sensor_tick", WHERE, ADOPT];

/// A static key of x86 kernels. Its type is not in BTF, so this library looks up the key among all
/// symbols. (libbpf would have to search all symbols as well.)
const INVARIANCE_KEY: &str = "arch_scale_freq_key";

/// The loaded and attached sensor. Dropping it detaches everything.
pub struct Sensor {
    vcpus: Array<pc_vcpu>,
    vms: Array<pc_vm>,
    cpus: Array<pc_cpu>,
    reserves: Array<pc_reserve>,
    announcements: Array<pc_announcement>,
    domain_table: Array<pc_domain_image>,
    pmu_mails: Array<pc_pmu_mail>,
    adoption: Array<pc_adoption>,
    pub(crate) users: Users,
    /// Address of the kernel's key for frequency invariance (bpf/whereabouts.h); 0: there is none.
    pub(crate) invariance_key: u64,
    capabilities: Capabilities,
    scheduler: Option<Scheduler>,
    links: Vec<Link>,
    object: Object,
}

impl Sensor {
    /// Loads and attaches the sensor. It finds vCPU threads from then on.
    ///
    /// Several variants may be tried. libbpf's messages about variants that the kernel refuses go
    /// to [`crate::set_print`].
    ///
    /// # Errors
    ///
    /// [`Error`] names what this kernel lacks.
    pub fn load(options: &Options) -> Result<Self, Error> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(Error::NoBtf);
        }
        if options.scheduler && !scheduler::is_there() {
            return Err(Error::NoSchedExt);
        }
        if options.scheduler && scheduler::is_preempt_rt(&scheduler::kernel_version()) {
            return Err(Error::Realtime);
        }
        let found = Found::look();
        let (object, watched, kicks) = load_best(options, &found)?;
        let vcpus = map_array(&object, "vcpus")?;
        let whereabouts = object.progs().any(|p| p.name() == OsStr::new(WHERE) && p.autoload());
        let mut sensor = Self {
            vms: map_array(&object, "vms")?,
            cpus: map_array(&object, "cpus")?,
            reserves: map_array(&object, "reserves")?,
            announcements: map_array(&object, "announcements")?,
            domain_table: map_array(&object, "domain_images")?,
            pmu_mails: map_array(&object, "pmu_mails")?,
            adoption: map_array(&object, "adoption")?,
            users: Users::default(),
            invariance_key: symbols::address_of(&found.symbols, INVARIANCE_KEY).unwrap_or(0),
            capabilities: Capabilities {
                kvm_exit: true,
                kick: watched.kick(),
                wake_ups: watched.wake_ups(),
                whereabouts,
                announcements: false,
                counters_in_memory: false,
                host_lines: found.writes_guests,
                kvm_btf: kernel::has_kvm_btf(),
                boosts_kick: kicks == Kicks::Everywhere,
                scheduler_kicks: kicks != Kicks::Nowhere,
            },
            scheduler: None,
            links: Vec::new(),
            vcpus,
            object,
        };
        for index in 0..u32::try_from(sensor.vcpus.len()).unwrap_or(u32::MAX) {
            sensor.offer(index)?;
        }
        users::make_shared_entry(&sensor.object)?;
        sensor.set_vcpus_per_user(options.vcpus_per_user);
        // Reserve 0 belongs to no group and is never empty.
        sensor.reserves.add_ns(0, 1 << 62);
        sensor.attach(options)?;
        if options.scheduler {
            sensor.scheduler = Some(Scheduler::find(&sensor.object)?);
        }
        Ok(sensor)
    }

    fn attach(&mut self, options: &Options) -> Result<(), Error> {
        for program in self.object.progs_mut() {
            // Skips the operations of the scheduler, and programs that run on request.
            if !program.autoload()
                || !program.name().as_encoded_bytes().starts_with(b"sensor_")
                || BY_HAND.iter().any(|name| program.name() == OsStr::new(name))
            {
                continue;
            }
            let is_exit = program.name() == OsStr::new("sensor_exit");
            let announces = program.name() == OsStr::new(ANNOUNCE);
            let rings = program.name() == OsStr::new(BELL);
            match program.attach() {
                Ok(link) => {
                    self.capabilities.announcements |= announces;
                    self.capabilities.counters_in_memory |= rings;
                    self.links.push(link);
                }
                Err(_) if announces || rings => {}
                Err(_) if is_exit && options.without_kvm => self.capabilities.kvm_exit = false,
                Err(error) if is_exit => return Err(Error::NoKvm(error)),
                Err(error) => return Err(Error::Bpf { step: "attach", source: error }),
            }
        }
        Ok(())
    }

    pub(crate) fn map(&self, name: &'static str) -> Result<Map<'_>, Error> {
        find_map(&self.object, name)
    }

    /// Hands the host's ordinary tasks to paracord's scheduler. Returns when the scheduler has
    /// them. Does nothing if the scheduler already has them.
    ///
    /// # Errors
    ///
    /// [`Error::OtherScheduler`], [`Error::NoSchedExt`] or [`Error::Scheduler`].
    pub fn start_scheduler(&self) -> Result<(), Error> {
        self.scheduler.as_ref().ok_or(Error::NoSchedExt)?.start(&self.object)
    }

    /// Gives the tasks back to the kernel's own scheduler. Returns when that scheduler has them.
    pub fn stop_scheduler(&self) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.stop();
        }
    }

    /// Whether there is a scheduler that [`Sensor::start_scheduler`] can start.
    #[must_use]
    pub fn has_scheduler(&self) -> bool {
        self.scheduler.is_some()
    }

    /// State of paracord's scheduler.
    #[must_use]
    pub fn scheduler(&self) -> scheduler::State {
        self.scheduler.as_ref().map_or(scheduler::State::Absent, Scheduler::state)
    }

    /// Number of control groups for which paracord's scheduler has no record; 0 without the
    /// scheduler.
    #[must_use]
    pub fn unrecorded(&self) -> scheduler::Unrecorded {
        self.scheduler.as_ref().map(Scheduler::unrecorded).unwrap_or_default()
    }

    /// The features of this kernel that the sensor can use.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The vCPUs.
    #[must_use]
    pub fn vcpus(&self) -> &Array<pc_vcpu> {
        &self.vcpus
    }

    /// The VMs.
    #[must_use]
    pub fn vms(&self) -> &Array<pc_vm> {
        &self.vms
    }

    /// Each host CPU's budget of boosted time, by CPU number.
    #[must_use]
    pub fn cpus(&self) -> &Array<pc_cpu> {
        &self.cpus
    }

    /// Numbers of boosts, and of ends of boosts, of which no message has told the daemon, because
    /// only paracord's scheduler acts on them.
    #[must_use]
    pub fn unreported(&self) -> (u64, u64) {
        let cpus = (0..).map_while(|cpu| self.cpus.read(cpu));
        cpus.fold((0, 0), |(begun, ended), cpu| (begun + cpu.boosts, ended + cpu.unboosts))
    }

    /// The regions that guests have announced, by the index of their VM.
    #[must_use]
    pub fn announcements(&self) -> &Array<pc_announcement> {
        &self.announcements
    }

    /// The performance domains that the sensor writes into regions in guests' own memory.
    #[must_use]
    pub fn domain_table(&self) -> &Array<pc_domain_image> {
        &self.domain_table
    }

    /// Requests for counters from guests without a device, and the answers, by the index of the
    /// vCPU.
    #[must_use]
    pub fn pmu_mails(&self) -> &Array<pc_pmu_mail> {
        &self.pmu_mails
    }

    /// The reserves: the CPU time that quotas leave for boosts.
    #[must_use]
    pub fn reserves(&self) -> &Array<pc_reserve> {
        &self.reserves
    }

    fn offer(&self, index: u32) -> Result<(), Error> {
        self.map("free_indices")?
            .update(&[], &index.to_ne_bytes(), MapFlags::ANY)
            .map_err(Error::bpf("offering a vCPU index"))
    }

    /// Gives back the index of a vCPU whose thread is gone. The record is zeroed.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses the update.
    pub fn release(&self, vcpu: &Vcpu<'_>) -> Result<(), Error> {
        if let Some(uid) = vcpu.charged_user() {
            self.give_back(uid)?;
        }
        vcpu.clear();
        // A later vCPU with this index must not get an answer that is meant for this vCPU.
        self.pmu_mails.clear(vcpu.index());
        self.offer(vcpu.index())
    }

    /// Takes a free index; `None` if all are in use.
    pub(crate) fn take_index(&self) -> Result<Option<u32>, Error> {
        let bytes = self.map("free_indices")?.lookup_and_delete(&[]).ok().flatten();
        Ok(bytes.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?))))
    }

    /// Counts one record of this user as given back.
    pub(crate) fn give_back(&self, uid: u32) -> Result<(), Error> {
        self.users.give_back(&self.object, uid)
    }

    /// Forgets users that hold no records, if the sensor remembers many users. Call this function
    /// from time to time.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses.
    pub fn forget_users(&self) -> Result<(), Error> {
        self.users.forget(&self.object, &self.vcpus)
    }

    /// Sets how many vCPU records a user other than root may take from now on; 0: no limit. Records
    /// that are already taken are not affected.
    pub fn set_vcpus_per_user(&self, records: u32) {
        self.adoption.set_per_user(records);
    }

    /// Sets whether the scheduler applies boosts, so that no thread is made real-time. CPU quotas
    /// still limit threads that are boosted this way.
    pub fn set_own_boosts(&self, own: bool) {
        self.adoption.set_own_boosts(own);
    }

    /// Number of threads so far that ran a vCPU and got no record.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.adoption.refusals()
    }

    /// Lets the policy evaluate these vCPUs now. `events`: `PC_EV_TICK` or `PC_EV_CONFIG`.
    ///
    /// Call this function from the real-time thread, because events of these vCPUs wait until it
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if the kernel refuses to run the program.
    pub fn evaluate(&self, events: u32, indices: &[u32]) -> Result<(), Error> {
        let program = self.program("sensor_tick")?;
        for some in indices.chunks(PC_TICK_MAX as usize) {
            let mut tick = pc_tick { events, count: some.len() as u32, ..pc_tick::default() };
            tick.index[..some.len()].copy_from_slice(some);
            run(&program, "sensor_tick", &mut tick)?;
        }
        Ok(())
    }

    /// Tells the scheduler which mechanisms of the performance policy are on. `features` returns
    /// the mechanisms of a CPU (`PC_PERF_*`). Does nothing without the scheduler.
    pub fn set_perf_features(&self, features: impl Fn(u32) -> u32) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.set_features(features);
        }
    }

    /// Stores the host's energy model, and each CPU's domain and capacity in it, for
    /// `PC_PERF_PLACE`. Does nothing without the scheduler.
    pub fn set_energy(&self, model: &pc_energy, cpus: &[(u32, u32)]) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.set_energy(model, cpus);
        }
    }

    /// Finds a program by its name, so that benchmarks can run it (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    ///
    /// [`Error::Bpf`] if there is no such program.
    pub fn program(&self, name: &str) -> Result<ProgramMut<'_>, Error> {
        self.object.progs_mut().find(|program| program.name() == OsStr::new(name)).ok_or_else(
            || Error::Bpf {
                step: "no such program",
                source: io::Error::from(io::ErrorKind::NotFound).into(),
            },
        )
    }

    /// All programs that are loaded.
    pub fn programs(&self) -> impl Iterator<Item = Program<'_>> {
        self.object.progs().filter(|program| program.autoload())
    }

    /// Treats an ordinary thread as a vCPU that has had its first VM exit. This is for load tests
    /// and benchmarks, in which everything except VM exits and kicks is real.
    ///
    /// # Errors
    ///
    /// [`Error`] if the thread is gone or no index is free.
    pub fn adopt_stand_in(&self, tid: u32, tgid: u32) -> Result<Vcpu<'_>, Error> {
        let index = self.take_index()?.ok_or_else(|| Error::Bpf {
            step: "no free vCPU index",
            source: io::Error::from(io::ErrorKind::OutOfMemory).into(),
        })?;
        let thread = open_thread(tid)
            .map_err(|error| Error::Bpf { step: "pidfd of the thread", source: error.into() })?;
        let vcpu = self.vcpus.get(index).ok_or(Error::Bpf {
            step: "vCPU index",
            source: io::Error::from(io::ErrorKind::InvalidData).into(),
        })?;
        vcpu.adopt(tid, tgid);
        let clamp = pc_clamp { min: 0, max: PC_CAPACITY };
        let task = pc_task {
            vcpu: index + 1,
            queue: PC_NO_QUEUE,
            own: clamp,
            clamp,
            ..pc_task::default()
        };
        self.map("tasks")?
            .update(&thread.as_raw_fd().to_ne_bytes(), bytes_of(&task), MapFlags::ANY)
            .map_err(Error::bpf("task storage"))?;
        Ok(vcpu)
    }
}

fn bytes_of(task: &pc_task) -> &[u8] {
    // SAFETY: the type consists of plain integers without padding. The slice lives as long as the
    // reference.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(task).cast(), size_of::<pc_task>()) }
}

/// Opens a pidfd of a thread. On kernels before 6.9, this works only for a thread group leader.
fn open_thread(tid: u32) -> io::Result<OwnedFd> {
    /// `PIDFD_THREAD` of include/uapi/linux/pidfd.h.
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    for flags in [PIDFD_THREAD, 0] {
        // SAFETY: the system call takes integers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, flags) };
        let fd = libc::c_int::try_from(fd).unwrap_or(-1);
        if fd >= 0 {
            // SAFETY: the descriptor is new, and nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(io::Error::last_os_error())
}
