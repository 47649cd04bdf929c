// SPDX-License-Identifier: GPL-2.0-only
//! The host's CPUs: performance domains, energy model and frequency governors.

pub mod domains;
pub mod energy;
pub mod governors;
