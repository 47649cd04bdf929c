// SPDX-License-Identifier: GPL-2.0-only
//! Tests with real threads of this process, on a fixture host that has all CPUs on which these
//! threads may run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use paracord_sys::affinity::{self, CpuMask};

use super::host::tests::Root;
use super::sleeper::Sleeper;
use super::*;
use crate::config::PlaceKeys;
use crate::log_limit::UserLog;

const PROC: &str = "/proc";

struct Setting {
    run_dir: PathBuf,
    root: Root,
    places: Places,
    sleepers: Vec<Sleeper>,
    /// The affinity of all threads at the start.
    before: CpuMask,
    /// One CPU of `before`.
    cpu: u32,
}

impl Setting {
    /// Makes a host with equal CPUs. It has at least every CPU below 512 on which the threads may
    /// run.
    fn new(name: &str, vcpus: usize) -> Setting {
        let run_dir =
            std::env::temp_dir().join(format!("paracord-places-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&run_dir).unwrap();
        let sleepers: Vec<Sleeper> = (0..vcpus).map(|_| Sleeper::start()).collect();
        let before = sleepers[0].cpus();
        let count = before.iter().filter(|cpu| *cpu < 512).last().unwrap() as usize + 1;
        let root = Root::new(&format!("places-{name}"), &vec![0; count]);
        let journal = Arc::new(PlaceJournal::create(&run_dir, Path::new(PROC)).unwrap());
        let places = Places::new(journal, PROC.into(), root.0.clone());
        let cpu = before.iter().next().unwrap();
        Setting { run_dir, root, places, sleepers, before, cpu }
    }

    fn vm(&self) -> VmThreads {
        let thread = |(n, sleeper): (usize, &Sleeper)| VcpuThread {
            index: 10 + n as u32,
            vcpu_id: n as u32,
            tid: sleeper.tid,
            start_ticks: sleeper.start_ticks(),
            cpu: 0,
        };
        let threads = self.sleepers.iter().enumerate().map(thread).collect();
        let (process, name, vmm) = ((1, 1), "web".into(), "qemu".into());
        VmThreads {
            process,
            name,
            uid: 0,
            cgroup: None,
            uuid: None,
            vmm,
            log: UserLog::default(),
            threads,
        }
    }

    fn order(&mut self, text: &str, mode: PlaceMode) -> Result<PlaceReport, String> {
        let order = PlaceOrder::Set(text.parse().unwrap(), mode);
        self.places.carry_out(&self.vm(), &PlaceKeys::default(), order)
    }

    fn follow(&mut self, place: &str) -> usize {
        let keys = configured(place);
        self.places.follow(vec![self.vm()], |_| keys.clone()).len()
    }

    fn one(&self) -> CpuMask {
        [self.cpu].into_iter().collect()
    }

    fn have(&self) -> Vec<CpuMask> {
        self.sleepers.iter().map(Sleeper::cpus).collect()
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.run_dir);
    }
}

fn configured(place: &str) -> PlaceKeys {
    let place = place.parse().unwrap();
    PlaceKeys { place, section: "vm.\"web\"".into(), ..PlaceKeys::default() }
}

#[test]
fn an_order_holds_until_it_is_cleared() {
    let mut s = Setting::new("order", 2);
    let (one, before, cpu) = (s.one(), s.before, s.cpu);
    let report = s.order(&format!("0={cpu}"), PlaceMode::Affinity).unwrap();
    assert_eq!(s.have(), [one, before]);
    let placement = report.vcpus[0].placement.clone().unwrap();
    assert_eq!((placement.wanted.as_str(), placement.in_force), (&*cpu.to_string(), true));
    assert!(!placement.configured && report.vcpus[1].placement.is_none());
    assert_eq!(report.vcpus[0].allowed, cpu.to_string());
    // A thread that is placed again still gets back the affinity from before the first placement.
    s.order(&format!("all={cpu}"), PlaceMode::Affinity).unwrap();
    assert_eq!(s.have(), [one, one]);
    let cleared = s.places.carry_out(&s.vm(), &PlaceKeys::default(), PlaceOrder::Clear).unwrap();
    assert_eq!(s.have(), [before, before]);
    assert!(cleared.vcpus.iter().all(|vcpu| vcpu.placement.is_none()));
    assert_eq!(s.places.affinity.journal.entry(10), None);
}

#[test]
fn a_thread_that_has_the_number_of_one_that_ended_is_left_alone() {
    let mut s = Setting::new("reused", 1);
    let (before, cpu) = (s.before, s.cpu);
    let mut vm = s.vm();
    vm.threads[0].start_ticks -= 1;
    let order = PlaceOrder::Set(format!("0={cpu}").parse().unwrap(), PlaceMode::Affinity);
    s.places.carry_out(&vm, &PlaceKeys::default(), order).unwrap();
    assert_eq!(s.have(), [before]);
    assert_eq!(s.places.affinity.journal.entry(10), None);
}

/// The thread ends between the check of its start time and the change, and another thread gets its
/// ID. The test simulates this with the file `stat`: the first read returns the start time of the
/// vCPU's thread, and each later read returns another start time.
#[test]
fn a_thread_that_takes_the_number_meanwhile_gets_back_what_it_had() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let mut s = Setting::new("meanwhile", 1);
    let (one, thread) = (s.one(), s.vm().threads[0]);
    let real = PathBuf::from(format!("/proc/{0}/task/{0}", thread.tid));
    let stat = std::fs::read_to_string(real.join("stat")).unwrap();
    let (name, fields) = stat.rsplit_once(") ").unwrap();
    let mut fields: Vec<String> = fields.split(' ').map(str::to_owned).collect();
    fields[19] = (thread.start_ticks + 1).to_string();
    let later = format!("{name}) {}", fields.join(" "));

