// SPDX-License-Identifier: GPL-2.0-only
//! The paracord daemon as a library.
//!
//! [`config`] reads the file, [`settings`] is what the daemon runs with, [`snapshot`] what can be seen of
//! it, [`handle`] how another thread (the control socket) commands it.
#![forbid(unsafe_code)]

pub mod actuator;
pub mod config;
pub mod control;
pub mod doctor;
pub mod handle;
pub mod identity;
pub mod journal;
pub mod region;
pub mod region_file;
pub mod settings;
pub mod snapshot;
