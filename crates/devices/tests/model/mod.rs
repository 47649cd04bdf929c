// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A model of the device in a few lines, without atomics, and a comparison of the device with it.
//! The property test and the fuzz target share it.

use std::sync::Mutex;

use paracord_devices::virt_cpufreq::{
    Backend, Config, Counts, CpuConfig, PerfDomain, Request, VirtCpufreq,
};

/// vCPUs 0 to 3 share a policy; each of the others has its own. There are more than 16 vCPUs,
/// because a check of the window once stopped there by mistake.
pub const VCPUS: u64 = 24;
const SHARED: u64 = 4;
const LITTLE: &[u32] = &[450_000, 800_000, 950_000];
const BIG: &[u32] = &[600_000, 1_200_000];
const LITTLE_CAPACITY: u16 = 383;

/// One access of a guest.
#[derive(Clone, Debug)]
pub struct Access {
    /// Whether this is a write; otherwise, it is a read.
    pub is_write: bool,
    /// The offset, in the window or anywhere.
    pub offset: u64,
    /// The bytes that are written. Their number is the width of the access.
    pub data: Vec<u8>,
}

#[derive(Default)]
struct Told(Mutex<Vec<(u32, Request)>>);

impl Backend for &Told {
    fn request(&self, vcpu: u32, request: Request) {
        self.0.lock().expect("nobody panics").push((vcpu, request));
    }
}

struct Model {
    requested_khz: [u32; VCPUS as usize],
    selected: [u32; VCPUS as usize],
    counts: Counts,
    told: Vec<(u32, u32)>,
}

fn table(vcpu: u64) -> &'static [u32] {
    if vcpu < SHARED { LITTLE } else { BIG }
}

/// The vCPUs that are in the same policy as `vcpu`.
fn together(vcpu: u64) -> std::ops::Range<u64> {
    if vcpu < SHARED { 0..SHARED } else { vcpu..vcpu + 1 }
}

impl Model {
    /// The value that a read returns.
    fn access(&mut self, access: &Access) -> u32 {
        let (vcpu, register) = (access.offset / 0x1000, access.offset % 0x1000);
        let Ok(word) = <[u8; 4]>::try_from(access.data.as_slice()) else {
            self.counts.width += 1;
            return 0;
        };
        if vcpu >= VCPUS {
            self.counts.outside += 1;
            return 0;
        }
        let (table, at) = (table(vcpu), vcpu as usize);
        let highest = table[table.len() - 1];
        match (register, access.is_write) {
            (0x00, false) => return highest,
            (0x04, true) => self.request(vcpu, u32::from_le_bytes(word), highest),
            (0x08, false) => return table.len() as u32,
            (0x0c, true) => self.selected[at] = u32::from_le_bytes(word),
            (0x10, false) => match table.get(self.selected[at] as usize) {
                Some(&khz) => return khz,
                None => self.counts.no_entry += 1,
            },
            (0x14, false) => return if vcpu < SHARED { 0 } else { (vcpu - SHARED + 1) as u32 },
            (0x00 | 0x04 | 0x08 | 0x0c | 0x10 | 0x14, _) => self.counts.direction += 1,
            _ => self.counts.offset += 1,
        }
        0
    }

    fn request(&mut self, vcpu: u64, khz: u32, highest: u32) {
        self.counts.clamped += u64::from(khz > highest);
        let khz = khz.min(highest);
        if self.requested_khz[vcpu as usize] == khz {
            return;
        }
        self.counts.requests += 1;
        for vcpu in together(vcpu) {
            self.requested_khz[vcpu as usize] = khz;
            self.told.push((vcpu as u32, khz));
        }
    }
}

/// Checks that the device and the model agree on what is read, on what is counted, and on what the
/// back end is told.
pub fn compare(accesses: &[Access]) {
    let domains = vec![
        PerfDomain::from_frequencies(LITTLE, LITTLE_CAPACITY, true).expect("rising"),
        PerfDomain::from_frequencies(BIG, 1024, false).expect("rising"),
    ];
    let cpus = (0..VCPUS).map(|vcpu| CpuConfig { domain: usize::from(vcpu >= SHARED) }).collect();
    let told = Told::default();
    let device = VirtCpufreq::new(Config { domains, cpus }, &told).expect("domains exist");
    let mut model = Model {
        requested_khz: [0; VCPUS as usize],
        selected: [0; VCPUS as usize],
        counts: Counts::default(),
        told: Vec::new(),
    };
    for access in accesses {
        let wanted = model.access(access);
        if access.is_write {
            device.write(access.offset, &access.data);
        } else {
            let mut data = access.data.clone();
            device.read(access.offset, &mut data);
            let mut bytes = vec![0; data.len()];
            if let Ok(word) = <&mut [u8; 4]>::try_from(bytes.as_mut_slice()) {
                *word = wanted.to_le_bytes();
            }
            assert_eq!(data, bytes, "{access:x?}");
        }
        assert_eq!(device.counts(), model.counts, "{access:x?}");
    }
    let told = std::mem::take(&mut *told.0.lock().expect("nobody panics"));
    let khz: Vec<_> = told.iter().map(|(vcpu, request)| (*vcpu, request.khz)).collect();
    assert_eq!(khz, model.told);
    for (vcpu, request) in &told {
        let capacity = if u64::from(*vcpu) < SHARED { LITTLE_CAPACITY } else { 1024 };
        assert!(request.util <= capacity, "{request:?}");
    }
    for (vcpu, &khz) in (0..).zip(&model.requested_khz) {
        assert_eq!(device.requested(vcpu), Some(khz));
    }
    // The state that a guest has left behind can be restored.
    device.restore(&device.state()).expect("its own state");
}
