// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Makes KVM's part of the machine, loads the kernel, and sets the registers of the first vCPU
//! (Documentation/arch/arm64/booting.rst).

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use kvm_bindings::{
    KVM_ARM_VCPU_POWER_OFF, KVM_ARM_VCPU_PSCI_0_2, KVM_DEV_ARM_VGIC_CTRL_INIT,
    KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_GRP_NR_IRQS,
    KVM_VGIC_ITS_ADDR_TYPE, KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST,
    kvm_create_device, kvm_device_attr, kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_ITS,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, kvm_vcpu_init,
};
use kvm_ioctls::{DeviceFd, Kvm, VcpuFd, VmFd};
use linux_loader::loader::{KernelLoader, pe::PE};
use vm_memory::{Address, Bytes, GuestAddress};

use super::{fdt, layout};
use crate::bus::Bus;
use crate::config::Config;
use crate::error::{self, Error};
use crate::initramfs;
use crate::machine::Devices;
use crate::memory::Ram;
use crate::pci::ecam::{ECAM_BYTES, Ecam};
use crate::serial::SERIAL_BYTES;
use crate::stop::Stop;

/// Kernel and device tree begin at a multiple of this, which is also the maximum size of the tree.
const ALIGNMENT_BYTES: u64 = 2 << 20;
/// PSTATE as the boot protocol requires it: exceptions masked, EL1 with its own stack.
const PSTATE_BOOT: u64 = 0x3c5;

/// Register numbers for KVM_SET_ONE_REG: u64 registers in the core block, numbered by their offset
/// in `struct kvm_regs` / 4.
const REGISTER_X0: u64 = 0x6030_0000_0010_0000;
const REGISTER_PC: u64 = 0x6030_0000_0010_0040;
const REGISTER_PSTATE: u64 = 0x6030_0000_0010_0042;
/// MPIDR_EL1: system register 3, 0, c0, c0, 5.
const REGISTER_MPIDR: u64 = 0x6030_0000_0013_c005;

/// The GIC and its ITS. KVM keeps them as long as this exists.
pub struct Interrupts(#[allow(dead_code)] DeviceFd, #[allow(dead_code)] Option<DeviceFd>);

/// Nothing needs to be done before the vCPUs are made.
pub fn prepare(_: &VmFd) -> Result<(), Error> {
    Ok(())
}

/// Puts devices at their addresses.
pub fn connect(devices: &Devices, _: &Arc<Stop>, mmio: &mut Bus, _: &mut Bus) -> Result<(), Error> {
    for (place, port) in layout::SERIAL.iter().zip(&devices.serial) {
        mmio.insert(place.base, SERIAL_BYTES, port.clone())?;
    }
    if let Some(pci) = &devices.pci {
        mmio.insert(layout::PCI_ECAM, ECAM_BYTES, Arc::new(Ecam(pci.clone())))?;
    }
    if let Some(cpufreq) = &devices.cpufreq {
        mmio.insert(layout::CPUFREQ, cpufreq.window_bytes(), cpufreq.clone())?;
    }
    Ok(())
}

/// Loads everything into RAM and makes the vCPUs ready to run.
pub fn boot(
    _: &Kvm,
    vm: &VmFd,
    vcpus: &[VcpuFd],
    ram: &Ram,
    config: &Config,
    devices: &Devices,
) -> Result<Interrupts, Error> {
    reset(vm, vcpus)?;
    let gic = create_gic(vm, vcpus.len() as u64)?;
    let its = devices.pci.is_some().then(|| create_its(vm)).transpose()?;
    let (entry, kernel_end) = load_kernel(config, ram)?;
    let tree = kernel_end.next_multiple_of(ALIGNMENT_BYTES);
    let initramfs =
        initramfs::load(config, ram, tree + ALIGNMENT_BYTES, layout::RAM + config.memory_bytes)?;
    let mpidrs = vcpus.iter().map(mpidr).collect::<Result<Vec<_>, _>>()?;
    let mut seed = [0; 40];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut seed))
        .map_err(error::system("random numbers for the guest"))?;
    let description = fdt::Description {
        cmdline: &config.cmdline,
        memory: (layout::RAM, config.memory_bytes),
        initramfs,
        mpidrs: &mpidrs,
        vcpus: &config.vcpus,
        pci: devices.pci.is_some(),
        cpufreq: devices.cpufreq.is_some(),
        seed,
    };
    let blob = fdt::build(&description).map_err(|e| Error::Tables(e.to_string()))?;
    ram.write_slice(&blob, GuestAddress(tree)).map_err(|_| initramfs::too_little(config))?;
    let registers = [(REGISTER_PC, entry), (REGISTER_X0, tree), (REGISTER_PSTATE, PSTATE_BOOT)];
    for (register, value) in registers {
        vcpus[0]
            .set_one_reg(register, &value.to_le_bytes())
            .map_err(error::kvm("set a register"))?;
    }
    Ok(Interrupts(gic, its))
}

