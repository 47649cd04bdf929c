// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How a VMM embeds the device: `cargo run -p paracord-devices --example embed_virt_cpufreq`.
//!
//! A "guest" of two threads writes and reads registers through the VMM's memory bus, as the exits
//! of its vCPUs would. Its requests become clamps of those threads if this machine's kernel has
//! clamps. `crates/vmm` does the same with KVM.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use paracord_devices::virt_cpufreq::registers::{CUR_PERF, PAGE_BYTES, SET_PERF};
use paracord_devices::virt_cpufreq::{
    Config, CpuConfig, Frequencies, Headroom, PerfDomain, UclampBackend, VirtCpufreq, fdt,
    governor_listens,
};

const BASE: u64 = 0x0905_0000;
const VCPUS: u32 = 2;
/// A guest with 250 ticks per second reads its frequency this often.
const HOUSEKEEPING: Duration = Duration::from_millis(4);

fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // 1. The table that the guest sees. Here, all vCPUs have the same table, but each requests its
    //    own frequency.
    let domain = PerfDomain::from_frequencies(&[800_000, 1_600_000, 2_400_000], 1024, false)?;
    let cpus = vec![CpuConfig { domain: 0 }; VCPUS as usize];
    // 2. The back end, which passes requests to the host.
    let backend = Arc::new(UclampBackend::new(VCPUS, Headroom::of_host(Path::new("/"))));
    let config = Config { domains: vec![domain], cpus };
    let device = Arc::new(VirtCpufreq::new(config, Arc::clone(&backend))?);
    // 3. The device tree node by which the guest finds the device.
    let node = fdt::Node::new(BASE, VCPUS);
    println!("{}: compatible {:?}, reg {:#x?}", node.name, node.compatible, node.reg);

    let done = AtomicBool::new(false);
    let mut frequencies = Frequencies::new(Path::new("/"));
    std::thread::scope(|scope| -> Result<(), Box<dyn std::error::Error>> {
        let (say, threads) = std::sync::mpsc::channel();
        for vcpu in 0..VCPUS {
            let (device, backend, done, say) = (&device, &backend, &done, say.clone());
            scope.spawn(move || {
                let _ = say.send((vcpu, thread_id()));
                let mut khz = 800_000;
                while !done.load(Ordering::Relaxed) {
                    // 4. The vCPU's loop: each exit is an access to the window.
                    let address = BASE + u64::from(vcpu) * PAGE_BYTES;
                    device.write(address + SET_PERF - BASE, &u32::to_le_bytes(khz));
                    let mut data = [0; 4];
                    device.read(address + CUR_PERF - BASE, &mut data);
                    khz = if khz == 800_000 { 2_400_000 } else { 800_000 };
                    std::thread::sleep(Duration::from_millis(2));
                }
                backend.unregister(vcpu);
            });
        }
        for (vcpu, tid) in threads.iter().take(VCPUS as usize) {
            backend.register(vcpu, tid)?;
            frequencies.register(vcpu, std::process::id(), tid)?;
        }
        // 5. A thread of the VMM does the slow work.
        for _ in 0..50 {
            frequencies.update(&device);
            backend.flush();
            std::thread::sleep(HOUSEKEEPING);
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    for vcpu in 0..VCPUS {
        println!(
            "vCPU {vcpu}: asks for {:?} kHz, reads {:?} kHz",
            device.requested(vcpu),
            device.current(vcpu)
        );
    }
    println!("{} requests, {} clamps changed", device.counts().requests, backend.changes());
    if !governor_listens(Path::new("/")) {
        println!("without effect: no CPU has the governor schedutil, which follows clamps");
    }
    if let Some(why) = backend.refusal() {
        println!("without effect: {why}");
    }
    Ok(())
}
