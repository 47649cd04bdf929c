// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! System calls and procfs readers that the daemon and the device models need.
//!
//! [`sched`] changes a thread's scheduling, [`affinity`] its CPUs, [`clock`] tells the time, [`mapping`] shares words of a file
//! between processes, [`perf`] counts what a thread does, [`proc`] reads procfs below a root path, so that tests
//! use fixture trees. What `rustix` offers safely is used from there.

pub mod affinity;
pub mod clock;
pub mod mapping;
pub mod peer;
pub mod perf;
pub mod proc;
pub mod sched;
pub mod signal;
