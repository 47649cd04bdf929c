// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What differs between architectures: the map of the machine, how it is described to the kernel, and
//! how the kernel is entered. Descriptions are built, and tested, on every architecture.

#[cfg(any(target_arch = "aarch64", test))]
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub use aarch64::{Interrupts, boot, connect, layout, prepare};

#[cfg(any(target_arch = "x86_64", test))]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::{Interrupts, boot, connect, layout, prepare};

/// Where a serial port lies, and its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialPlace {
    /// Address or port.
    pub base: u64,
    /// KVM's number of the interrupt.
    pub gsi: u32,
}
