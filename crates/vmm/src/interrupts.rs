// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Interrupts of the region's function. Each vCPU has a vector, which reports that counters of the
//! vCPU have overflowed.

use std::sync::Arc;

use kvm_bindings::kvm_msi;
use kvm_ioctls::VmFd;
use paracord_devices::msix::{Message, Msix, MsixControl};

use crate::pci::window::Window;

/// The vectors, and what is needed to send their messages.
pub struct Interrupts {
    /// Location of the interrupt table that the guest has chosen.
    pub window: Window,
    msix: Msix,
    vm: Arc<VmFd>,
    /// The function's ID for the interrupt controller: bus × 256 + device × 8 + function.
    device: u32,
}

impl Interrupts {
    /// Makes one vector for each of `vcpus` vCPUs.
    pub fn new(vm: Arc<VmFd>, device: u32, vcpus: u32) -> Interrupts {
        let msix = Msix::new(u16::try_from(vcpus).unwrap_or(u16::MAX));
        Interrupts { window: Window::new(msix.bar_bytes()), msix, vm, device }
    }

    /// The vectors, for the function's configuration space.
    pub fn msix(&self) -> &Msix {
        &self.msix
    }

    /// Raises the interrupt of a vector, now or when the guest unmasks it.
    pub fn raise(&self, vector: u32) {
        if let Some(message) = self.msix.raise(vector) {
            self.send(message);
        }
    }

    /// Applies a change that the guest made in the configuration space.
    pub fn set_control(&self, control: MsixControl) {
        self.msix.set_control(control, |message| self.send(message));
    }

    /// Handles the guest's read of the table.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        self.msix.read(offset, data);
    }

    /// Handles the guest's write of the table.
    pub fn write(&self, offset: u64, data: &[u8]) {
        if let Some(message) = self.msix.write(offset, data) {
            self.send(message);
        }
    }

    /// Sends a message. If it is not for the guest's interrupt controller, it is lost, as on
    /// hardware.
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
