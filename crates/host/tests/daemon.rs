// SPDX-License-Identifier: GPL-2.0-only
//! Tests the registry of VMs and the whole daemon, with the sensor in a real kernel. Threads of
//! other processes stand in for vCPUs. Needs root and BTF:
//! `cargo test -p paracord-host --test daemon -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use paracord_abi::{HOST_BOOST_BYTES, LINE_BYTES, RegionLayout};
use paracord_host::boosts::actuator::Actuator;
use paracord_host::boosts::journal::Journal;
use paracord_host::boosts::sensor_table::SensorTable;
use paracord_host::control::Request;
use paracord_host::daemon::{self, Surroundings};
use paracord_host::handle::DaemonHandle;
use paracord_host::regions::region_file::{Offer, create};
use paracord_host::run_dir::keep_journals;
use paracord_host::settings::{Mode, OwnScheduler, Settings};
use paracord_host::snapshot::{Snapshot, VmSnapshot};
use paracord_host::vms::{Change, Scan, Vms};
use paracord_policy::{PC_REFUSED_ALL, pc_vcpu_setup};
use paracord_sensor::{Life, Options, Sensor};
use paracord_sys::mapping::SharedWords;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The test that stands in for a VMM if [`REGION`] is set.
const VMM: &str = "vms_come_change_and_go";
/// Environment variable that is set in the processes that stand in for VMMs. Its value is the
/// region file that they map.
const REGION: &str = "PARACORD_TEST_REGION";
const PATIENCE: Duration = Duration::from_secs(60);
/// Orders to a process that stands in for a VMM.
const MAKE_THREAD: &[u8; 1] = b"t";
const END_VCPU: &[u8; 1] = b"x";

/// Creates a region for one vCPU.
fn create_region(directory: &Path) -> PathBuf {
    let offer = Offer { slots: 1, kick: true, ..Offer::default() };
    create(directory, "web", &offer).unwrap()
}

/// A process whose main thread stands in for a VMM's main loop. Its second thread stands in for
/// vCPU 0, and ends when a byte arrives on the standard input.
struct Vmm {
    process: Child,
    vcpu: u32,
    /// Kept open, because the test harness in the process prints something now and then.
    _output: BufReader<ChildStdout>,
}

