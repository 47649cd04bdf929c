// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
use clap::Parser;

use super::*;

fn host() -> Result<Vec<HostCpu>, ConfigError> {
    let cpu = |cpu, capacity, cluster| HostCpu {
        cpu,
        capacity: Some(capacity),
        cluster: Some(cluster),
        frequencies_khz: vec![600_000, 1_200_000],
        ..HostCpu::default()
    };
    Ok(vec![cpu(0, 383, 7), cpu(2, 1024, 9)])
}

fn config(words: &str) -> Result<Config, ConfigError> {
    let line = ["paracord-vmm", "--kernel", "k"].into_iter().chain(words.split_whitespace());
    Config::new(Args::try_parse_from(line).unwrap(), host)
}

fn refused(words: &str) -> String {
    config(words).unwrap_err().to_string()
}

#[test]
fn defaults() {
    let config = config("").unwrap();
    assert_eq!((config.vcpus.len(), config.memory_bytes), (1, 256 << 20));
    assert_eq!((config.name.as_str(), config.cmdline.as_str()), ("vm", "console=ttyS0"));
    assert_eq!(config.console, Console::Standard);
    assert_eq!(config.vcpus[0], VcpuPlan::default());
}

#[test]
fn counters_have_a_budget() {
    assert_eq!(config("").unwrap().pmu, None);
    let pmu = |words: &str| config(&format!("--region r {words}")).unwrap().pmu;
    assert_eq!(pmu("--pmu"), Some((PmuWord::Keyed, Quota::default())));
    let quota = Quota { opens_per_sec: 7, calls_per_sec: Duration::from_millis(200) };
    let words = "--pmu=last --pmu-budget-ms 200 --pmu-openings 7";
    assert_eq!(pmu(words), Some((PmuWord::Last, quota)));
    assert!(refused("--pmu").contains("--pmu needs --region"));
}

#[test]
fn affinity_per_vcpu() {
    let config = config("--vcpus 3 --cpu-affinity 0=0-3:2=4,5 --console log").unwrap();
    assert_eq!(config.vcpus[0].affinity, [0, 1, 2, 3]);
    assert!(config.vcpus[1].affinity.is_empty());
    assert_eq!(config.vcpus[2].affinity, [4, 5]);
    assert_eq!(config.console, Console::File("log".into()));
}

#[test]
fn the_host_topology_binds_vcpus_one_to_one() {
    let config = config("--host-cpu-topology").unwrap();
    let bound: Vec<_> = config.vcpus.iter().map(|plan| plan.affinity.clone()).collect();
    assert_eq!(bound, [[0], [2]]);
    assert_eq!(config.vcpus[1].capacity, Some(1024));
    assert!(
        Args::try_parse_from(["x", "--kernel", "k", "--host-cpu-topology", "--vcpus", "2"])
            .is_err()
    );
}

#[test]
fn refusals_name_the_option_and_what_to_do() {
    for (words, expected) in [
        ("--vcpus 0", "--vcpus 0: a VM has 1 to 64"),
        ("--vcpus 65", "--vcpus 65"),
        ("--memory-mib 1", "--memory-mib 1: a VM has 64 to"),
        ("--name ../x", "--name"),
        ("--cpu-affinity 0", "write VCPU=VALUE"),
        ("--cpu-affinity 0=x", "--cpu-affinity: \"x\" is no list of CPUs: write it as 0-3,5"),
        ("--cpu-affinity 0=", "\"\" is no list of CPUs: write it as 0-3,5"),
        ("--cpu-affinity 0=3-1", "the range 3-1 is empty: write the lower CPU first"),
        ("--cpu-affinity 0=0-1024", "CPU 1024 is above 1023"),
        ("--cpu-affinity 1=0", "there is no vCPU 1: the VM has 0 to 0"),
        ("--cpu-affinity 0=0:0=1", "vCPU 0 is there twice"),
    ] {
        assert!(refused(words).contains(expected), "{words}: {}", refused(words));
    }
    let long = Args { cmdline: "x".repeat(2048), name: "x".into(), ..Args::default() };
    assert_eq!(Config::new(long, host).unwrap_err(), ConfigError::CmdlineLength(2048));
    let odd = Args { cmdline: "a\nb".into(), name: "x".into(), ..Args::default() };
    assert_eq!(Config::new(odd, host).unwrap_err(), ConfigError::CmdlineCharacter);
}

#[test]
fn capacities_and_clusters_are_for_all_vcpus_or_none() {
    let mut plans = vec![VcpuPlan::default(); 3];
    set_capacity("0=383,1=383,2=1024", &mut plans).unwrap();
    set_clusters(&["0,1".to_owned(), "2".to_owned()], &mut plans).unwrap();
    let made: Vec<_> = plans.iter().map(|plan| (plan.capacity, plan.cluster)).collect();
    assert_eq!(made, [(Some(383), Some(0)), (Some(383), Some(0)), (Some(1024), Some(1))]);

    let fresh = || vec![VcpuPlan::default(); 2];
    let missing = |option, vcpu| Err(ConfigError::Missing { option, vcpu });
    assert_eq!(set_capacity("1=5", &mut fresh()), missing("--cpu-capacity", 0));
    assert_eq!(set_clusters(&["0".to_owned()], &mut fresh()), missing("--cpu-cluster", 1));
    for bad in ["0=0", "0=1025", "0=big"] {
        assert!(matches!(set_capacity(bad, &mut fresh()), Err(ConfigError::Capacity(_))), "{bad}");
    }
    let twice = set_clusters(&["0,1".to_owned(), "1".to_owned()], &mut fresh());
    assert_eq!(twice, Err(ConfigError::Twice { option: "--cpu-cluster", vcpu: 1 }));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn what_needs_a_device_tree_is_refused_here() {
    assert!(refused("--virt-cpufreq").contains("paracord's module"));
    assert!(refused("--cpu-capacity 0=5").contains("device tree"));
    assert!(refused("--cpu-cluster 0").contains("device tree"));
}

#[cfg(target_arch = "aarch64")]
#[test]
fn the_cpufreq_device_has_two_back_ends() {
    assert_eq!(config("--virt-cpufreq").unwrap().virt_cpufreq, Some(CpufreqWord::Uclamp));
    let default = config("--virt-cpufreq").unwrap();
    assert_eq!((default.vcpus[0].speed, default.vcpus[0].frequencies_khz.len()), (Some(1024), 2));
    assert!(refused("--virt-cpufreq --cpu-affinity 0=5").contains("no frequencies for vCPU 0"));
    assert_eq!(refused("--virt-cpufreq=region"), "--virt-cpufreq=region needs --region FILE");
}
