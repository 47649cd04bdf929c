// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Device models for VMM authors. They know no VMM, hold no thread and make no system call.
#![forbid(unsafe_code)]

pub mod ivshmem;
pub mod pci_config;
