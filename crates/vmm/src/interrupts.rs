// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Interrupts of the region's function: a vector per vCPU, by which it is told that its counters have overflowed.

use std::sync::Arc;

use kvm_bindings::kvm_msi;
use kvm_ioctls::VmFd;
use paracord_devices::msix::{Message, Msix, MsixControl};

use crate::pci::window::Window;

/// The vectors, and what they are sent by.
pub struct Interrupts {
    /// Where the guest has put their table.
    pub window: Window,
    msix: Msix,
    vm: Arc<VmFd>,
    /// What the function is to an interrupt controller that asks: bus × 256 + device × 8 + function.
    device: u32,
}

impl Interrupts {
    /// A vector for each of `vcpus`.
    pub fn new(vm: Arc<VmFd>, device: u32, vcpus: u32) -> Interrupts {
        let msix = Msix::new(u16::try_from(vcpus).unwrap_or(u16::MAX));
        Interrupts { window: Window::new(msix.bar_bytes()), msix, vm, device }
    }

    /// What the function's configuration space has to say of them.
    pub fn msix(&self) -> &Msix {
        &self.msix
    }

    /// Interrupts the guest by a vector, now or when it unmasks it.
    pub fn raise(&self, vector: u32) {
        if let Some(message) = self.msix.raise(vector) {
            self.send(message);
        }
    }

    /// The guest has changed its configuration space.
    pub fn set_control(&self, control: MsixControl) {
        self.msix.set_control(control, |message| self.send(message));
    }

    /// The guest reads the table.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        self.msix.read(offset, data);
    }

    /// The guest writes the table.
    pub fn write(&self, offset: u64, data: &[u8]) {
        if let Some(message) = self.msix.write(offset, data) {
            self.send(message);
        }
    }

    /// A message that is none for the guest's interrupt controller is lost, as on hardware.
    fn send(&self, message: Message) {
        let mut msi = kvm_msi {
            address_lo: message.address as u32,
            address_hi: (message.address >> 32) as u32,
            data: message.data,
            ..kvm_msi::default()
        };
        if cfg!(target_arch = "aarch64") {
            msi.flags = kvm_bindings::KVM_MSI_VALID_DEVID;
            msi.devid = self.device;
        }
        let _ = self.vm.signal_msi(msi);
    }
}
