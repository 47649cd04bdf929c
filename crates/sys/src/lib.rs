// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! System calls and procfs readers that the daemon needs.
//!
//! [`sched`] changes a thread's scheduling, [`affinity`] its CPUs, [`mapping`] shares words of a file
//! between processes, [`proc`] reads procfs below a root path, so that tests
//! use fixture trees. What `rustix` offers safely is used from there.

pub mod affinity;
pub mod mapping;
pub mod peer;
pub mod proc;
pub mod sched;
