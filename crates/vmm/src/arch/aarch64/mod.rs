// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! arm64: GICv3, PSCI and a device tree.

mod fdt;
pub mod layout;

#[cfg(target_arch = "aarch64")]
mod machine;
#[cfg(target_arch = "aarch64")]
pub use machine::{Interrupts, boot, connect, prepare};
