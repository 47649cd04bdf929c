// SPDX-License-Identifier: GPL-2.0-only
//! Tests the actuator on real threads of this process. Needs CAP_SYS_NICE:
//! `cargo test -p paracord-host --test actuator -- --ignored` as root.
#![allow(clippy::unwrap_used)]

mod boosts;
mod restoring;
mod setting;