    let proc_root = s.run_dir.join("proc");
    let process = proc_root.join(thread.tid.to_string());
    let task = process.join("task").join(thread.tid.to_string());
    std::fs::create_dir_all(&task).unwrap();
    std::os::unix::fs::symlink(real.join("status"), task.join("status")).unwrap();
    std::os::unix::fs::symlink(real.join("cgroup"), process.join("cgroup")).unwrap();
    std::fs::write(task.join("later"), later).unwrap();
    mknodat(CWD, task.join("stat"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let first = std::thread::spawn(move || {
        // Opening the FIFO waits for the first reader.
        let mut fifo = std::fs::File::options().write(true).open(task.join("stat")).unwrap();
        std::fs::rename(task.join("later"), task.join("stat")).unwrap();
        std::io::Write::write_all(&mut fifo, stat.as_bytes()).unwrap();
    });
    s.places.affinity.proc_root = proc_root;
    let given = s.places.affinity.give(thread, &one);
    first.join().unwrap();
    assert!(matches!(given, Err(super::threads::Failed::Gone)), "{given:?}");
    assert_eq!((s.have(), s.places.affinity.journal.entry(10)), (vec![s.before], None));
}

#[test]
fn whoever_outlives_the_daemon_restores() {
    let mut s = Setting::new("outlive", 1);
    s.order(&format!("0={}", s.cpu), PlaceMode::Affinity).unwrap();
    assert_eq!(s.have(), [s.one()]);
    let left = PlaceJournal::open(&s.run_dir, Path::new(PROC)).unwrap().unwrap();
    let mut report = crate::boosts::journal::RestoreReport::default();
    left.restore_all(Path::new(PROC), &mut report);
    assert_eq!((report.placements, report.failed.len()), (1, 0));
    assert_eq!(s.have(), [s.before]);
}

/// An entry from an earlier run of the daemon must not be cleared.
#[test]
fn the_end_of_a_vcpu_with_a_hint_leaves_the_entry_of_another_thread() {
    let mut s = Setting::new("leftover", 1);
    s.order(&format!("0={}", s.cpu), PlaceMode::Hints).unwrap();
    let (before, given) = (s.before, s.one());
    let entry = super::Entry { tid: 4_000_000, start_ticks: 99, before, given };
    s.places.affinity.journal.arm(10, &entry);
    s.places.follow(Vec::new(), |_| PlaceKeys::default());
    assert_eq!(s.places.affinity.journal.entry(10), Some(entry));
}

#[test]
fn hints_leave_threads_alone() {
    let mut s = Setting::new("hints", 1);
    let text = format!("0={}", s.cpu);
    let report = s.order(&text, PlaceMode::Hints).unwrap();
    assert_eq!(s.have(), [s.before]);
    assert_eq!(report.vcpus[0].placement.as_ref().unwrap().mode, PlaceMode::Hints);
    assert_eq!(s.places.hints().get(&10), Some(&s.one()));
    s.order(&text, PlaceMode::Affinity).unwrap();
    assert!(s.places.hints().is_empty() && s.have() == [s.one()]);
    s.order(&text, PlaceMode::Hints).unwrap();
    assert_eq!(s.have(), [s.before]);
}

#[test]
fn what_is_refused_is_refused_as_a_whole() {
    let mut s = Setting::new("refused", 2);
    let cpu = s.cpu;
    for (text, says) in [
        (format!("0={cpu} 7={cpu}"), "VM \"web\" has no vCPU 7: it has 0-1"),
        (format!("0={cpu} 1=900"), "vCPU 1: this host has no CPU 900"),
        (format!("0={cpu} 1=cluster:77"), "vCPU 1: this host has no cluster 77"),
    ] {
        let line = s.order(&text, PlaceMode::Affinity).unwrap_err();
        assert!(line.starts_with(says) && line.lines().count() == 1, "{line}");
        assert_eq!(s.have(), [s.before, s.before], "{text}");
    }
    // The kernel refuses to place the second thread, because CPU 900 exists only in the fixture.
    s.root.put("present", "0-900");
    s.root.put("online", "0-900");
    let line = s.order(&format!("0={cpu} 1=900"), PlaceMode::Affinity).unwrap_err();
    assert!(line.starts_with("vCPU 1: "), "{line}");
    assert_eq!(s.have(), [s.before, s.before]);
    // A placement that was in force before stays.
    s.order(&format!("0={cpu}"), PlaceMode::Affinity).unwrap();
    s.order("0-1=900", PlaceMode::Affinity).unwrap_err();
    assert_eq!(s.have(), [s.one(), s.before]);
}

#[test]
fn the_configuration_places_vcpus_as_they_come_and_orders_come_before_it() {
    let mut s = Setting::new("configured", 1);
    let (one, before) = (s.one(), s.before);
    let text = format!("all={}", s.cpu);
    assert_eq!((s.follow(&text), s.have()), (1, vec![one]));
    assert_eq!(s.follow(&text), 0);
    s.sleepers.push(Sleeper::start());
    assert_eq!((s.follow(&text), s.have()), (1, vec![one, one]));
    // A reload undoes a configured placement only if the configuration no longer contains it.
    s.places.reloaded();
    assert_eq!(s.follow(&text), 0);
    s.order("1=any", PlaceMode::Affinity).unwrap();
    assert_eq!((s.follow(&text), s.have()), (0, vec![one, before]));
    s.places.carry_out(&s.vm(), &configured(&text), PlaceOrder::Clear).unwrap();
    assert_eq!((s.follow(&text), s.have()), (0, vec![before, before]));
    s.places.reloaded();
    assert_eq!((s.follow(&text), s.have()), (1, vec![one, one]));
    assert_eq!((s.follow(""), s.have()), (1, vec![before, before]));
}

#[test]
fn a_section_that_cannot_be_carried_out_places_nobody_and_is_tried_again() {
    let mut s = Setting::new("section", 1);
    let text = format!("0={} 5=900", s.cpu);
    assert_eq!((s.follow(&text), s.have()), (0, vec![s.before]));
    let refused = s.places.refused((1, 1)).unwrap();
    assert!(refused.starts_with("vm.\"web\".place: vCPU 5: this host has no CPU 900"), "{refused}");
    s.root.put("present", "0-900");
    s.root.put("online", "0-900");
    assert_eq!((s.follow(&text), s.have()), (1, vec![s.one()]));
    assert_eq!(s.places.refused((1, 1)), None);
}

#[test]
fn what_somebody_else_changed_is_told_and_left_alone() {
    let mut s = Setting::new("others", 1);
    if s.before.count() < 2 {
        return; // there is no other CPU to use
    }
    s.order(&format!("0={}", s.cpu), PlaceMode::Affinity).unwrap();
    let theirs: CpuMask = s.before.iter().skip(1).take(1).collect();
    affinity::set(s.sleepers[0].tid, &theirs).unwrap();
    assert_eq!(s.places.snapshot(10).map(|placement| placement.in_force), Some(false));
    assert_eq!(s.follow(""), 0);
    s.places.restore_all();
    assert_eq!(s.have(), [theirs]);
}

#[test]
fn more_vcpus_than_cpus_take_turns_and_that_is_said() {
    let mut s = Setting::new("share", 3);
    let report = s.order(&format!("all={}", s.cpu), PlaceMode::Affinity).unwrap();
    assert_eq!(report.notes, [format!("3 vCPUs share CPU {}: they take turns", s.cpu)]);
    assert_eq!(s.have(), [s.one(); 3]);
    s.places.restore_all();
    assert_eq!(s.have(), [s.before; 3]);
}

#[test]
fn a_later_thread_of_an_index_is_not_the_one_that_was_placed() {
    let mut s = Setting::new("later", 1);
    let text = format!("0={}", s.cpu);
    s.order(&text, PlaceMode::Affinity).unwrap();
    s.sleepers = vec![Sleeper::start()];
    let mut vm = s.vm();
    vm.process = (1, 2);
    assert!(s.places.follow(vec![vm], |_| PlaceKeys::default()).is_empty());
    assert_eq!((s.have(), s.places.affinity.journal.entry(10)), (vec![s.before], None));
}
