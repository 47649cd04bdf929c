// SPDX-License-Identifier: GPL-2.0-only
//! The paracord daemon as a library.
//!
//! | module | job |
//! |---|---|
//! | [`supervisor`], [`daemon`] | the parent process, and the main thread of its child |
//! | [`boosts`] | carries out decisions, and restores the attributes of threads |
//! | [`vms`] | the registry of running VMs |
//! | `followers` | what depends on the registry: host lines, counters, CPU limits |
//! | [`regions`], [`ivshmem`] | memory shared with guests, and interrupts for guests |
//! | [`counters`] | performance counters of guests |
//! | [`place`] | the CPUs on which vCPUs run |
//! | [`quotas`] | CPU limits of control groups above vCPUs |
//! | [`scheduler`] | decides when paracord's scheduler is active; clamps of tasks |
//! | [`machine`] | the host's CPUs |
//! | [`config`], [`settings`] | the configuration file, and the effective settings |
//! | [`control`], [`handle`] | the control socket, and requests from other threads to the daemon |
//! | [`snapshot`], [`metrics`] | the visible state of the daemon, and its export as metrics |
//! | [`doctor`] | finds features that this host lacks |
#![forbid(unsafe_code)]

mod accept;
pub mod boosts;
mod capabilities;
pub mod command_error;
pub mod config;
pub mod control;
pub mod counters;
pub mod daemon;
mod daemon_end;
pub mod doctor;
mod followers;
pub mod handle;
pub mod ivshmem;
mod log_limit;
pub mod machine;
pub mod metrics;
mod observe;
pub mod place;
pub mod quotas;
mod recent;
pub mod regions;
pub mod run_dir;
pub mod scheduler;
pub mod services;
pub mod settings;
pub mod snapshot;
mod stop_thread;
pub mod supervisor;
mod timer;
pub mod vms;
mod wake;
