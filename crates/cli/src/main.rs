// SPDX-License-Identifier: GPL-2.0-only
//! The `paracord` command.
fn main() {}
