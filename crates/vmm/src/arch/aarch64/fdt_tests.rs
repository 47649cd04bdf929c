// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The tests read the tree back with their own reader, which follows the specification of the
//! format.
use std::collections::BTreeMap;

use super::*;

/// The properties by path, for example `/cpus/cpu@0/reg`.
fn read(blob: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let word = |at: usize| u32::from_be_bytes(blob[at..at + 4].try_into().unwrap()) as usize;
    let text = |at: usize| {
        let length = blob[at..].iter().position(|byte| *byte == 0).unwrap();
        std::str::from_utf8(&blob[at..at + length]).unwrap().to_owned()
    };
    assert_eq!((word(0), word(4)), (0xd00d_feed, blob.len()));
    let (mut at, strings) = (word(8), word(12));
    let mut path: Vec<String> = Vec::new();
    let mut found = BTreeMap::new();
    loop {
        let token = word(at);
        at += 4;
        match token {
            1 => {
                path.push(text(at));
                at += (path[path.len() - 1].len() + 4) & !3;
            }
            2 => drop(path.pop()),
            3 => {
                let (length, name) = (word(at), text(strings + word(at + 4)));
                let value = blob[at + 8..at + 8 + length].to_vec();
                found.insert(format!("{}/{name}", path.join("/")), value);
                at += 8 + ((length + 3) & !3);
            }
            9 => return found,
            other => panic!("token {other} at {at}"),
        }
    }
}

fn cells(value: &[u8]) -> Vec<u32> {
    value.chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect()
}

fn tree(vcpus: &[VcpuPlan], pci: bool, cpufreq: bool) -> BTreeMap<String, Vec<u8>> {
    let mpidrs: Vec<u64> =
        (0..vcpus.len() as u64).map(|id| 1 << 31 | id & 0xf | id >> 4 << 8).collect();
    let description = Description {
        cmdline: "console=ttyS0 quiet",
        memory: (layout::RAM, 256 << 20),
        initramfs: Some((0x4800_0000, 0x4810_0000)),
        mpidrs: &mpidrs,
        vcpus,
        pci,
        cpufreq,
        seed: [9; 40],
    };
    read(&build(&description).unwrap())
}

#[test]
fn what_every_machine_has() {
    let tree = tree(&vec![VcpuPlan::default(); 18], false, false);
    assert_eq!(tree["/chosen/bootargs"], b"console=ttyS0 quiet\0");
    assert_eq!(tree["/chosen/stdout-path"], b"/serial@9000000\0");
    assert_eq!(tree["/aliases/serial1"], b"/serial@9001000\0");
    assert_eq!(cells(&tree["/chosen/linux,initrd-end"]), [0, 0x4810_0000]);
    assert_eq!((tree["/chosen/kaslr-seed"].len(), tree["/chosen/rng-seed"].len()), (8, 32));
    assert_eq!(cells(&tree["/memory@40000000/reg"]), [0, 0x4000_0000, 0, 0x1000_0000]);
    assert_eq!(tree["/cpus/cpu@0/enable-method"], b"psci\0");
    assert_eq!(cells(&tree["/cpus/cpu@101/reg"]), [0x101], "vCPU 17");
    assert_eq!(tree["/psci/method"], b"hvc\0");
    let redistributors = &cells(&tree["/interrupt-controller@8000000/reg"])[4..];
    assert_eq!(redistributors, [0, 0x080a_0000, 0, 18 * 0x2_0000]);
    assert_eq!(cells(&tree["/serial@9001000/interrupts"]), [0, 2, 1]);
    assert_eq!(cells(&tree["/timer/interrupts"])[3..6], [1, 14, 4]);
}

#[test]
fn optional_parts_are_absent_unless_asked_for() {
    let names =
        |tree: &BTreeMap<String, Vec<u8>>| tree.keys().cloned().collect::<Vec<_>>().join(" ");
    let plain = names(&tree(&[VcpuPlan::default()], false, false));
    for absent in ["pcie", "msi-controller", "cpufreq", "cpu-map", "capacity-dmips-mhz"] {
        assert!(!plain.contains(absent), "{absent}");
    }
    let full = tree(&[VcpuPlan::default()], true, true);
    assert_eq!(full["/pcie@3f000000/compatible"], b"pci-host-ecam-generic\0");
    let ranges = cells(&full["/pcie@3f000000/ranges"]);
    assert_eq!(ranges, [0x0200_0000, 0, 0x1000_0000, 0, 0x1000_0000, 0, 0x2f00_0000]);
    let its = "/interrupt-controller@8000000/msi-controller@8010000";
    assert_eq!(cells(&full[&format!("{its}/reg")]), [0, 0x0801_0000, 0, 0x2_0000]);
    let phandle = cells(&full[&format!("{its}/phandle")])[0];
    assert_eq!(cells(&full["/pcie@3f000000/msi-map"]), [0, phandle, 0, 1 << 16]);
    assert_eq!(full["/cpufreq@a000000/compatible"], b"qemu,virtual-cpufreq\0");
    assert_eq!(cells(&full["/cpufreq@a000000/reg"]), [0, 0x0a00_0000, 0, 4096]);
}

#[test]
fn capacities_and_clusters() {
    let plan = |capacity, cluster| VcpuPlan {
        capacity: Some(capacity),
        cluster: Some(cluster),
        ..VcpuPlan::default()
    };
    // The numbers of the host's clusters may have gaps. The numbers in the cpu-map must not.
    let tree = tree(&[plan(383, 4), plan(1024, 0), plan(383, 4)], false, false);
    assert_eq!(cells(&tree["/cpus/cpu@1/capacity-dmips-mhz"]), [1024]);
    let phandle = |cpu: &str| tree[&format!("/cpus/{cpu}/phandle")].clone();
    assert_eq!(tree["/cpus/cpu-map/cluster0/core0/cpu"], phandle("cpu@1"));
    assert_eq!(tree["/cpus/cpu-map/cluster1/core0/cpu"], phandle("cpu@0"));
    assert_eq!(tree["/cpus/cpu-map/cluster1/core1/cpu"], phandle("cpu@2"));
    assert!(!tree.contains_key("/cpus/cpu-map/cluster0/core1/cpu"));
}

#[test]
fn a_capacity_is_that_at_the_highest_frequency() {
    let plan = |capacity, khz: &[u32]| VcpuPlan {
        capacity: Some(capacity),
        frequencies_khz: khz.to_vec(),
        ..VcpuPlan::default()
    };
    let plans = [plan(383, &[450_000, 950_000]), plan(1024, &[600_000, 1_200_000]), plan(500, &[])];
    let found = |cpufreq| {
        let tree = tree(&plans, false, cpufreq);
        [0, 1, 2].map(|n| cells(&tree[&format!("/cpus/cpu@{n}/capacity-dmips-mhz")])[0])
    };
    assert_eq!(found(true), [484, 1024, 500]);
    // Without the cpufreq device, the guest's kernel learns no frequency.
    assert_eq!(found(false), [383, 1024, 500]);
}
