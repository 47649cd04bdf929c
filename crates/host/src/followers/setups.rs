// SPDX-License-Identifier: GPL-2.0-only
//! The setup that the sensor gets for each thread. It combines what the registry knows about the
//! VM, the thread's CPU limits, and whether the guest's counters are served.

use std::mem::offset_of;

use paracord_abi::{PMU_GUEST_OFFSET, layout};
use paracord_policy::{PC_REFUSED_ALL, PC_WRITE_DOMAINS, PC_WRITE_LINE, pc_vcpu_setup};

use crate::settings::Mode;
use crate::vms::Vm;

/// Length in bytes of the shortest guest line that contains the guest's performance request.
const LINE_WITH_REQUEST_BYTES: usize =
    offset_of!(layout::paracord_guest_line, perf_limit) + size_of::<u16>();

/// The CPU limits of a thread, in the form that the policy uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The actuators that do not boost the thread: `PC_REFUSED_*`.
    pub refused: u32,
    /// Index of the reserve record, which contains the time that the thread's quotas leave for
    /// boosts; 0: there is none.
    pub reserve: u32,
}

/// The setup of a vCPU. `is_counted`: whether the daemon serves the counters of its VM.
pub(super) fn of_vcpu(vm: &Vm, vcpu_id: u32, bounds: Bounds, is_counted: bool) -> pc_vcpu_setup {
    let (line_bytes, features) =
        vm.driver.map_or((0, 0), |driver| (driver.line_bytes, driver.features));
    let region = vm.region.as_ref().filter(|_| vm.driver.is_some());
    let announced = vm.announced.as_ref().filter(|_| vm.driver.is_some());
    let accepts = |feature| features & feature != 0;
    let guest_requests = accepts(layout::PARACORD_F_PERF_REQUEST)
        && line_bytes as usize >= LINE_WITH_REQUEST_BYTES
        && vm.config.guest_requests
        && vm.config.mode == Mode::On;
    let asked_hva = if is_counted { asked_hva(vm, vcpu_id) } else { None };
    pc_vcpu_setup {
        vm: vm.index,
        hints_at_exit: vm.config.hints_at_exit.into(),
        slot_hva: region.and_then(|region| region.slot_hva(vcpu_id)).unwrap_or(0),
        guest_line_bytes: if accepts(layout::PARACORD_F_BOOST) { line_bytes } else { 0 },
        guest_features: features,
        guest_requests: guest_requests.into(),
        refused: bounds.refused,
        asked_hva: asked_hva.unwrap_or(0),
        reserve: bounds.reserve,
        io: 0,
        may_announce: (vm.config.use_region && vm.config.mode != Mode::Off).into(),
        writes: writes(vm),
        region_gpa: announced.map_or(0, |region| region.gpa),
        slot_gpa: announced.and_then(|region| region.slot_gpa(vcpu_id)).unwrap_or(0),
        counts: (is_counted && announced.is_some_and(|region| region.has_counters)).into(),
        reserved32: 0,
    }
}

/// What the sensor writes into the guest's own memory: `PC_WRITE_*`.
fn writes(vm: &Vm) -> u32 {
    vm.announced.as_ref().map_or(0, |region| {
        (if region.has_host_line { PC_WRITE_LINE } else { 0 })
            | (if region.has_domains { PC_WRITE_DOMAINS } else { 0 })
    })
}

/// The setup of a VMM thread that is not a vCPU. `vm`: the VM of the thread's process. If the
/// process has no VM, the thread is not boosted.
pub(super) fn of_io_thread(vm: Option<&Vm>, bounds: Bounds) -> pc_vcpu_setup {
    let nobodys = pc_vcpu_setup { refused: PC_REFUSED_ALL, io: 1, ..pc_vcpu_setup::default() };
    let Some(vm) = vm else { return nobodys };
    let refused = if vm.config.io { bounds.refused } else { PC_REFUSED_ALL };
    pc_vcpu_setup { vm: vm.index, refused, reserve: bounds.reserve, ..nobodys }
}

/// The address in the VMM's memory at which the guest of a vCPU shows that it has made a request
/// for counters. The guest makes requests before its driver declares anything, so this address does
/// not depend on the driver.
fn asked_hva(vm: &Vm, vcpu_id: u32) -> Option<u64> {
    vm.region.as_ref()?.slot_hva(vcpu_id)?.checked_add(PMU_GUEST_OFFSET as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_limit::{UserLog, VmLog};
    use crate::regions::announced::AnnouncedRegion;
    use crate::settings::Settings;
    use crate::vms::identity::Identity;
    use paracord_abi::{GuestDriver, RegionLayout};

    const BOUNDS: Bounds = Bounds { refused: 1, reserve: 3 };

    fn vm(io: &str) -> Vm {
        let identity = Identity {
            name: "web".into(),
            uuid: None,
            pid: 7,
            start_ticks: 1,
            vmm: "qemu".into(),
            uid: 0,
            cgroup: None,
        };
        let io = crate::config::parse_override("io", io).unwrap();
        let config = Settings::default().vm(identity.who(), &[io]);
        Vm::new(identity, 5, config, VmLog::new(UserLog::default()))
    }

    #[test]
    fn a_vcpu_without_a_region_has_its_limits_and_no_addresses() {
        let setup = of_vcpu(&vm("true"), 0, BOUNDS, true);
        assert_eq!((setup.vm, setup.refused, setup.reserve, setup.io), (5, 1, 3, 0));
        assert_eq!((setup.slot_hva, setup.asked_hva, setup.guest_requests), (0, 0, 0));
    }

    #[test]
    fn the_lines_of_an_announced_region_are_guest_physical_and_refused_if_regions_are_off() {
        let mut vm = vm("true");
        let region = paracord_abi::new_region(2, layout::PARACORD_F_BOOST, 0, &[]).unwrap();
        let driver = GuestDriver { features: 1, abi_minor: 3, line_bytes: 64 };
        let layout = RegionLayout::check(&region, u64::MAX).unwrap();
        vm.driver = Some(driver);
        vm.announced = Some(AnnouncedRegion {
            gpa: 0x10_0000,
            layout,
            driver: Some(driver),
            has_host_line: true,
            has_domains: true,
            has_counters: true,
        });
        let setup = of_vcpu(&vm, 1, BOUNDS, false);
        assert_eq!((setup.slot_hva, setup.may_announce), (0, 1));
        assert_eq!(setup.writes, PC_WRITE_LINE | PC_WRITE_DOMAINS);
        assert_eq!((setup.region_gpa, setup.slot_gpa), (0x10_0000, 0x10_0000 + 4096 + 1024));
        assert_eq!((setup.counts, of_vcpu(&vm, 1, BOUNDS, true).counts), (0, 1));
        vm.config.use_region = false;
        assert_eq!(of_vcpu(&vm, 1, BOUNDS, false).may_announce, 0);
        (vm.config.use_region, vm.config.mode) = (true, Mode::Off);
        assert_eq!(of_vcpu(&vm, 1, BOUNDS, false).may_announce, 0);
    }

    #[test]
    fn a_thread_whose_vm_is_gone_is_charged_to_none_and_never_boosted() {
        let setup = |vm: Option<&Vm>| {
            let setup = of_io_thread(vm, BOUNDS);
            (setup.vm, setup.refused, setup.reserve, setup.io)
        };
        assert_eq!(setup(Some(&vm("true"))), (5, 1, 3, 1));
        assert_eq!(setup(Some(&vm("false"))), (5, PC_REFUSED_ALL, 3, 1));
        assert_eq!(setup(None), (0, PC_REFUSED_ALL, 0, 1));
    }
}
