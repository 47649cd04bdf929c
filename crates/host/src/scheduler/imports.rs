// SPDX-License-Identifier: GPL-2.0-only
//! Takes over the clamps that programs have requested from the kernel (sched_setattr(2)), and gives
//! them back.
//!
//! The frequency governor uses the largest clamp of a CPU's tasks. As long as the kernel has
//! clamps, they therefore override the sum that paracord computes. The clamps are written to a file
//! before they are removed from the kernel, so that they can be given back after the end of the
//! daemon: by the supervisor, by `paracord restore`, or at the next start.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use paracord_policy::PC_CAPACITY;
use paracord_sensor::{KernelClamps, Sensor};
use paracord_sys::proc;
use paracord_sys::sched::{self, Util};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::boosts::journal::RestoreReport;
use crate::scheduler::clamp_order::Clamp;
use crate::scheduler::clamps::Clamps;

const FILE: &str = "imported-clamps.json";
/// Maximum number of threads whose clamps are taken over in one round. A program of any user can
/// have any number of threads, and can change their clamps all the time.
const AT_ONCE: usize = 1024;
/// Maximum number of threads whose clamps are remembered.
const HELD_MAX: usize = 65_536;

/// The clamps that one thread had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    tid: u32,
    /// Distinguishes the thread from a later one with the same ID.
    start_ticks: u64,
    min: Option<u32>,
    max: Option<u32>,
}

impl Held {
    fn is_there(&self, proc_root: &Path) -> bool {
        proc::thread_start_ticks(proc_root, self.tid).is_ok_and(|now| now == self.start_ticks)
    }

    /// The clamps in paracord's form. The kernel checked each bound only against the value that the
    /// other bound had at that time, so the saved minimum may exceed the saved maximum.
    fn clamp(&self) -> Clamp {
        let max = self.max.unwrap_or(PC_CAPACITY).min(PC_CAPACITY);
        Clamp { min: self.min.unwrap_or(0).min(max), max }
    }

    /// Gives the thread its clamps back, except for a bound that was set again in the meantime.
    /// Returns false if the thread is gone.
    fn give_back(&self, proc_root: &Path) -> io::Result<bool> {
        if !self.is_there(proc_root) {
            return Ok(false);
        }
        let (min, max) = sched::util_clamps(self.tid)?;
        let back = |own: Option<u32>, untouched| match own {
            Some(value) if untouched => Util::To(value),
            _ => Util::Keep,
        };
        let max = back(self.max, max == PC_CAPACITY);
        sched::set_util_clamps(self.tid, back(self.min, min == 0), max)?;
        Ok(true)
    }
}

/// The clamps that were taken over and not given back yet.
#[derive(Debug)]
pub struct Imports {
    file: PathBuf,
    held: BTreeMap<u32, Held>,
    told: bool,
}

impl Imports {
    /// Creates a value that holds no clamps.
    pub fn new(run_dir: &Path) -> Imports {
        Imports { file: run_dir.join(FILE), held: BTreeMap::new(), told: false }
    }

    /// Takes over the clamps that programs have set since the last round. Only the first failure is
    /// logged.
    pub fn look(&mut self, sensor: &Sensor, clamps: &mut Clamps, proc_root: &Path) {
        let result = sensor
            .kernel_clamps()
            .map_err(|error| error.to_string())
            .and_then(|found| self.take(&found, sensor, clamps, proc_root));
        if let Err(line) = result {
            if !self.told {
                warn!("clamps that programs set are not taken over: {line}");
            }
            self.told = true;
        }
    }

