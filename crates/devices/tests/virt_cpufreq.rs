// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The device as a guest sees it: every register of every vCPU, and the accesses of a hostile
//! guest.

#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Mutex;

use paracord_devices::virt_cpufreq::registers::{
    CUR_PERF, PAGE_BYTES, PERF_DOMAIN, PERFTBL_LEN, PERFTBL_RD, PERFTBL_SEL, SET_PERF,
};
use paracord_devices::virt_cpufreq::{
    Backend, Config, CpuConfig, PerfDomain, Request, State, StateError, VirtCpufreq,
};
use proptest::prelude::*;

mod model;
use model::{Access, VCPUS};

const LITTLE: [u32; 3] = [450_000, 800_000, 950_000];
const BIG: [u32; 2] = [600_000, 1_200_000];
const NUMBER_OF_VCPUS: u32 = VCPUS as u32;

/// The last request that the back end got for each vCPU, and the number of requests.
#[derive(Default)]
struct Told(Mutex<BTreeMap<u32, Request>>, Mutex<u64>);

impl Backend for Told {
    fn request(&self, vcpu: u32, request: Request) {
        self.0.lock().unwrap().insert(vcpu, request);
        *self.1.lock().unwrap() += 1;
    }
}

/// A device with more than 16 vCPUs, because a check of the window once stopped there by mistake.
/// vCPUs 0 to 3 share the first domain; each of the others has its own policy.
fn device() -> VirtCpufreq<Told> {
    let domains = vec![
        PerfDomain::from_frequencies(&LITTLE, 383, true).unwrap(),
        PerfDomain::from_frequencies(&BIG, 1024, false).unwrap(),
    ];
    let cpus = (0..NUMBER_OF_VCPUS).map(|vcpu| CpuConfig { domain: usize::from(vcpu >= 4) });
    VirtCpufreq::new(Config { domains, cpus: cpus.collect() }, Told::default()).unwrap()
}

fn read<B: Backend>(device: &VirtCpufreq<B>, vcpu: u32, register: u64) -> u32 {
    let mut data = [0xaa; 4];
    device.read(u64::from(vcpu) * PAGE_BYTES + register, &mut data);
    u32::from_le_bytes(data)
}

fn write<B: Backend>(device: &VirtCpufreq<B>, vcpu: u32, register: u64, value: u32) {
    device.write(u64::from(vcpu) * PAGE_BYTES + register, &value.to_le_bytes());
}

fn refused<B: Backend>(device: &VirtCpufreq<B>) -> u64 {
    device.counts().ignored()
}

#[test]
fn mmio_register_conformance() {
    const READABLE: [u64; 4] = [CUR_PERF, PERFTBL_LEN, PERFTBL_RD, PERF_DOMAIN];
    const WRITABLE: [u64; 2] = [SET_PERF, PERFTBL_SEL];
    let device = device();
    assert_eq!(device.window_bytes(), u64::from(NUMBER_OF_VCPUS) * 0x1000);
    for vcpu in 0..NUMBER_OF_VCPUS {
        let table: &[u32] = if vcpu < 4 { &LITTLE } else { &BIG };
        let max = *table.last().unwrap();
        assert_eq!(read(&device, vcpu, PERFTBL_LEN), table.len() as u32);
        for (entry, khz) in (0..).zip(table) {
            write(&device, vcpu, PERFTBL_SEL, entry);
            assert_eq!(read(&device, vcpu, PERFTBL_RD), *khz);
        }
        for beyond in [table.len() as u32, 64, u32::MAX] {
            write(&device, vcpu, PERFTBL_SEL, beyond);
            assert_eq!(read(&device, vcpu, PERFTBL_RD), 0);
        }
        let domain = if vcpu < 4 { 0 } else { vcpu - 3 };
        assert_eq!(read(&device, vcpu, PERF_DOMAIN), domain);
        assert_eq!(read(&device, vcpu, CUR_PERF), max);
        assert!(device.set_current(vcpu, max / 2));
        assert_eq!(read(&device, vcpu, CUR_PERF), max / 2);
        // Request each value of the table, 0, and a value above the table.
        for (written, asked) in table.iter().map(|&khz| (khz, khz)).chain([(0, 0), (u32::MAX, max)])
        {
            write(&device, vcpu, SET_PERF, written);
            assert_eq!(device.requested(vcpu), Some(asked));
            let together = if vcpu < 4 { 0..4 } else { vcpu..vcpu + 1 };
            let told = device.backend().0.lock().unwrap();
            assert!(together.clone().all(|vcpu| told[&vcpu].khz == asked));
        }
        assert_eq!(refused(&device), 0, "vCPU {vcpu}");
    }
    // Writing the same value again is not a request.
    let told = *device.backend().1.lock().unwrap();
    write(&device, 5, SET_PERF, u32::MAX);
    assert_eq!(*device.backend().1.lock().unwrap(), told);

    // All other accesses have no effect, read zeroes and are counted: accesses to each register of
    // each vCPU in the wrong direction, with any other width or unaligned, and accesses between and
    // after the registers.
    let before = device.state();
    let mut expected = 0;
    let refuse_read = |offset: u64, bytes: usize| {
        let mut data = vec![0xaa; bytes];
        device.read(offset, &mut data);
        assert_eq!(data, vec![0; bytes], "{bytes} bytes at {offset:#x}");
    };
    for page in (0..NUMBER_OF_VCPUS).map(|vcpu| u64::from(vcpu) * PAGE_BYTES) {
        for register in READABLE {
            device.write(page + register, &1_u32.to_le_bytes());
        }
        for register in WRITABLE {
            refuse_read(page + register, 4);
        }
        for register in READABLE.into_iter().chain(WRITABLE) {
            for bytes in [1, 2, 8] {
                refuse_read(page + register, bytes);
                device.write(page + register, &vec![1; bytes]);
            }
            for unaligned in 1..4 {
                refuse_read(page + register + unaligned, 4);
                device.write(page + register + unaligned, &[1; 4]);
            }
        }
        for hole in [0x18, 0x1c, 0x800, PAGE_BYTES - 4] {
            refuse_read(page + hole, 4);
            device.write(page + hole, &[1; 4]);
        }
        expected += 4 + 2 + 6 * (3 + 3) * 2 + 4 * 2;
    }
    for outside in [device.window_bytes(), device.window_bytes() + SET_PERF, u64::MAX - 3, u64::MAX]
    {
        refuse_read(outside, 4);
        device.write(outside, &[1; 4]);
        expected += 2;
    }
    assert_eq!((device.state(), refused(&device)), (before, expected));
}

