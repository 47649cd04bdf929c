// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The registers of Linux' drivers/cpufreq/virtual-cpufreq.c, which specifies the device.
//!
//! One page per vCPU, at base + vCPU * 0x1000. All registers have 32 bits, little-endian.
//!
//! | offset | register    | access | meaning                                                    |
//! |--------|-------------|--------|------------------------------------------------------------|
//! | 0x00   | cur_perf    | read   | performance of the moment; each vCPU reads it at its ticks |
//! | 0x04   | set_perf    | write  | performance that the vCPU's policy asks for                |
//! | 0x08   | perftbl_len | read   | entries of the table, 1..=64; 1: only a maximum, no table  |
//! | 0x0c   | perftbl_sel | write  | the entry to read next                                     |
//! | 0x10   | perftbl_rd  | read   | that entry                                                 |
//! | 0x14   | perf_domain | read   | vCPUs with the same value share a policy                   |
//!
//! The unit of performance is the table's own; here it is kHz.

/// Distance of vCPUs' registers.
pub const PAGE_BYTES: u64 = 0x1000;
/// The only width of an access.
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

/// Most entries of a table: with more the driver does not bind (PERFTBL_MAX_ENTRIES).
pub const TABLE_LEN_MAX: usize = 64;
