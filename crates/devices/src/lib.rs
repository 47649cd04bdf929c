// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Device models for authors of virtual machine monitors.
//!
//! A model knows nothing of a VMM: it is `Sync`, is given the offset and bytes of a guest's access by
//! `&self`, and answers from memory. It never waits, allocates or panics there, whatever the guest does.
//!
//! [`virt_cpufreq`] is the device of Linux' `virtual-cpufreq` guest driver, [`ivshmem`] the PCI function behind which
//! a guest finds paracord's shared region.
#![forbid(unsafe_code)]

pub mod ivshmem;
pub mod pci_config;
pub mod virt_cpufreq;
