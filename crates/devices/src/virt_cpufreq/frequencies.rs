// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The frequencies that guests read: a guest sees the frequency of the host CPU on which its vCPU
//! last ran.
//!
//! A thread of the VMM updates these frequencies every few milliseconds. Never update them inside a
//! guest's access, because reading sysfs takes locks and some microseconds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use paracord_sys::sysfs::{CpuFiles, CurrentFrequency};

use super::{Backend, VirtCpufreq};

/// Maximum size of a thread's stat file.
const STAT_BYTES: usize = 1024;
/// Field 39 of /proc/PID/task/TID/stat: processor.
const PROCESSOR_FIELD: usize = 39;

/// One CPU of the host. The file that contains its current frequency stays open.
#[derive(Debug)]
struct HostCpu {
    /// None without cpufreq.
    current: Option<CurrentFrequency>,
    max_khz: u64,
    /// Capacity of the CPU, 1..=1024.
    capacity: u64,
}

/// The host's CPUs, and the threads that run the vCPUs.
#[derive(Debug)]
pub struct Frequencies {
    root: PathBuf,
    cpus: BTreeMap<u32, HostCpu>,
    /// Stat file of each vCPU's thread, by vCPU.
    threads: BTreeMap<u32, File>,
}

impl Frequencies {
    /// `root` is `/`, or a fixture tree in tests.
    pub fn new(root: &Path) -> Frequencies {
        Frequencies { root: root.to_owned(), cpus: BTreeMap::new(), threads: BTreeMap::new() }
    }

    /// Registers thread `tid` of process `pid` as the thread that runs vCPU `vcpu`.
    ///
    /// # Errors
    /// If the thread's stat file cannot be opened.
    pub fn register(&mut self, vcpu: u32, pid: u32, tid: u32) -> io::Result<()> {
        let path = self.root.join(format!("proc/{pid}/task/{tid}/stat"));
        self.threads.insert(vcpu, File::open(path)?);
        Ok(())
    }

    /// Tells the device how fast each registered vCPU runs. A host CPU whose frequency cannot be
    /// read counts as running at its highest frequency. A guest without the device assumes the
    /// same.
    pub fn update<B: Backend>(&mut self, device: &VirtCpufreq<B>) {
        for (&vcpu, stat) in &self.threads {
            let Some(domain) = device.domain(vcpu) else { continue };
            let Some(cpu) = last_cpu(stat) else { continue };
            let here = self.cpus.entry(cpu).or_insert_with(|| HostCpu::open(&self.root, cpu));
            // The current speed of the host CPU, in units of the vCPU's own table.
            let (speed, is_known) = here.speed();
            let khz = speed * u64::from(domain.max_khz()) / u64::from(domain.capacity());
            device.set_current(vcpu, u32::try_from(khz).unwrap_or(u32::MAX));
            if !is_known {
                // When an offline CPU comes back online, it has new files. They are opened at the
                // next update.
                self.cpus.remove(&cpu);
            }
        }
    }
}

impl HostCpu {
    fn open(root: &Path, cpu: u32) -> HostCpu {
        let cpus = CpuFiles::below(&root.join("sys"));
        let policy = cpus.policy_of(cpu);
        HostCpu {
            current: policy.current(),
            max_khz: policy.max_khz().ok().flatten().map_or(0, u64::from),
            capacity: cpus.capacity_or_full(cpu).into(),
        }
    }

    /// The speed on the host's capacity scale, 1..=1024, and whether the frequency is known. It is
    /// unknown if the frequency file exists but contains no usable number.
    fn speed(&self) -> (u64, bool) {
        let Some(current) = &self.current else { return (self.capacity, true) };
        match current.khz().map(u64::from).filter(|&khz| khz > 0 && self.max_khz > 0) {
            Some(khz) => {
                let speed = self.capacity.saturating_mul(khz) / self.max_khz;
                (speed.clamp(1, self.capacity), true)
            }
            None => (self.capacity, false),
        }
    }
}

/// The CPU on which a thread last ran. The second field of the file is the thread's name in
/// parentheses. The name itself may contain spaces and parentheses.
fn last_cpu(stat: &File) -> Option<u32> {
    let mut bytes = [0; STAT_BYTES];
    let read = stat.read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(PROCESSOR_FIELD - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Config, CpuConfig, PerfDomain};
    use super::*;
    use std::fs;

    fn write(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn stat(cpu: u32) -> String {
        format!("42 (CPU 0) 7/KVM) R{} {cpu} 0 0\n", " 1".repeat(PROCESSOR_FIELD - 4))
    }

    #[test]
    fn a_vcpu_is_as_fast_as_the_cpu_that_it_runs_on() {
        let root = std::env::temp_dir().join(format!("paracord-khz-{}", std::process::id()));
        let cpus = "sys/devices/system/cpu";
        write(&root, &format!("{cpus}/cpu0/cpu_capacity"), "383\n");
        write(&root, &format!("{cpus}/cpu0/cpufreq/cpuinfo_max_freq"), "950000\n");
        write(&root, &format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"), "475000\n");
        write(&root, "proc/42/task/43/stat", &stat(0));
        write(&root, "proc/42/task/44/stat", &stat(7));
        // vCPU 0 may run on any CPU, vCPU 1 only on small CPUs.
        let domains = vec![
            PerfDomain::maximum_only(1_200_000, 1024, false).unwrap(),
            PerfDomain::maximum_only(950_000, 383, false).unwrap(),
        ];
        let cpus_of_it = vec![CpuConfig { domain: 0 }, CpuConfig { domain: 1 }];
        let device = VirtCpufreq::new(Config { domains, cpus: cpus_of_it }, ()).unwrap();
        let mut frequencies = Frequencies::new(&root);
        frequencies.register(0, 42, 43).unwrap();
        assert!(frequencies.register(5, 42, 99).is_err());
        frequencies.update(&device);
        // 383 / 1024 of the largest capacity, at half of the highest frequency.
        assert_eq!(device.current(0), Some(191 * 1_200_000 / 1024));
        assert_eq!(device.current(1), Some(950_000));
        frequencies.register(1, 42, 43).unwrap();
        frequencies.update(&device);
        assert_eq!(device.current(1), Some(191 * 950_000 / 383));
        // vCPU 0 moves to a CPU without cpufreq. Then the frequency file of CPU 0 has invalid
        // content.
        frequencies.register(0, 42, 44).unwrap();
        write(&root, &format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"), "<unknown>\n");
        frequencies.update(&device);
        assert_eq!((device.current(0), device.current(1)), (Some(1_200_000), Some(950_000)));
        // CPU 0 was offline and is online again: reads of the old file return nothing, and there is
        // a new file.
        fs::remove_file(root.join(cpus).join("cpu0/cpufreq/scaling_cur_freq")).unwrap();
        write(&root, &format!("{cpus}/cpu0/cpufreq/scaling_cur_freq"), "475000\n");
        frequencies.update(&device);
        assert_eq!(device.current(1), Some(191 * 950_000 / 383));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn own_thread_in_the_real_tree() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let stat = File::open(format!("/proc/self/task/{tid}/stat")).unwrap();
        assert!(last_cpu(&stat).is_some());
    }
}
