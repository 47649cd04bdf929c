// SPDX-License-Identifier: GPL-2.0-only
//! Interrupts of a VM.

use std::io;

use rustix::fd::OwnedFd;

use crate::wake::{eventfd, wake};

/// The interrupts of a VM: for each vCPU, an eventfd that KVM turns into an interrupt.
#[derive(Debug)]
pub struct Vectors(pub(super) Vec<OwnedFd>);

impl Vectors {
    /// Maximum number of vectors of a VM. A vCPU whose vcpu_id is at least this number has no
    /// interrupt.
    pub const MAX: u32 = 256;

    pub(super) fn new(count: u32) -> io::Result<Vectors> {
        (0..count.min(Vectors::MAX)).map(|_| eventfd()).collect::<io::Result<_>>().map(Vectors)
    }

    /// Raises the interrupt of a vCPU. Does nothing if the vCPU has no vector.
    pub fn raise(&self, vcpu_id: u32) {
        if let Some(vector) = self.0.get(vcpu_id as usize) {
            wake(vector);
        }
    }
}
