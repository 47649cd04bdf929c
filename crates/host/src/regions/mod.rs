// SPDX-License-Identifier: GPL-2.0-only
//! Regions: memory that guests share with the host. [`region_file`] creates and removes region
//! files. [`offered`] stores which features each region offers. [`region`] reads and writes regions
//! through [`region_io`]. [`host_lines`] tells guests about boosts and places. [`announced`] checks
//! regions that guests have created in their own memory.

pub mod announced;
pub mod declared;
pub mod file_identity;
mod file_system;
pub(crate) mod host_lines;
mod line_changes;
pub(crate) mod line_target;
pub mod mapped;
mod offered;
mod pauses;
pub(crate) mod place_line;
pub mod region;
pub mod region_file;
pub mod region_io;
pub(crate) mod region_name;
