// SPDX-License-Identifier: GPL-2.0-only
//! Prometheus metrics: a snapshot as text, served over HTTP or written to a file.
//!
//! docs/metrics.md lists every name. A test compares the list with the code.

mod families;
mod server;
mod tables;

pub use families::{NAMES, encode, encode_textfile};
pub use server::{MetricsError, MetricsServer};
