// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The registers of the device, as Linux' drivers/cpufreq/virtual-cpufreq.c specifies them.
//!
//! Each vCPU has a page at base + vCPU * 0x1000. All registers have 32 bits, little-endian.
//!
//! | offset | register    | access | meaning                                                    |
//! |--------|-------------|--------|------------------------------------------------------------|
//! | 0x00   | cur_perf    | read   | current performance; each vCPU reads it at its ticks       |
//! | 0x04   | set_perf    | write  | performance that the vCPU's policy requests                |
//! | 0x08   | perftbl_len | read   | entries of the table, 1..=64; 1: only a maximum, no table  |
//! | 0x0c   | perftbl_sel | write  | the entry to read next                                     |
//! | 0x10   | perftbl_rd  | read   | the selected entry                                         |
//! | 0x14   | perf_domain | read   | vCPUs with the same value share a policy                   |
//!
//! The table defines the unit of performance. This device uses kHz.

/// Distance between the register pages of two consecutive vCPUs.
pub const PAGE_BYTES: u64 = 0x1000;
/// The only width that an access may have.
pub const REGISTER_BYTES: usize = 4;

/// Current performance (read).
pub const CUR_PERF: u64 = 0x00;
/// Requested performance (write).
pub const SET_PERF: u64 = 0x04;
/// Number of table entries (read).
pub const PERFTBL_LEN: u64 = 0x08;
/// Selected table entry (write).
pub const PERFTBL_SEL: u64 = 0x0c;
/// Value of the selected entry (read).
pub const PERFTBL_RD: u64 = 0x10;
/// Performance domain (read).
pub const PERF_DOMAIN: u64 = 0x14;

/// Maximum number of table entries (PERFTBL_MAX_ENTRIES). The driver does not bind if a table has
/// more.
pub const TABLE_LEN_MAX: usize = 64;
