// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Measures what a guest's access to the virtual cpufreq device costs the VMM, without the VM exit:
//! `cargo run --release -p paracord-devices --example access_cost`. Prints medians of rounds and
//! their quartiles, as lines of JSON.

use std::hint::black_box;
use std::time::Instant;

use paracord_devices::virt_cpufreq::registers::{CUR_PERF, PERFTBL_RD, SET_PERF};
use paracord_devices::virt_cpufreq::{Config, CpuConfig, PerfDomain, VirtCpufreq};

const ROUNDS: usize = 31;
const ACCESSES: u32 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let domain = PerfDomain::from_frequencies(&[600_000, 1_200_000], 1024, false)?;
    let cpus = vec![CpuConfig { domain: 0 }; 64];
    let device = VirtCpufreq::new(Config { domains: vec![domain], cpus }, ())?;
    let page = 63 * 0x1000;
    let mut data = [0; 4];
    measure("read cur_perf", |_| device.read(black_box(page + CUR_PERF), black_box(&mut data)));
    measure("read perftbl_rd", |_| device.read(black_box(page + PERFTBL_RD), black_box(&mut data)));
    let write = |khz: u32| device.write(black_box(page + SET_PERF), &khz.to_le_bytes());
    measure("write set_perf, the same", |_| write(600_000));
    measure("write set_perf, another", |i| write(600_000 + i % 2));
    measure("refused access", |_| device.write(black_box(page + 2), black_box(&[0; 4])));
    Ok(())
}

fn measure(what: &str, mut access: impl FnMut(u32)) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..ACCESSES).for_each(&mut access);
            start.elapsed().as_nanos() as f64 / f64::from(ACCESSES)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (low, median, high) = (rounds[ROUNDS / 4], rounds[ROUNDS / 2], rounds[3 * ROUNDS / 4]);
    println!(
        "{{\"bench\": \"virt_cpufreq_access\", \"case\": \"{what}\", \"ns\": {median:.1}, \
         \"quartiles_ns\": [{low:.1}, {high:.1}]}}"
    );
}