    fn take(
        &mut self,
        found: &[KernelClamps],
        sensor: &Sensor,
        clamps: &mut Clamps,
        proc_root: &Path,
    ) -> Result<(), String> {
        if found.is_empty() {
            return Ok(());
        }
        self.held.retain(|_, held| held.is_there(proc_root));
        clamps.forget_ended(proc_root);
        let mut taken = Vec::new();
        let room = HELD_MAX.saturating_sub(self.held.len());
        if room == 0 {
            return Err(format!("{HELD_MAX} threads' are taken over already"));
        }
        for one in found.iter().take(AT_ONCE.min(room)) {
            let Ok(start_ticks) = proc::thread_start_ticks(proc_root, one.tid) else { continue };
            let before = self.held.get(&one.tid);
            let held = Held {
                tid: one.tid,
                start_ticks,
                min: one.min.or(before.and_then(|held| held.min)),
                max: one.max.or(before.and_then(|held| held.max)),
            };
            if clamps.take_over(held.tid, start_ticks, held.clamp(), sensor) {
                self.held.insert(held.tid, held);
                taken.push(*one);
            }
        }
        self.write().map_err(|error| format!("{}: {error}", self.file.display()))?;
        for one in &taken {
            let reset = |end: Option<u32>| end.map_or(Util::Keep, |_| Util::Reset);
            match sched::set_util_clamps(one.tid, reset(one.min), reset(one.max)) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                    return Err(format!("thread {}: {error}", one.tid));
                }
                _ => {}
            }
        }
        if !taken.is_empty() {
            info!("took over the clamps of {} threads from the kernel", taken.len());
        }
        Ok(())
    }

    /// Removes from the scheduler all clamps that were taken over. The caller must then call
    /// [`give_back`].
    pub fn forget(&mut self, sensor: &Sensor, clamps: &mut Clamps) {
        for held in std::mem::take(&mut self.held).into_values() {
            clamps.hand_back(held.tid, held.clamp(), sensor);
        }
    }

    fn write(&self) -> io::Result<()> {
        let new = self.file.with_extension("new");
        let _ = fs::remove_file(&new);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let held: Vec<_> = self.held.values().collect();
        file.write_all(serde_json::to_string(&held)?.as_bytes())?;
        fs::rename(&new, &self.file)
    }
}

/// Whether there are clamps that were not given back yet.
pub fn exist(run_dir: &Path) -> bool {
    run_dir.join(FILE).exists()
}

/// Gives threads back the clamps that an [`Imports`] has taken over, and removes the file. Nothing
/// else may use the run directory at the same time. After a failure, the file stays for the next
/// try.
pub fn give_back(run_dir: &Path, proc_root: &Path, report: &mut RestoreReport) {
    let file = run_dir.join(FILE);
    let text = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        text => text,
    };
    let all = text.and_then(|text| Ok(serde_json::from_slice::<Vec<Held>>(&text)?));
    let failed = report.failed.len();
    match all {
        Err(error) => report.failed.push(format!("{}: {error}: remove it", file.display())),
        Ok(all) => {
            for held in all {
                match held.give_back(proc_root) {
                    Ok(there) => report.clamps += u32::from(there),
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => {
                        report.failed.push(format!("clamps of thread {}: {error}", held.tid));
                    }
                }
            }
        }
    }
    if report.failed.len() == failed {
        let _ = fs::remove_file(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let name = format!("paracord-imports-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn what_is_gone_is_forgotten_and_garbage_is_named() {
        let dir = scratch("give");
        let proc = Path::new("/proc");
        let given = || {
            let mut report = RestoreReport::default();
            give_back(&dir, proc, &mut report);
            report
        };
        assert_eq!(given(), RestoreReport::default());
        let mut imports = Imports::new(&dir);
        let held = Held { tid: 4_000_000, start_ticks: 1, min: None, max: Some(200) };
        imports.held.insert(held.tid, held);
        imports.write().unwrap();
        assert!(exist(&dir));
        assert_eq!(given(), RestoreReport::default());
        assert!(!exist(&dir));
        fs::write(&imports.file, "[{\"tid\": -1}]").unwrap();
        let lines = given().failed;
        assert!(exist(&dir));
        assert!(lines[0].contains("imported-clamps.json: ") && lines[0].ends_with("remove it"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_thread_has_its_own_again_but_for_what_it_set_anew() {
        std::thread::spawn(|| {
            if sched::set_util_clamps(0, Util::Keep, Util::To(700)).is_err() {
                // This kernel has no clamps. lab/tests/test_ext.py tests a kernel with clamps.
                return;
            }
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            let proc = Path::new("/proc");
            let start_ticks = proc::thread_start_ticks(proc, tid).unwrap();
            let held = Held { tid, start_ticks, min: Some(100), max: Some(500) };
            assert!(held.give_back(proc).unwrap());
            assert_eq!(sched::util_clamps(0).unwrap(), (100, 700));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn ends_are_in_order() {
        let held = Held { tid: 1, start_ticks: 1, min: Some(600), max: Some(500) };
        assert_eq!(held.clamp(), Clamp { min: 500, max: 500 });
        assert_eq!(Held { min: None, max: None, ..held }.clamp(), Clamp::NONE);
    }
}
