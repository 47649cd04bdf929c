// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A guest that accesses the device's window in any way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use paracord_devices::virt_cpufreq::{Config, CpuConfig, PerfDomain, VirtCpufreq};

fuzz_target!(|accesses: Vec<(bool, u32, Vec<u8>)>| {
    let domains = vec![
        PerfDomain::from_frequencies(&[450_000, 950_000], 383, true).expect("rising"),
        PerfDomain::maximum_only(1_200_000, 1024, false).expect("in the scale"),
    ];
    let cpus = (0..8).map(|vcpu| CpuConfig { domain: usize::from(vcpu >= 4) }).collect();
    let device = VirtCpufreq::new(Config { domains, cpus }, ()).expect("domains exist");
    for (is_write, offset, mut data) in accesses {
        if is_write {
            device.write(offset.into(), &data);
        } else {
            device.read(offset.into(), &mut data);
        }
    }
    for vcpu in 0..8 {
        let max = device.domain(vcpu).expect("it exists").max_khz();
        assert!(device.requested(vcpu).expect("it exists") <= max);
    }
    // What a guest left behind can be moved.
    device.restore(&device.state()).expect("its own state");
});
