// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! x86-64: KVM's interrupt controllers, ACPI tables, and the PVH entry of an ELF kernel or the
//! 64-bit entry of a bzImage.

mod acpi;
mod aml;
pub mod layout;
mod power;

#[cfg(target_arch = "x86_64")]
mod cpuid;
#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(target_arch = "x86_64")]
mod machine;
#[cfg(target_arch = "x86_64")]
pub use machine::{Interrupts, boot, connect, prepare};
