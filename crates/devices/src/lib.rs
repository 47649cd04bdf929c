// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Device models for authors of virtual machine monitors.
//!
//! A model knows nothing of a VMM. It is `Sync`, gets the offset and the bytes of a guest's access
//! through `&self`, and answers from memory. A guest's access never waits, allocates or panics in a
//! model. (`pmu` is not a device yet. It is what a device would use, and it makes system calls in
//! the vCPU's thread.)
//!
//! [`virt_cpufreq`] is the device of Linux' `virtual-cpufreq` guest driver. [`ivshmem`] is the PCI
//! function through which a guest finds paracord's shared region. `pmu` (only with the feature of
//! this name) manages the perf events that serve a guest's counters.
#![forbid(unsafe_code)]

pub mod ivshmem;
pub mod msix;
pub mod pci_config;
#[cfg(feature = "pmu")]
pub mod pmu;
pub mod virt_cpufreq;
