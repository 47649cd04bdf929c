// SPDX-License-Identifier: GPL-2.0-only
//! Prometheus metrics: a snapshot as text, over HTTP or in a file.
//!
//! docs/metrics.md lists every name; a test compares both.

mod families;
mod server;
mod tables;

pub use families::{NAMES, encode, encode_textfile};
pub use server::{MetricsError, MetricsServer};
