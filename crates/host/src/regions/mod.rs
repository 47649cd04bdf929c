// SPDX-License-Identifier: GPL-2.0-only
//! Memory that guests share with the host: [`region_file`] makes and removes it, [`region`] reads it, [`host_lines`] tells
//! guests what the host has done.

pub mod file_identity;
pub(crate) mod host_lines;
pub(crate) mod place_line;
pub mod region;
pub mod region_file;
