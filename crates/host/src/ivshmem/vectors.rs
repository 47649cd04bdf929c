// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts of a VM.

use std::io;

use rustix::fd::OwnedFd;

use crate::wake::{eventfd, wake};

/// Interrupts of a VM, by vCPU: eventfds that KVM turns into interrupts.
#[derive(Debug)]
pub struct Vectors(pub(super) Vec<OwnedFd>);

impl Vectors {
    /// Maximum number of vectors of a VM. vCPUs beyond them have no interrupt.
    pub const MAX: u32 = 256;

    pub(super) fn new(count: u32) -> io::Result<Vectors> {
        (0..count.min(Vectors::MAX)).map(|_| eventfd()).collect::<io::Result<_>>().map(Vectors)
    }

    /// Interrupts the guest of a vCPU. Does nothing if the vCPU has no vector.
    pub fn raise(&self, vcpu_id: u32) {
        if let Some(vector) = self.0.get(vcpu_id as usize) {
            wake(vector);
        }
    }
}
