// SPDX-License-Identifier: GPL-2.0-only
//! Tests with fixture trees: a good host, and then one fault at a time.

use std::path::PathBuf;

use super::*;

struct Fixture(PathBuf);

impl Fixture {
    /// A host on which every check is ok.
    fn good(name: &str) -> Fixture {
        let dir =
            std::env::temp_dir().join(format!("paracord-doctor-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let f = Fixture(dir);
        for (path, text) in [
            ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
            (
                "proc/self/limits",
                "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         unlimited            unlimited            bytes\n",
            ),
            ("proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"),
            ("proc/self/mountinfo", "9 1 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("proc/sys/kernel/osrelease", "7.2.12-test\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/sys/kernel/watchdog", "1\n"),
            ("proc/sys/kernel/sched_util_clamp_min", "1024\n"),
            ("proc/sys/kernel/perf_event_paranoid", "2\n"),
            ("proc/kallsyms", "0000 t x\n0000 T __kvm_vcpu_kick\t[kvm]\n"),
            ("proc/cmdline", "quiet\n"),
            ("boot/config-7.2.12-test", "# CONFIG_RT_GROUP_SCHED is not set\n"),
            ("sys/fs/cgroup/cgroup.subtree_control", "cpu io memory\n"),
            ("sys/kernel/btf/vmlinux", ""),
            ("sys/module/kvm/x", ""),
            ("sys/module/kvm_amd/x", ""),
            ("sys/kernel/tracing/events/kvm/kvm_exit/id", "1"),
            ("sys/kernel/tracing/events/kvm/kvm_msr/id", "2"),
            ("sys/kernel/tracing/events/kvm/kvm_hypercall/id", "3"),
            ("sys/kernel/tracing/events/kvm/kvm_hvc_arm64/id", "4"),
            ("sys/kernel/security/lockdown", "[none] integrity confidentiality\n"),
            ("sys/kernel/sched_ext/state", "disabled\n"),
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_driver", "acpi-cpufreq\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n"),
            ("sys/bus/event_source/devices/cpu/type", "4"),
            ("dev/kvm", ""),
            ("dev/shm/paracord/x", ""),
        ] {
            f.put(path, text);
        }
        f
    }

    fn put(&self, path: &str, text: &str) {
        let file = self.0.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let file = self.0.join(path);
        if file.is_dir() {
            std::fs::remove_dir_all(file).unwrap();
        } else {
            std::fs::remove_file(file).unwrap();
        }
    }

    fn examine(&self) -> Vec<Check> {
        examine(&self.0, "/dev/shm/paracord".as_ref())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn own_scheduler_is_no_stranger() {
    let host = Fixture::good("own-scheduler");
    host.put("sys/kernel/sched_ext/state", "enabled\n");
    host.put("sys/kernel/sched_ext/root/ops", "paracord\n");
    let checks = host.examine();
    let check = checks.iter().find(|check| check.name == "sched_ext");
    assert!(check.is_some_and(|check| check.status == Status::Ok), "{check:?}");
}

#[test]
fn kinds_of_cpus_are_named_as_placements_name_them() {
    let host = Fixture::good("clusters");
    host.put("sys/devices/system/cpu/cpu1/cpu_capacity", "383\n");
    host.put("sys/devices/system/cpu/cpufreq/policy0/related_cpus", "0\n");
    host.put("sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies", "1200000\n");
    host.put("sys/devices/system/cpu/cpufreq/policy1/related_cpus", "1\n");
    host.put("sys/devices/system/cpu/cpufreq/policy1/scaling_available_frequencies", "950000\n");
    let checks = host.examine();
    let found = checks.iter().find(|check| check.name == "clusters").map(|c| c.found.as_str());
    let want =
        "cluster 0 (CPU 0, capacity 1024, 1200 MHz), cluster 1 (CPU 1, capacity 383, 950 MHz)";
    assert_eq!(found, Some(want));
}

fn ext_keeps(host: &Fixture) -> String {
    let checks = host.examine();
    let check = checks.into_iter().find(|check| check.name == "ext_keeps").unwrap();
    assert_eq!(check.status, Status::Ok);
    check.found
}

#[test]
fn what_a_host_would_lose_with_ext_is_named_if_it_uses_it() {
    let host = Fixture::good("promises");
    for (path, text) in [
        ("proc/sys/kernel/numa_balancing", "0\n"),
        ("proc/sys/kernel/sched_autogroup_enabled", "0\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        ("proc/kallsyms", "0000000000000000 T sched_core_count\n"),
        ("sys/kernel/debug/sched/fair_server/cpu0/runtime", "50000000\n"),
        ("sys/kernel/debug/sched/ext_server/cpu0/runtime", "50000000\n"),
    ] {
        host.put(path, text);
    }
    assert!(ext_keeps(&host).starts_with("nothing "), "{}", ext_keeps(&host));
    for (path, text, says) in [
        ("proc/kallsyms", "0000000000000000 T sched_core_share_pid\n", "core scheduling"),
        ("proc/sys/kernel/numa_balancing", "1\n", "automatic NUMA balancing"),
        ("proc/sys/kernel/sched_autogroup_enabled", "1\n", "autogroups"),
    ] {
        host.put(path, text);
        assert!(ext_keeps(&host).contains(says), "{says}: {}", ext_keeps(&host));
    }
    host.remove("sys/kernel/debug/sched/ext_server");
    assert!(ext_keeps(&host).contains("no ext_server"), "{}", ext_keeps(&host));
    // Without debugfs, the kernel release decides.
    host.remove("sys/kernel/debug/sched/fair_server");
    for (release, lacks) in [("6.18.3-amd64", true), ("7.3.4+deb13-amd64", false)] {
        host.put("proc/sys/kernel/osrelease", release);
        assert_eq!(ext_keeps(&host).contains("no ext_server"), lacks, "{release}");
    }
    host.remove("sys/kernel/sched_ext");
    assert_eq!(ext_keeps(&host), "no sched_ext, nothing to lose");
}

/// The features that the host uses are checked every five seconds. But the kernel's long list of
/// symbols is read again only when the set of online CPUs has changed.
#[test]
fn names_of_the_kernel_are_read_anew_where_cpus_come_or_go() {
    let host = Fixture::good("symbols");
    host.put("sys/devices/system/cpu/smt/active", "1\n");
    host.put("sys/devices/system/cpu/online", "0\n");
    let mut promises = super::Promises::of(&host.0);
    let cores = |promises: &mut super::Promises| {
        promises.unkept().iter().any(|line| line.contains("core scheduling"))
    };
    assert!(!cores(&mut promises));
    host.put("proc/kallsyms", "0000000000000000 T sched_core_share_pid\n");
    assert!(!cores(&mut promises), "the same CPUs");
    host.put("sys/devices/system/cpu/online", "0-1\n");
    assert!(cores(&mut promises) && cores(&mut promises));
}

#[test]
fn a_good_host_has_nothing_to_change() {
    let isolates = Fixture::good("managed-irq");
    isolates.put("proc/cmdline", "isolcpus=managed_irq,0\n");
    assert!(isolates.examine().iter().all(|check| check.status == Status::Ok));
    let checks = Fixture::good("good").examine();
    let bad: Vec<_> = checks.iter().filter(|c| c.status != Status::Ok).collect();
    assert!(bad.is_empty() && usable(&checks), "{bad:?}");
}

#[test]
fn an_empty_tree_says_what_to_do_everywhere() {
    let checks = examine("/nonexistent-root".as_ref(), "/dev/shm/paracord".as_ref());
    assert!(!usable(&checks));
    for c in checks.iter().filter(|c| c.status != Status::Ok) {
        assert!(!c.remedy.is_empty() && !c.found.is_empty(), "{c:?}");
    }
}

#[test]
fn a_vm_with_a_cpu_quota_is_named() {
    let host = Fixture::good("quota");
    host.put("proc/42/comm", "qemu-kvm\n");
    host.put("proc/42/cmdline", "qemu\0-name\0web\0");
    host.put("proc/42/status", "Uid:\t0\t107\t0\t0\n");
    host.put("proc/42/stat", "42 (x y) S 1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 5 0 777 1000 99");
    host.put("proc/42/task/42/cgroup", "0::/box\n");
    host.put("proc/42/task/43/cgroup", "0::/box/vcpu0\n");
    // In a path below /proc, the ID of any thread can take the place of the process ID.
    host.put("proc/43/task/43/cgroup", "0::/box/vcpu0\n");
    host.put("proc/42/fd/x", "");
    host.put("sys/fs/cgroup/cgroup.procs", "");
    host.put("sys/fs/cgroup/box/cpu.max", "max 100000\n");
    host.put("sys/fs/cgroup/box/vcpu0/cpu.max", "20000 100000\n");
    let check = |host: &Fixture| {
        host.examine().into_iter().find(|check| check.name == "cpu_quota").unwrap()
    };
    assert_eq!(check(&host).status, Status::Ok, "a process without a VM");
    std::os::unix::fs::symlink("anon_inode:kvm-vm", host.0.join("proc/42/fd/4")).unwrap();
    let found = check(&host);
    let line =
        "boosted out of what their quotas leave: web: CPU quota 20000 of 100000 us in /box/vcpu0";
    assert_eq!((found.status, found.found.as_str()), (Status::Ok, line));
    host.put("sys/fs/cgroup/box/vcpu0/cpu.max", "max 100000\n");
    assert_eq!(check(&host).status, Status::Ok);
    host.put("sys/fs/cgroup/box/cpu.idle", "1\n");
    let found = check(&host);
    assert!(
        found.status == Status::Warn && found.found.contains("web: cpu.idle in /box"),
        "{found:?}"
    );
    assert!(found.remedy.contains("vcpu_budget_pct"), "{found:?}");
    host.put("sys/fs/cgroup/box/cpu.idle", "0\n");
    // Actuator rt also does not boost a VM whose limits cannot be read.
    host.put("proc/43/task/43/cgroup", "0::/../elsewhere\n");
    let found = check(&host);
    assert!(
        found.status == Status::Warn && found.found.contains("web: CPU quota not known ("),
        "{found:?}"
    );
}

#[test]
fn a_limit_of_threads_that_are_no_vcpus_keeps_nobody_from_being_boosted() {
    let host = Fixture::good("emulator");
    host.put("sys/fs/cgroup/cgroup.procs", "");
    std::fs::create_dir_all(host.0.join("proc/42/fd")).unwrap();
    std::os::unix::fs::symlink("anon_inode:kvm-vm", host.0.join("proc/42/fd/4")).unwrap();
    for (tid, group, idle) in [(42, "emulator", "1\n"), (43, "vcpu0", "0\n")] {
        host.put(&format!("sys/fs/cgroup/box/{group}/cpu.max"), "max 100000\n");
        host.put(&format!("sys/fs/cgroup/box/{group}/cpu.idle"), idle);
        host.put(&format!("proc/42/task/{tid}/comm"), "");
        host.put(&format!("proc/{tid}/task/{tid}/cgroup"), &format!("0::/box/{group}\n"));
    }
    let status = |host: &Fixture| {
        host.examine().into_iter().find(|check| check.name == "cpu_quota").unwrap().status
    };
    assert_eq!(status(&host), Status::Warn, "no thread is named as a vCPU");
    host.put("proc/43/comm", "CPU 0/KVM\n");
    assert_eq!(status(&host), Status::Ok);
}

/// A fault: the file to change and its new text (`None`: remove the file), the only check that
/// notices the fault, the status of this check, and a part of its text.
type Fault = (&'static str, Option<&'static str>, &'static str, Status, &'static str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_fault_is_found_by_its_check_alone() {
    let faults: [Fault; 26] = [
        (
            "proc/self/status",
            Some("CapEff:\t0000000000000000\n"),
            "capabilities",
            Status::Fail,
            "CAP_BPF",
        ),
        (
            "proc/self/status",
            Some("CapEff:\t000001ffff7fffff\n"),
            "capabilities",
            Status::Fail,
            "CAP_SYS_NICE",
        ),
        ("sys/kernel/btf/vmlinux", None, "btf", Status::Fail, "BTF"),
        ("sys/module/kvm", None, "kvm", Status::Fail, "modprobe"),
        ("dev/kvm", None, "dev_kvm", Status::Warn, "KVM"),
        (
            "sys/kernel/tracing/events/kvm/kvm_exit",
            None,
            "kvm_tracepoints",
            Status::Fail,
            "kvm_exit",
        ),
        ("sys/kernel/tracing/events", None, "kvm_tracepoints", Status::Unknown, "mount"),
        ("proc/kallsyms", Some("0 t vcpu_kick\n"), "kick_probe", Status::Warn, "interrupts"),
        (
            "sys/kernel/security/lockdown",
            Some("none integrity [confidentiality]"),
            "lockdown",
            Status::Fail,
            "lockdown",
        ),
        (
            "sys/kernel/security/lockdown",
            Some("none [integrity] confidentiality"),
            "lockdown",
            Status::Warn,
            "device",
        ),
        ("proc/sys/kernel/sched_rt_runtime_us", Some("0"), "rt_throttling", Status::Fail, "sysctl"),
        (
            "proc/sys/kernel/sched_rt_runtime_us",
            Some("100000"),
            "rt_throttling",
            Status::Warn,
            "100000",
        ),
        (
            "boot/config-7.2.12-test",
            Some("CONFIG_RT_GROUP_SCHED=y"),
            "rt_group",
            Status::Fail,
            "rt_group_sched=0",
        ),
        ("sys/fs/cgroup/cpu/cpu.rt_runtime_us", Some("0"), "rt_group", Status::Fail, "cgroups"),
        (
            "proc/self/limits",
            Some("Max locked memory 65536 65536 bytes"),
            "memlock",
            Status::Warn,
            "ulimit",
        ),
        ("proc/self/mounts", Some("/dev/sda1 / ext4 rw 0 0"), "region_dir", Status::Fail, "tmpfs"),
        (
            "proc/self/mounts",
            Some("h /dev/shm hugetlbfs rw 0 0"),
            "region_dir",
            Status::Fail,
            "tmpfs",
        ),
        ("proc/sys/kernel/watchdog", Some("0"), "watchdog", Status::Warn, "kernel.watchdog=1"),
        ("sys/kernel/sched_ext/state", Some("enabled"), "sched_ext", Status::Warn, "loaded"),
        ("proc/cmdline", Some("quiet isolcpus=2-3,7"), "sched_ext", Status::Warn, "partition"),
        (
            "proc/sys/kernel/version",
            Some("#1 SMP PREEMPT_RT x"),
            "sched_ext",
            Status::Warn,
            "without PREEMPT_RT",
        ),
        ("proc/cmdline", Some("isolcpus=nohz,domain,3 ro"), "sched_ext", Status::Warn, "partition"),
        ("proc/sys/kernel/sched_util_clamp_min", None, "uclamp", Status::Warn, "UCLAMP"),
        (
            "sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
            Some("intel_pstate"),
            "cpufreq",
            Status::Warn,
            "passive",
        ),
        (
            "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            Some("powersave"),
            "cpufreq",
            Status::Warn,
            "policy1",
        ),
        (
            "proc/sys/kernel/perf_event_paranoid",
            Some("3"),
            "perf_event_paranoid",
            Status::Warn,
            "perf",
        ),
    ];
    for (path, text, name, status, says) in faults {
        let f = Fixture::good("fault");
        match text {
            Some(text) => f.put(path, text),
            None => f.remove(path),
        }
        let checks = f.examine();
        let bad: Vec<_> = checks.iter().filter(|c| c.status != Status::Ok).collect();
        assert_eq!(bad.len(), 1, "{path} {text:?}: {bad:?}");
        assert_eq!((bad[0].name, bad[0].status), (name, status), "{bad:?}");
        assert!(format!("{} {}", bad[0].found, bad[0].remedy).contains(says), "{bad:?}");
        assert!(!bad[0].remedy.is_empty());
        assert_eq!(usable(&checks), status != Status::Fail);
    }
}

#[test]
fn old_kernels_fail_and_real_time_groups_can_be_off_at_boot() {
    let f = Fixture::good("version");
    for (release, status) in [
        ("5.14.0", Status::Fail),
        ("5.15.0-rc1", Status::Ok),
        ("6.1.0-9-amd64", Status::Ok),
        ("x", Status::Unknown),
    ] {
        f.put("proc/sys/kernel/osrelease", release);
        let checks = f.examine();
        let kernel = checks.iter().find(|c| c.name == "kernel").unwrap();
        assert_eq!(kernel.status, status, "{release}");
    }
    f.put("proc/sys/kernel/osrelease", "7.2.12-test");
    f.put("boot/config-7.2.12-test", "CONFIG_RT_GROUP_SCHED=y");
    f.put("proc/cmdline", "quiet rt_group_sched=0");
    assert!(usable(&f.examine()));
}