impl Vmm {
    fn start(region: &Path) -> Vmm {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", VMM])
            .env(REGION, region)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut lines = output.by_ref().lines();
        let vcpu = lines.find_map(|line| line.unwrap().strip_prefix("tid ")?.parse().ok());
        Vmm { process, vcpu: vcpu.unwrap(), _output: output }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Makes another thread than the vCPU's start a thread.
    fn make_thread(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(MAKE_THREAD).unwrap();
    }

    /// Ends the vCPU. The process goes on.
    fn end_vcpu(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(END_VCPU).unwrap();
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn run_vmm(region: &Path) -> ! {
    let file = File::options().read(true).write(true).open(region).unwrap();
    let words = usize::try_from(file.metadata().unwrap().len()).unwrap() / 8;
    let _region = SharedWords::map(file, words).unwrap();
    let (make_thread, orders) = channel();
    let vcpu = std::thread::Builder::new().name("CPU 0/KVM".into());
    let vcpu = vcpu.spawn(move || {
        println!("\ntid {}", rustix::thread::gettid().as_raw_nonzero());
        let stdin = std::io::stdin();
        let nap = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let mut order = [0];
        while order != *END_VCPU {
            // The vCPU sleeps and wakes up, so that the policy has something to boost.
            if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&nap)).unwrap() > 0 {
                // Without a buffer, so that poll(2) knows of each byte.
                rustix::io::read(&stdin, &mut order).unwrap();
            }
            if order == *MAKE_THREAD {
                order = [0];
                make_thread.send(()).unwrap();
            }
        }
    });
    vcpu.unwrap();
    // A new thread has the name of the thread that makes it, and must not be called like a vCPU.
    for () in orders {
        std::thread::spawn(std::thread::park);
    }
    loop {
        std::thread::park();
    }
}

fn until(
    handle: &DaemonHandle,
    what: &str,
    is_so: impl Fn(&Snapshot, &dyn Fn(u32) -> Option<VmSnapshot>) -> bool,
) {
    let start = Instant::now();
    loop {
        // A slow machine answers late.
        let Ok(now) = handle.snapshot() else {
            assert!(start.elapsed() < PATIENCE, "no answer in time: {what}");
            continue;
        };
        let vm = |pid| now.vms.iter().find(|vm| vm.pid == pid).cloned();
        if is_so(&now, &vm) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "not so in time: {what}: {now:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn vms_come_change_and_go() {
    if let Some(region) = std::env::var_os(REGION) {
        run_vmm(Path::new(&region));
    }
    // Regions are on tmpfs.
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (run_dir, region_dir) = (dir.path().join("run"), dir.path().join("regions"));
    std::fs::create_dir_all(&run_dir).unwrap();
    std::fs::create_dir_all(&region_dir).unwrap();
    keep_journals(&run_dir, Path::new("/proc")).unwrap();
    let region = create_region(&region_dir);
    let first = Vmm::start(&region);
    let mut second = Vmm::start(&region);
    let own_scheduler = OwnScheduler::Never;
    let settings = Settings { run_dir, region_dir, own_scheduler, ..Settings::default() };
    let stand_ins = [(first.vcpu, first.pid()), (second.vcpu, second.pid())];
    let (say, hear) = channel();
    let (say_adopts, hear_adopts) = channel();
    let daemon = std::thread::spawn(move || {
        let surroundings = Surroundings {
            sensor: Options { without_kvm: true, ..Options::default() },
            loaded: Box::new(move |sensor: &Sensor| {
                say_adopts.send(sensor.adopts_threads()).unwrap();
                for (tid, pid) in stand_ins {
                    sensor.adopt_stand_in(tid, pid).unwrap();
                }
            }),
            ..Surroundings::default()
        };
        daemon::run(settings, surroundings, give(say))
    });
    let handle: DaemonHandle = hear.recv().unwrap();
    follow_vms(&handle, &region, first, &mut second, hear_adopts.recv().unwrap());
    handle.request(Request::Stop {}).unwrap();
    daemon.join().unwrap().unwrap();
}

fn give(to: Sender<DaemonHandle>) -> impl FnOnce(DaemonHandle) -> Result<(), String> {
    move |handle| to.send(handle).map_err(|error| error.to_string())
}

/// The boost part of the host line of vCPU 0.
fn host_line(region: &Path) -> Vec<u8> {
    let bytes = std::fs::read(region).unwrap();
    let layout = RegionLayout::check(&bytes, bytes.len() as u64).unwrap();
    let start = usize::try_from(layout.slot_offset(0).unwrap()).unwrap() + LINE_BYTES;
    bytes[start..start + HOST_BOOST_BYTES].to_vec()
}

fn follow_vms(handle: &DaemonHandle, region: &Path, first: Vmm, second: &mut Vmm, adopts: bool) {
    let (one, other) = (first.pid(), second.pid());
    until(handle, "both VMs are found, and only one has the region", |now, vm| {
        let found = vm(one).zip(vm(other)).filter(|(a, b)| a.vcpus.len() + b.vcpus.len() == 2);
        let has_region = found.is_some_and(|(a, b)| {
            let refused = b.region_refused.is_some_and(|why| why.contains("already used"));
            a.region.is_some() && b.region.is_none() && refused && a.vcpus[0].vcpu_id == 0
        });
        has_region && now.mode == Mode::On
    });
    until(handle, "both are boosted, and the guest with the region is told so", |_, vm| {
        let boosts = |pid| vm(pid).map_or(0, |vm| vm.vcpus[0].counters.boosts.iter().sum());
        boosts(one) > 0 && boosts(other) > 0u64 && host_line(region).iter().any(|byte| *byte != 0)
    });
    until(handle, "threads that are not vCPUs are found", |_, vm| {
        let finds = |pid| vm(pid).is_some_and(|vm| !vm.io_threads.is_empty());
        !adopts || finds(one) && finds(other)
    });
    drop(first);
    until(handle, "the first VM is gone", |_, vm| vm(one).is_none() && vm(other).is_some());
    handle.request(Request::Mode { mode: Mode::Observe }).unwrap();
    until(handle, "the region is free, and the mode of the VM has changed", |now, vm| {
        let vm = vm(other).unwrap();
        let has_region = vm.region.is_some() && vm.region_refused.is_none();
        has_region && vm.mode == Mode::Observe && now.mode == Mode::Observe
    });
    second.end_vcpu();
    until(handle, "a VM without vCPUs is gone", |now, _| now.vms.is_empty());
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not so in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pass(vms: &mut Vms, settings: &Settings) -> Vec<Change> {
    let mut pass = Scan::default();
    std::iter::from_fn(|| vms.scan(&mut pass, settings)).collect()
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn a_thread_is_ready_when_it_is_set_up_and_its_record_free_when_it_is_released() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let settings = Settings { region_dir: dir.path().into(), ..Settings::default() };
    let mut vmm = Vmm::start(&create_region(dir.path()));
    let sensor =
        Arc::new(Sensor::load(&Options { without_kvm: true, ..Options::default() }).unwrap());
    let journal = Journal::create(&dir.path().join("journal"), Path::new("/proc")).unwrap();
    let stats = Actuator::new(Arc::new(journal), 8).stats();
    let table = Arc::new(SensorTable::new(Arc::clone(&sensor)));
    let mut vms = Vms::new(Arc::clone(&sensor), table, stats, "/proc".into());
    assert!(pass(&mut vms, &settings).is_empty());
    let index = sensor.adopt_stand_in(vmm.vcpu, vmm.pid()).unwrap().index();
    let record = sensor.vcpus().get(index).unwrap();

    let told = pass(&mut vms, &settings);
    let new = matches!(told[..], [Change::VmAdded(pid), Change::VcpuAdded { vcpu_id: 0, .. }] if pid == vmm.pid());
    assert!(new, "{told:?}");
    drop(told);
    // The scan reports the thread again, because nobody has made it ready.
    let mut told = pass(&mut vms, &settings);
    let Some(Change::VcpuAdded { thread, .. }) = told.pop() else { panic!("{told:?}") };
    assert_eq!((told.len(), thread.index(), thread.tid()), (0, index, vmm.vcpu));
    let setup = pc_vcpu_setup { refused: PC_REFUSED_ALL, ..pc_vcpu_setup::default() };
    let thread = vms.set_up(thread, setup);
    assert_eq!((record.life(), record.setup().refused), (Life::New, PC_REFUSED_ALL));
    vms.make_ready(thread);
    assert_eq!(record.life(), Life::Ready);
    assert!(pass(&mut vms, &settings).is_empty());

    let io =
        |told: &[Change]| told.iter().filter(|one| matches!(one, Change::IoThreadAdded(_))).count();
    let told = vms.poll_io();
    assert_eq!((io(&told), io(&told) > 0), (told.len(), sensor.adopts_threads()), "{told:?}");
    drop(told);
    // The scan reports these threads again, but not as vCPUs.
    let told = pass(&mut vms, &settings);
    assert_eq!((io(&told), io(&told) > 0), (told.len(), sensor.adopts_threads()), "{told:?}");
    for change in told {
        let Change::IoThreadAdded(thread) = change else { continue };
        let thread = vms.set_up(thread, pc_vcpu_setup { io: 1, ..setup });
        vms.make_ready(thread);
    }
    assert!(pass(&mut vms, &settings).is_empty());

    assert!(!vms.have_new_threads() && vms.poll_new_threads().is_empty());
    if sensor.adopts_threads() {
        vmm.make_thread();
        wait_until("the VMM has made a thread", || vms.have_new_threads());
        let mut told = vms.poll_new_threads();
        let Some(Change::IoThreadAdded(thread)) = told.pop() else { panic!("{told:?}") };
        assert!(told.is_empty() && !vms.have_new_threads(), "{told:?}");
        let thread = vms.set_up(thread, pc_vcpu_setup { io: 1, ..setup });
        vms.make_ready(thread);
        assert!(vms.poll_io().is_empty());
    }

    vmm.end_vcpu();
    wait_until("the vCPU is gone", || record.life() == Life::Gone);
    let told = pass(&mut vms, &settings);
    let gone =
        matches!(told[..], [Change::ThreadRemoved(_), Change::VmRemoved(pid)] if pid == vmm.pid());
    assert!(gone && vms.is_empty(), "{told:?}");
    drop(told);
    let mut told = pass(&mut vms, &settings);
    let Some(Change::ThreadRemoved(thread)) = told.pop() else { panic!("{told:?}") };
    assert_eq!((told.len(), thread.index(), record.life()), (0, index, Life::Gone));
    vms.release(thread);
    assert_eq!(record.life(), Life::Free);
    assert!(pass(&mut vms, &settings).is_empty());
}
