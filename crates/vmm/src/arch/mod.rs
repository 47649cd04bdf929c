// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The differences between architectures: the memory map of the machine, how the machine is
//! described to the kernel, and how the kernel is entered. The descriptions are compiled and tested
//! on every architecture.

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

/// Location and interrupt of a serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialPlace {
    /// Memory address or I/O port.
    pub base: u64,
    /// KVM's number of the interrupt.
    pub gsi: u32,
}
