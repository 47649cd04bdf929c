// SPDX-License-Identifier: GPL-2.0-only
//! Memory that guests share with the host. [`region_file`] creates and removes it, [`region`] reads
//! and writes it, and [`host_lines`] informs guests about boosts and places. [`announced`] is a
//! region that the guest has made in its own memory.

pub mod announced;
pub mod file_identity;
pub(crate) mod host_lines;
pub(crate) mod place_line;
pub mod region;
pub mod region_file;