#[test]
fn a_state_is_restored_where_the_guest_sees_the_same_tables() {
    let (source, target) = (device(), device());
    write(&source, 2, SET_PERF, 800_000);
    write(&source, 9, PERFTBL_SEL, 1);
    source.set_current(9, 700_000);
    let text = serde_json::to_string(&source.state()).unwrap();
    let state: State = serde_json::from_str(&text).unwrap();
    target.restore(&state).unwrap();
    assert_eq!(target.state(), source.state());
    // The back end gets the request that the guest made before its state was moved.
    assert_eq!(target.backend().0.lock().unwrap()[&3].khz, 800_000);
    assert_eq!((read(&target, 9, PERFTBL_RD), read(&target, 9, CUR_PERF)), (1_200_000, 700_000));

    let before = target.state();
    let refuse = |change: fn(&mut State)| {
        let mut state = state.clone();
        change(&mut state);
        let why = target.restore(&state).unwrap_err();
        assert_eq!(target.state(), before, "a refused state changed something: {why}");
        why
    };
    assert_eq!(refuse(|s| s.version = 2), StateError::Version { found: 2 });
    assert_eq!(refuse(|s| s.cpus.truncate(23)), StateError::Cpus { found: 23, here: 24 });
    assert_eq!(refuse(|s| s.cpus[4].policy = 9), StateError::Policies);
    assert_eq!(refuse(|s| s.policies[1].khz.truncate(1)), StateError::Table { policy: 1 });
    let found = u32::MAX;
    assert_eq!(
        refuse(|s| s.policies[1].requested_khz = u32::MAX),
        StateError::Requested { policy: 1, found }
    );
    assert_eq!(refuse(|s| s.cpus[6].current_khz = 0), StateError::Current { vcpu: 6, found: 0 });
}

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let offset = prop_oneof![
        8 => (0..VCPUS + 2, 0_u64..7).prop_map(|(page, n)| page * PAGE_BYTES + n * 4),
        1 => (0..VCPUS + 2, 0..PAGE_BYTES).prop_map(|(page, byte)| page * PAGE_BYTES + byte),
        1 => any::<u64>(),
    ];
    let data = prop_oneof![
        4 => any::<u32>().prop_map(|value| value.to_le_bytes().to_vec()),
        2 => (0_u32..1_300_000).prop_map(|khz| khz.to_le_bytes().to_vec()),
        2 => (0_u32..4).prop_map(|entry| entry.to_le_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..17),
    ];
    let access = (any::<bool>(), offset, data);
    let access = access.prop_map(|(is_write, offset, data)| Access { is_write, offset, data });
    prop::collection::vec(access, 0..200)
}

proptest! {
    #[test]
    fn any_accesses_do_what_the_model_does(accesses in accesses()) {
        model::compare(&accesses);
    }
}

/// vCPUs of the same policy and of different policies access the device at the same time, and so
/// does the VMM.
#[test]
fn vcpus_may_access_the_device_at_once() {
    let device = device();
    std::thread::scope(|scope| {
        for vcpu in 0..6 {
            let device = &device;
            scope.spawn(move || {
                for i in 0..20_000_u32 {
                    write(device, vcpu, SET_PERF, i * 64);
                    write(device, vcpu, PERFTBL_SEL, i % 4);
                    assert!(read(device, vcpu, PERFTBL_RD) <= 1_200_000);
                }
            });
        }
        for khz in 0..20_000 {
            device.set_current(khz % 6, khz * 64);
        }
    });
    assert_eq!(refused(&device), 0);
    write(&device, 0, SET_PERF, 450_000);
    assert_eq!(device.requested(3), Some(450_000));
}
