// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Device models for authors of virtual machine monitors.
//!
//! A model knows nothing of a VMM: it is `Sync`, is given the offset and bytes of a guest's access by
//! `&self`, and answers from memory. It never waits, allocates or panics there, whatever the guest does.
//! (`pmu` is no device yet: what is below one, and works in the vCPU's thread with system calls.)
//!
//! [`virt_cpufreq`] is the device of Linux' `virtual-cpufreq` guest driver, [`ivshmem`] the PCI function behind which
//! a guest finds paracord's shared region, `pmu` (with the feature of this name) the perf events behind a guest's counters.
#![forbid(unsafe_code)]

pub mod ivshmem;
pub mod msix;
pub mod pci_config;
#[cfg(feature = "pmu")]
pub mod pmu;
pub mod virt_cpufreq;