/// Enables PSCI for all vCPUs. All vCPUs except the first wait until the guest turns them on.
fn reset(vm: &VmFd, vcpus: &[VcpuFd]) -> Result<(), Error> {
    let mut target = kvm_vcpu_init::default();
    vm.get_preferred_target(&mut target).map_err(error::kvm("report the type of its CPUs"))?;
    target.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2;
    for vcpu in vcpus {
        vcpu.vcpu_init(&target).map_err(error::kvm("reset a vCPU"))?;
        target.features[0] |= 1 << KVM_ARM_VCPU_POWER_OFF;
    }
    Ok(())
}

fn create_gic(vm: &VmFd, vcpus: u64) -> Result<DeviceFd, Error> {
    let mut device =
        kvm_create_device { type_: kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, fd: 0, flags: 0 };
    let gic = vm.create_device(&mut device).map_err(error::kvm("make a GICv3"))?;
    let interrupts = layout::GIC_INTERRUPTS;
    debug_assert!(layout::GIC_REDISTRIBUTORS.1 * vcpus <= layout::SERIAL[0].base);
    let attributes = [
        (
            KVM_DEV_ARM_VGIC_GRP_ADDR,
            KVM_VGIC_V3_ADDR_TYPE_DIST,
            &raw const layout_address::DISTRIBUTOR as u64,
        ),
        (
            KVM_DEV_ARM_VGIC_GRP_ADDR,
            KVM_VGIC_V3_ADDR_TYPE_REDIST,
            &raw const layout_address::REDISTRIBUTORS as u64,
        ),
        (KVM_DEV_ARM_VGIC_GRP_NR_IRQS, 0, &raw const interrupts as u64),
        (KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_CTRL_INIT, 0),
    ];
    for (group, attr, addr) in attributes {
        let attribute = kvm_device_attr { flags: 0, group, attr: attr.into(), addr };
        gic.set_device_attr(&attribute).map_err(error::kvm("set up the GICv3"))?;
    }
    Ok(gic)
}

fn create_its(vm: &VmFd) -> Result<DeviceFd, Error> {
    let mut device =
        kvm_create_device { type_: kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_ITS, fd: 0, flags: 0 };
    let its = vm.create_device(&mut device).map_err(error::kvm("make an ITS"))?;
    let address = &raw const layout_address::ITS as u64;
    let attributes = [
        (KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_VGIC_ITS_ADDR_TYPE, address),
        (KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_CTRL_INIT, 0),
    ];
    for (group, attr, addr) in attributes {
        let attribute = kvm_device_attr { flags: 0, group, attr: attr.into(), addr };
        its.set_device_attr(&attribute).map_err(error::kvm("set up the ITS"))?;
    }
    Ok(its)
}

/// Addresses that KVM reads from memory.
mod layout_address {
    use super::layout;
    pub static DISTRIBUTOR: u64 = layout::GIC_DISTRIBUTOR.0;
    pub static REDISTRIBUTORS: u64 = layout::GIC_REDISTRIBUTORS.0;
    pub static ITS: u64 = layout::GIC_ITS.0;
}

fn mpidr(vcpu: &VcpuFd) -> Result<u64, Error> {
    let mut value = [0; 8];
    vcpu.get_one_reg(REGISTER_MPIDR, &mut value).map_err(error::kvm("read MPIDR"))?;
    Ok(u64::from_le_bytes(value))
}

/// Loads the Image. Returns its entry, and the address of the first byte after the Image and its
/// zeroed data.
fn load_kernel(config: &Config, ram: &Ram) -> Result<(u64, u64), Error> {
    let path = &config.kernel;
    let mut file = File::open(path).map_err(error::file(path))?;
    // The offsets are from booting.rst: image_size at 16, magic at 56.
    let mut header = [0; 64];
    let is_image = file.read_exact(&mut header).is_ok() && &header[56..60] == b"ARM\x64";
    let refuse = |reason: &str| Error::Content { path: path.clone(), reason: reason.to_owned() };
    if header[..2] == [0x1f, 0x8b] || &header[4..8] == b"zimg" {
        return Err(refuse("is a compressed kernel: unpack it to the Image inside"));
    }
    if !is_image {
        return Err(refuse("is not an arm64 kernel: use an Image"));
    }
    let mut size = [0; 8];
    size.copy_from_slice(&header[16..24]);
    let image_bytes = u64::from_le_bytes(size);
    if image_bytes > config.memory_bytes {
        return Err(initramfs::too_little(config));
    }
    let loaded = PE::load(ram, Some(GuestAddress(layout::RAM)), &mut file, None)
        .map_err(|e| refuse(&format!("{e}; is --memory-mib large enough?")))?;
    let start = loaded.kernel_load.raw_value();
    Ok((start, loaded.kernel_end.max(start + image_bytes)))
}
