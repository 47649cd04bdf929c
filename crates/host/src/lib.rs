// SPDX-License-Identifier: GPL-2.0-only
//! The paracord daemon as a library.
//!
//! [`config`] reads the file, [`settings`] is what the daemon runs with, [`snapshot`] what can be seen of
//! it, [`handle`] how another thread (the control socket) commands it.
//!
//! [`supervisor`] is the parent process, [`daemon`] the main thread of its child, [`rt_thread`] the thread in
//! it that carries decisions out through the [`actuator`], which remembers in the [`journal`] what threads had.
#![forbid(unsafe_code)]

mod accept;
pub mod actuator;
pub mod clamps;
pub mod command_error;
pub mod config;
pub mod control;
pub mod counters;
pub mod daemon;
pub mod doctor;
pub mod domains;
pub mod energy;
mod file_identity;
pub mod governors;
pub mod handle;
mod host_lines;
pub mod identity;
pub mod imports;
mod index_set;
mod io_threads;
pub mod ivshmem;
pub mod journal;
pub mod journal_file;
mod leftovers;
mod log_limit;
pub mod metrics;
mod observe;
pub mod performance;
pub mod place;
mod place_line;
pub mod quotas;
pub mod region;
pub mod region_file;
pub mod reserves;
pub mod rt_thread;
pub mod run_dir;
mod scheduler;
pub mod services;
pub mod settings;
pub mod snapshot;
mod stop_thread;
pub mod supervisor;
pub mod thread;
mod timer;
pub mod uclamp;
pub mod vm_names;
mod vm_slots;
pub mod vms;
mod wake;
