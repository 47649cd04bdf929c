// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! System calls, and readers of procfs and sysfs, that the daemon and the device models need.
//!
//! [`sched`] changes the scheduling attributes of a thread, and [`affinity`] the CPUs that it may
//! run on. [`clock`] reads the time. [`mapping`] shares words of a file between processes, and
//! [`foreign_memory`] writes into a file that an untrusted user owns. [`perf`] counts events of a
//! thread. [`peer`] identifies the other end of a unix socket. [`signal`] waits for SIGIO.
//! `accounts` looks up users and groups, and exists only with the feature of the same name.
//! [`proc`] reads procfs, and [`sysfs`] reads the properties of the host's CPUs. Both read below a
//! root path, so that tests can use fixture trees. System calls for which `rustix` has a safe
//! function are made through `rustix`.

#[cfg(feature = "accounts")]
pub mod accounts;
pub mod affinity;
pub mod clock;
pub mod foreign_memory;
pub mod mapping;
pub mod peer;
pub mod perf;
pub mod proc;
pub mod sched;
pub mod signal;
pub mod sysfs;
