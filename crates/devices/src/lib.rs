// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Device models for authors of virtual machine monitors.
//!
//! A model does not depend on any particular VMM. It is `Sync`, and its methods take `&self`, the
//! offset and the bytes of a guest's access. It answers from memory: handling an access never
//! waits, allocates or panics. (`pmu` is the exception. It is not a device yet, but code that a
//! device would use, and it makes system calls in the vCPU's thread.)
//!
//! [`virt_cpufreq`] is the device for Linux' `virtual-cpufreq` guest driver. [`ivshmem`] is the PCI
//! function through which a guest finds paracord's shared region. `pmu` (only with the feature of
//! the same name) manages the perf events that serve a guest's counters.
#![forbid(unsafe_code)]

pub mod ivshmem;
pub mod msix;
pub mod pci_config;
#[cfg(feature = "pmu")]
pub mod pmu;
pub mod virt_cpufreq;
