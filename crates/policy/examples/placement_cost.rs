// SPDX-License-Identifier: GPL-2.0-only
//! Measures the cost of a placement by energy: `placement_cost [PLACEMENTS]` prints lines of JSON
//! with nanoseconds per placement. On a host whose CPUs differ, each wakeup has this cost.

use std::{hint::black_box, time::Instant};

use paracord_policy::energy::{self, Cpu, place};
use paracord_policy::{pc_energy, pc_point};

/// A host with domains of 4 CPUs and 8 frequencies each. The CPUs of later domains have a higher
/// capacity.
fn host(domains: u32) -> (pc_energy, Vec<Cpu>) {
    let mut model = pc_energy::default();
    let mut cpus = Vec::new();
    for (index, domain) in model.domain.iter_mut().enumerate().take(domains as usize) {
        let domain_index = u32::try_from(index).unwrap_or(0);
        let capacity = 1024 * (domain_index + 1) / domains;
        *domain = energy::domain(&[1, 2, 3, 4, 5, 6, 7, 8].map(|n| {
            let cost = u64::from(1000 * (domain_index + 1) + 100 * n);
            pc_point { cost, capacity: capacity * n / 8, reserved: 0 }
        }));
        let cpu = Cpu { domain: domain_index, capacity, sum: capacity / 3, allowed: true };
        cpus.extend([cpu; 4]);
    }
    model.cpus = u32::try_from(cpus.len()).unwrap_or(0);
    (model, cpus)
}

fn main() {
    let placements: u32 =
        std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2_000_000);
    for domains in [2, 4, 8] {
        let (model, cpus) = host(domains);
        let mut at = 0;
        let start = Instant::now();
        for n in 0..placements {
            at = black_box(place(black_box(&model), black_box(&cpus), n % 512, at)).max(0);
        }
        let ns = start.elapsed().as_nanos() as f64 / f64::from(placements);
        println!(
            r#"{{"bench": "placement", "cpus": {}, "domains": {domains}, "placements": {placements}, "ns": {ns:.1}}}"#,
            cpus.len()
        );
    }
}
