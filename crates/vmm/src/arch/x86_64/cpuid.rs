// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! CPUID of each vCPU. It reports what KVM supports, the vCPU's own APIC ID, and a topology with
//! one package, in which each vCPU is a core.

use kvm_bindings::{CpuId, kvm_cpuid_entry2};

const HYPERVISOR: u32 = 1 << 31;
const TSC_DEADLINE_TIMER: u32 = 1 << 24;
const MULTIPLE_THREADS: u32 = 1 << 28;
/// Leaf 0xb: numbers of levels, and types of levels.
const LEVEL_SMT: u32 = 0;
const LEVEL_CORE: u32 = 1;
const KIND_SMT: u32 = 1;
const KIND_CORE: u32 = 2;

/// CPUID of vCPU `index` of `vcpus` vCPUs, from the features that KVM supports.
///
/// `tsc_deadline`: whether KVM has the TSC deadline timer, which its list of supported features
/// does not contain.
pub fn for_vcpu(supported: &CpuId, index: u32, vcpus: u32, tsc_deadline: bool) -> CpuId {
    let mut cpuid = supported.clone();
    // The newer topology leaves of Intel and AMD would contradict the leaves that are set below.
    cpuid.retain(|entry| !matches!(entry.function, 0xb | 0x1f | 0x8000_0026));
    for entry in cpuid.as_mut_slice() {
        adapt(entry, index, vcpus, tsc_deadline);
    }
    let levels = [(LEVEL_SMT, KIND_SMT, 0, 1), (LEVEL_CORE, KIND_CORE, id_bits(vcpus), vcpus)];
    for (level, kind, shift, cpus) in levels {
        let entry = kvm_cpuid_entry2 {
            function: 0xb,
            index: level,
            flags: kvm_bindings::KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            eax: shift,
            ebx: cpus,
            ecx: kind << 8 | level,
            edx: index,
            ..kvm_cpuid_entry2::default()
        };
        // If the list has hundreds of entries, it may have no room for these two. The guest's
        // kernel then uses leaf 1.
        let _ = cpuid.push(entry);
    }
    cpuid
}

/// Number of bits of an APIC ID that distinguish the vCPUs.
fn id_bits(vcpus: u32) -> u32 {
    vcpus.next_power_of_two().trailing_zeros()
}

fn adapt(entry: &mut kvm_cpuid_entry2, index: u32, vcpus: u32, tsc_deadline: bool) {
    match entry.function {
        0x1 => {
            entry.ebx = index << 24 | vcpus << 16 | entry.ebx & 0xffff;
            entry.ecx |= HYPERVISOR;
            if tsc_deadline {
                entry.ecx |= TSC_DEADLINE_TIMER;
            }
            if vcpus > 1 {
                entry.edx |= MULTIPLE_THREADS;
            }
        }
        // Intel's caches: how many IDs share a cache, and how many cores there are.
        0x4 if entry.eax & 0x1f != 0 => {
            let shared = if entry.eax >> 5 & 7 < 3 { 0 } else { vcpus - 1 };
            let cores = (1 << id_bits(vcpus)) - 1;
            entry.eax = entry.eax & 0x3fff | cores << 26 | shared << 14;
        }
        // AMD: number of bits of an ID, and number of cores.
        0x8000_0008 => {
            entry.ecx = entry.ecx & !0xf0ff | id_bits(vcpus) << 12 | (vcpus - 1);
        }
        0x8000_001d if entry.eax & 0x1f != 0 => {
            let shared = if entry.eax >> 5 & 7 < 3 { 0 } else { vcpus - 1 };
            entry.eax = entry.eax & 0x3fff | shared << 14;
        }
        0x8000_001e => {
            entry.eax = index;
            entry.ebx = index & 0xff;
            entry.ecx = 0;
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supported() -> CpuId {
        let leaf = |function, index| kvm_cpuid_entry2 {
            function,
            index,
            ebx: 0xffff_ffff,
            eax: 0x7f,
            ..kvm_cpuid_entry2::default()
        };
        let leaves = [leaf(1, 0), leaf(4, 0), leaf(0xb, 0), leaf(0x1f, 0), leaf(0x8000_001e, 0)];
        CpuId::from_entries(&leaves).unwrap()
    }

    fn find(cpuid: &CpuId, function: u32, index: u32) -> Option<kvm_cpuid_entry2> {
        cpuid.as_slice().iter().find(|e| e.function == function && e.index == index).copied()
    }

    #[test]
    fn each_vcpu_has_its_apic_id_everywhere() {
        for index in 0..3 {
            let cpuid = for_vcpu(&supported(), index, 3, true);
            let features = find(&cpuid, 1, 0).unwrap();
            assert_eq!(features.ebx, index << 24 | 3 << 16 | 0xffff);
            assert_eq!(features.ecx, HYPERVISOR | TSC_DEADLINE_TIMER);
            let core = find(&cpuid, 0xb, LEVEL_CORE).unwrap();
            assert_eq!((core.eax, core.ebx, core.ecx, core.edx), (2, 3, 0x201, index));
            assert_eq!(find(&cpuid, 0xb, LEVEL_SMT).unwrap().ecx, 0x100);
            assert_eq!(find(&cpuid, 0x8000_001e, 0).unwrap().eax, index);
            assert!(find(&cpuid, 0x1f, 0).is_none());
        }
    }

    #[test]
    fn a_single_vcpu_has_no_siblings() {
        let cpuid = for_vcpu(&supported(), 0, 1, false);
        let features = find(&cpuid, 1, 0).unwrap();
        assert_eq!((features.edx & MULTIPLE_THREADS, features.ecx), (0, HYPERVISOR));
        assert_eq!(find(&cpuid, 0xb, LEVEL_CORE).unwrap().eax, 0);
    }
}
