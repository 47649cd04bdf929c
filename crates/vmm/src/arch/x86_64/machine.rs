// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Makes KVM's part of the machine and puts devices at their addresses.

use std::sync::Arc;

use kvm_bindings::KVM_MAX_CPUID_ENTRIES;
use kvm_ioctls::{Cap, Kvm, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress};

use super::acpi::Tables;
use super::power::{self, Keyboard, Power};
use super::{cpuid, entry, kernel, layout};
use crate::bus::Bus;
use crate::config::Config;
use crate::error::{self, Error};
use crate::initramfs;
use crate::machine::Devices;
use crate::memory::Ram;
use crate::pci::mechanism1::{Mechanism1, PORT_BYTES};
use crate::serial::SERIAL_BYTES;
use crate::stop::Stop;

/// KVM provides the interrupt controllers, and keeps them as long as the VM exists.
pub struct Interrupts;

/// Makes the interrupt controllers, which must exist before the vCPUs.
pub fn prepare(vm: &VmFd) -> Result<(), Error> {
    vm.set_tss_address(layout::KVM_TSS).map_err(error::kvm("set the address of its TSS"))?;
    vm.create_irq_chip().map_err(error::kvm("make interrupt controllers"))
}

/// Puts devices at their addresses. `stop` is for devices that end the VM.
pub fn connect(
    devices: &Devices,
    stop: &Arc<Stop>,
    _: &mut Bus,
    ports: &mut Bus,
) -> Result<(), Error> {
    for (place, port) in layout::SERIAL.iter().zip(&devices.serial) {
        ports.insert(place.base, SERIAL_BYTES, port.clone())?;
    }
    if let Some(pci) = &devices.pci {
        ports.insert(layout::PCI_CONFIG, PORT_BYTES, Arc::new(Mechanism1::new(pci.clone())))?;
    }
    let power = Arc::new(Power(stop.clone()));
    ports.insert(layout::POWER.into(), power::POWER_BYTES, power)?;
    let keyboard = Arc::new(Keyboard(stop.clone()));
    ports.insert(layout::KEYBOARD, power::KEYBOARD_BYTES, keyboard)?;
    Ok(())
}

/// Loads everything into RAM and makes the vCPUs ready to run.
pub fn boot(
    kvm: &Kvm,
    _: &VmFd,
    vcpus: &[VcpuFd],
    ram: &Ram,
    config: &Config,
    devices: &Devices,
) -> Result<Interrupts, Error> {
    let supported = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(error::kvm("report the features of its CPUs"))?;
    let tsc_deadline = kvm.check_extension(Cap::TscDeadlineTimer);
    let count = vcpus.len() as u32;
    for (index, vcpu) in (0..).zip(vcpus) {
        let cpuid = cpuid::for_vcpu(&supported, index, count, tsc_deadline);
        vcpu.set_cpuid2(&cpuid).map_err(error::kvm("set CPUID"))?;
        entry::set_memory_type(vcpu)?;
    }
    // The number of vCPUs is at most config::VCPUS_MAX.
    let tables = Tables::build(count as u8, devices.pci.is_some());
    for (address, bytes) in
        [(layout::ACPI.start, &tables.bytes[..]), (layout::RESET_VECTOR, &power::RESET_CODE[..])]
    {
        ram.write_slice(bytes, GuestAddress(address)).map_err(|_| initramfs::too_little(config))?;
    }
    let entry = kernel::load(config, ram, tables.rsdp)?;
    entry::set(&vcpus[0], ram, entry)?;
    Ok(Interrupts)
}
